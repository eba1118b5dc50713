"""Fit and measure the probability of a mention's first candidate, by which an untrained reranker decides.

A case is NAME=PIPELINE:MENTIONS: a saved pipeline with a linker, and annotated documents (.spacy), or a text file of
strings, one on each line, that no concept of the pipeline is right for. A third part, :BRIDGE, is a file to use in the
place of the package's bridge. Weights are fitted to some cases, and measured on all. A case that was fitted is measured
with weights of the other corpora; the part of a name before "_" is its corpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import numpy as np
import spacy
import typer
from sklearn.linear_model import LogisticRegression
from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Corpus, Example
from wasabi import msg

from spacy_sapbert.annotations import NIL
from spacy_sapbert.lexicon.bridge import FILE, Bridge
from spacy_sapbert.reranker.calibration import area_under_roc, calibration_error
from spacy_sapbert.reranker.component import GoldBatch
from spacy_sapbert.reranker.gold import run_before
from spacy_sapbert.reranker.prior import BEFORE_TRAINING, CHANCE, MIN_CHANCE, make_signals
from training.data.run_folder import write_json, write_text
from training.markup import format_rows

# These are set, not fitted: nearly all that is behind the first, or says the opposite, is wrong.
SET = {"behind": CHANCE["behind"], "opposite": CHANCE["opposite"]}
FITTED = [name for name in CHANCE if name not in SET]
# Mentions of a case that count, and the weight of a case of strings that are no names.
MOST_MENTIONS, FOREIGN = 2500, 0.3
RANKS = (1, 5)
Weights = Mapping[str, float]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Case(NamedTuple):
    """The mentions of a case."""

    name: str
    is_foreign: bool
    signals: np.ndarray  # of each mention's first candidate, by `CHANCE`
    cosine: np.ndarray  # of the linker's first candidate
    is_right: np.ndarray  # the first candidate, or one that counts as one with it
    is_right_alone: np.ndarray  # the linker's first candidate
    n_alike: np.ndarray  # mentions that have the same candidates
    min_score: float  # the linker's threshold
    accuracies: list[float]  # of linker and reranker, at `RANKS`; then of distinct mentions


def read_case(text: str) -> Case:
    """Read a case, and look up its mentions."""
    name, _, paths = text.partition("=")
    pipeline, mentions, *bridges = paths.split(":")
    nlp = spacy.load(pipeline)
    is_foreign = not mentions.endswith(".spacy")
    examples = list(_iter_foreign(nlp, Path(mentions)) if is_foreign else Corpus(mentions)(nlp))
    with patch("spacy_sapbert.lexicon.bridge.get_bridge", lambda: Bridge.load(Path(*bridges) if bridges else FILE)):
        reranker: Any = nlp.add_pipe("sapbert_reranker", config={"cache_size": 0})
        batch = reranker.read_gold(run_before(reranker, nlp, examples))
    if batch is None:
        raise typer.BadParameter(f"{mentions} has no mention of the case '{name}'.")
    linker: Any = nlp.get_pipe("sapbert_linker")
    return summarise(name, is_foreign, linker.min_score, batch)


def _iter_foreign(nlp: Language, path: Path) -> Iterator[Example]:
    linker: Any = nlp.get_pipe("sapbert_linker")
    names = {name.lower() for name in linker.terminology.names["name"]}
    for line in path.read_text(encoding="utf8").splitlines():
        if line.strip() and line.strip().lower() not in names:
            doc = nlp.make_doc(line.strip())
            doc.ents = [Span(doc, 0, len(doc), label="OTHER", kb_id=NIL)]
            yield Example(nlp.make_doc(doc.text), doc)


def summarise(name: str, is_foreign: bool, min_score: float, batch: GoldBatch) -> Case:
    """Summarise annotated mentions, which must all have candidates."""
    lists, features = batch.given.lists, batch.given.features
    column = {feature: features[:, place].astype(np.float64) for place, feature in enumerate(BEFORE_TRAINING)}
    signals = make_signals(lists, column, batch.given.alike)
    order = lists.sort(column["prior"])
    right = batch.is_right[lists.rows]
    is_any = lists.best(right & lists.find_alike(order, batch.given.alike), empty=False)
    filled = lists.lengths > 0
    first = order[lists.offsets[:-1][filled]]
    # Mentions with the same candidates are one string.
    spans = zip(lists.offsets[:-1][filled].tolist(), lists.offsets[1:][filled].tolist(), strict=True)
    strings = [features[start:end].tobytes() for start, end in spans]
    _, alike, places = np.unique(np.array(strings, dtype=object), return_index=True, return_inverse=True)
    n_alike = np.bincount(places)
    has_right = ~batch.is_nil[filled]
    hits = [
        lists.best(right[rows] & (lists.place < rank))[filled]
        for rows in (np.arange(len(right)), order)
        for rank in RANKS
    ]
    distinct = np.intersect1d(alike, np.flatnonzero(has_right))
    means = [float(np.mean(hit[which])) if len(hit[which]) else 0.0 for which in (has_right, distinct) for hit in hits]
    values = np.stack([np.asarray(signals[key], dtype=np.float64)[first] for key in CHANCE], axis=1)
    cosine, alone = lists.first(column["cosine"])[filled], lists.first(right)[filled]
    return Case(name, is_foreign, values, cosine, is_any[filled], alone, n_alike[places], min_score, means)


def fit(cases: Sequence[Case], columns: Sequence[np.ndarray]) -> np.ndarray:
    """Fit a logistic regression to the first candidates of cases, given columns of each."""
    rng = np.random.default_rng(0)
    parts = []
    for case, values in zip(cases, columns, strict=True):
        kept = np.arange(len(values))
        if len(kept) > MOST_MENTIONS:
            kept = rng.choice(len(kept), MOST_MENTIONS, replace=False)
        # A string that occurs n times counts as the root of n.
        weights = case.n_alike[kept] ** -0.5
        weights *= (FOREIGN if case.is_foreign else 1.0) / weights.sum()
        parts.append((values[kept], case.is_right[kept], weights))
    inputs, is_right, weights = map(np.concatenate, zip(*parts, strict=True))
    scale = np.maximum(inputs.std(axis=0), 1e-6)
    model = LogisticRegression(C=100.0, fit_intercept=False, solver="newton-cholesky", tol=1e-6)
    model.fit(inputs / scale, is_right, weights * len(weights) / weights.sum())
    return model.coef_[0] / scale


def fit_weights(cases: Sequence[Case]) -> dict[str, float]:
    """Fit the weights of `CHANCE`."""
    places = [[*CHANCE].index(name) for name in FITTED]
    found = fit(cases, [case.signals[:, places] for case in cases])
    return {name: SET.get(name, 0.0) for name in CHANCE} | dict(zip(FITTED, found.tolist(), strict=True))


def fit_cosine(cases: Sequence[Case], chance: float) -> float:
    """Fit the cosine at which the linker's first candidate is as probable as `chance`."""
    alone = [case._replace(is_right=case.is_right_alone) for case in cases]
    bias, weight = fit(alone, [np.stack([np.ones_like(case.cosine), case.cosine], axis=1) for case in cases])
    return float((np.log(chance / (1 - chance)) - bias) / weight)


def get_chance(case: Case, weights: Weights) -> np.ndarray:
    """Compute the probabilities of first candidates."""
    return 1 / (1 + np.exp(-case.signals @ np.array([weights[name] for name in CHANCE])))


def describe(case: Case, weights: Weights, threshold: float) -> list[str]:
    """Describe a case: accuracies, probabilities, and what gets an id of reranker and linker."""
    chance, right = get_chance(case, weights), case.is_right
    given, given_alone = chance >= MIN_CHANCE, case.cosine >= threshold
    if case.is_foreign:
        return [case.name, *[""] * 6, f"{100 * given.mean():.1f}", f"{100 * given_alone.mean():.1f}"]
    shown = [f"{100 * first:.1f}/{100 * fifth:.1f}" for first, fifth in zip(*[iter(case.accuracies)] * 2, strict=True)]
    kept, kept_alone = given[right].mean(), given_alone[case.is_right_alone].mean()
    auroc = area_under_roc(chance, right)
    return [
        case.name,
        *shown,
        f"{calibration_error(chance, right):.3f}",
        "" if auroc is None else f"{auroc:.3f}",
        f"{100 * kept:.1f}",
        f"{100 * kept_alone:.1f}",
    ]


@app.command()
def main(
    cases: Annotated[str, typer.Argument(help="Cases to measure, with commas between them")],
    output: Path,
    fitted: Annotated[str, typer.Option(help="Cases to fit the weights to and measure, with commas between them")] = "",
) -> None:
    """Write a table, and the weights."""
    found = [read_case(text) for text in filter(None, [*fitted.split(","), *cases.split(",")])]
    learned = found[: len([*filter(None, fitted.split(","))])]
    weights: Weights = CHANCE
    threshold = found[0].min_score
    if learned:
        weights, threshold = fit_weights(learned), fit_cosine(learned, MIN_CHANCE)
    rows = []
    for number, case in enumerate(found):
        others = [other for other in learned if other.name.split("_")[0] != case.name.split("_")[0]]
        can_leave_out = number < len(learned) and not case.is_foreign and not all(one.is_foreign for one in others)
        of_case = fit_weights(others) if can_leave_out else weights
        rows.append(describe(case, of_case, threshold))
    heading = ["", "linker", "reranker", "linker, distinct", "reranker, distinct", "ECE", "AUROC", "ids", "ids, linker"]
    write_text(output / "prior.md", format_rows(heading, rows, n_text_columns=1))
    write_json(output / "prior.json", {"weights": {**weights}, "threshold": threshold})
    msg.good(f"Written to {output}.")


if __name__ == "__main__":
    app()
