"""Fit and measure the probability of a mention's first candidate, by which an untrained reranker decides.

A case is NAME=PIPELINE:MENTIONS: a saved pipeline with a linker, and annotated documents (.spacy), whose mentions are
given, or a text file of strings, one on each line, that no concept of the pipeline is right for. With a third part,
:raw, the documents are raw texts: mentions are what the pipeline's matcher finds, and a concept is right if it is one
of an annotated mention that overlaps. What overlaps mentions of unknown concepts only does not count. Another third
part is a file to use in the place of the package's bridge. Weights are fitted to some cases, and measured on all. A
case that was fitted is measured with weights of the other corpora; the part of a name before "_" is its corpus.

With a second encoder, only the weights of the second reading are fitted and measured, on given mentions (second.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import numpy as np
import second
import spacy
import typer
from sklearn.linear_model import LogisticRegression
from spacy.language import Language
from spacy.tokens import DocBin, Span
from spacy.training import Corpus, Example
from wasabi import msg

from spacy_sapbert.annotations import NIL
from spacy_sapbert.files import hash_file
from spacy_sapbert.lexicon.bridge import FILE, Bridge
from spacy_sapbert.reranker.calibration import area_under_roc, calibration_error
from spacy_sapbert.reranker.gold import AnnotatedMentions, GoldBatch, run_before
from spacy_sapbert.reranker.network import sigmoid
from spacy_sapbert.reranker.prior import (
    BEFORE_TRAINING,
    CHANCE,
    FOUND,
    MIN_CHANCE,
    MIN_FOUND,
    Match,
    make_match_signals,
    make_signals,
)
from training.corpora.gold import list_gold_spans
from training.data.run_folder import list_versions, write_json, write_text
from training.evaluation.documents import hash_folder
from training.markup import format_rows

# These are set, not fitted: nearly all that is behind the first, says the opposite, or is doubtful, is wrong.
SET = {"behind": CHANCE["behind"], "opposite": CHANCE["opposite"], "doubt": FOUND["doubt"]}
# Mentions of a case that count, and the weight of a case of strings that are no names.
MOST_MENTIONS = 2500
FOREIGN = 0.3
RANKS = (1, 5)
# Probabilities that may be the least for an id.
BARS = [round(0.01 * number, 2) for number in range(10, 91)]
# The third part of a case of raw texts.
RAW = "raw"
TITLES = [
    *("linker", "reranker", "linker, distinct", "reranker, distinct"),
    *("ECE", "AUROC", "ids", "ids, linker", "ids, right"),
]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Case(NamedTuple):
    """The mentions of a case."""

    name: str
    is_foreign: bool
    matches: list[Match]  # of raw texts, how each was found
    signals: dict[str, np.ndarray]  # of each mention's first candidate, by `CHANCE`
    cosine: np.ndarray  # of the linker's first candidate
    is_right: np.ndarray  # the first candidate, or one that counts as one with it
    is_right_alone: np.ndarray  # the linker's first candidate
    n_alike: np.ndarray  # mentions that have the same candidates
    min_score: float  # the linker's threshold
    accuracies: list[float]  # of linker and reranker, at `RANKS`; then of distinct mentions

    @property
    def corpus(self) -> str:
        """The corpus of the case."""
        return find_corpus(self.name)


class Weights(NamedTuple):
    """The weights of `CHANCE` and `FOUND`."""

    chance: Mapping[str, float]
    found: Mapping[str, float]


class OpenCase(NamedTuple):
    """The pipeline of a case, with an untrained reranker at its end, and its mentions."""

    name: str
    nlp: Language
    reranker: Any
    path: Path  # of the mentions
    is_raw: bool

    @property
    def is_foreign(self) -> bool:
        """Whether its mentions are strings that no concept is right for."""
        return self.path.suffix != ".spacy"

    def list_given(self) -> list[Example]:
        """List the documents with given mentions, as they are in front of the reranker."""
        examples = _iter_foreign(self.nlp, self.path) if self.is_foreign else Corpus(self.path)(self.nlp)
        with self.nlp.select_pipes(disable=_list_matchers(self.nlp)):
            return run_before(self.reranker, self.nlp, examples)


@contextmanager
def open_case(text: str) -> Iterator[OpenCase]:
    """Load the pipeline of a case. Its bridge is used until the case is closed."""
    name, _, paths = text.partition("=")
    pipeline, mentions, *rest = paths.split(":")
    is_raw = rest == [RAW]
    nlp = spacy.load(pipeline)
    if "sapbert_reranker" in nlp.pipe_names:
        nlp.remove_pipe("sapbert_reranker")
    bridge = FILE if is_raw else Path(*rest or [FILE])
    with patch("spacy_sapbert.lexicon.bridge.get_bridge", lambda: Bridge.load(bridge)):
        reranker: Any = nlp.add_pipe("sapbert_reranker", config={"cache_size": 0})
        yield OpenCase(name, nlp, reranker, Path(mentions), is_raw)


def read_case(text: str) -> Case:
    """Read a case, and look up its mentions."""
    matches: list[Match] = []
    with open_case(text) as case:
        if case.is_raw:
            batch, matches = _read_raw(case.nlp, case.reranker, case.path)
        else:
            examples = case.list_given()
            with case.nlp.select_pipes(disable=_list_matchers(case.nlp)):
                batch = case.reranker.read_gold(examples)
        linker: Any = case.nlp.get_pipe("sapbert_linker")
    if batch is None:
        raise typer.BadParameter(f"{case.path} has no mention of the case '{case.name}'.")
    return summarise(case.name, case.is_foreign, linker.min_score, batch, matches)


def read_second(text: str, encoder: Path, vectors: Path) -> second.SecondCase:
    """Read a case, and look up its mentions again with a second encoder."""
    with open_case(text) as case:
        if case.is_raw or case.is_foreign:
            raise typer.BadParameter(f"The case '{case.name}' has no given mentions. Give PIPELINE:DOCUMENTS.spacy.")
        return second.read_case(
            case.name, find_corpus(case.name), case.reranker, case.nlp, case.list_given(), encoder, vectors
        )


def find_corpus(name: str) -> str:
    """Find the corpus of a case."""
    return name.partition("_")[0]


def _list_matchers(nlp: Language) -> list[str]:
    return [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "terminology_matcher"]


def _read_raw(nlp: Language, reranker: Any, path: Path) -> tuple[GoldBatch | None, list[Match]]:
    """Look up what the matcher finds in texts, with the concepts of the annotated mentions that it overlaps."""
    golds = list(DocBin().from_disk(path).get_docs(nlp.vocab))
    with nlp.select_pipes(disable=[reranker.name]):
        docs = list(nlp.pipe(gold.text for gold in golds))
    fixed = reranker._find_fixed(nlp=nlp)
    annotated = [[(span, fixed.gold.resolve(span.kb_id_)) for span in list_gold_spans(gold)] for gold in golds]
    mentions = []
    right = []
    for mention in fixed.linker.list_mentions(docs):
        ent = docs[mention.document].ents[mention.place]
        over = [ids for span, ids in annotated[mention.document] if overlap(span, ent)]
        if any(over) or not over:
            mentions.append(mention)
            right.append(frozenset().union(*over))
    if not mentions:
        return None, []
    documents = [mention.document for mention in mentions]
    batch = AnnotatedMentions(mentions, documents, documents, right).look_up(fixed.table)
    return batch, [(mention.forms, mention.match) for mention in mentions]


def overlap(one: Span, other: Span) -> bool:
    """Check whether two spans share a character."""
    return one.start_char < other.end_char and other.start_char < one.end_char


def _iter_foreign(nlp: Language, path: Path) -> Iterator[Example]:
    linker: Any = nlp.get_pipe("sapbert_linker")
    names = {name.lower() for name in linker.terminology.names["name"]}
    for line in path.read_text(encoding="utf8").splitlines():
        if line.strip() and line.strip().lower() not in names:
            doc = nlp.make_doc(line.strip())
            doc.ents = [Span(doc, 0, len(doc), label="OTHER", kb_id=NIL)]
            yield Example(nlp.make_doc(doc.text), doc)


def summarise(name: str, is_foreign: bool, min_score: float, batch: GoldBatch, matches: Sequence[Match]) -> Case:
    """Summarise mentions. Those without candidates do not count."""
    lists = batch.given.lists
    features = batch.given.features
    column = {feature: features[:, place].astype(np.float64) for place, feature in enumerate(BEFORE_TRAINING)}
    signals = make_signals(lists, column, batch.given.alike)
    order = lists.sort(column["prior"])
    right = batch.is_right[lists.rows]
    is_any = lists.best(right & lists.find_alike(order, batch.given.alike), empty=False)
    filled = lists.lengths > 0
    starts = lists.offsets[:-1][filled]
    ends = lists.offsets[1:][filled]
    first = order[starts]
    # Mentions with the same candidates are one string.
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    strings = [features[start:end].tobytes() for start, end in bounds]
    _, alike, places = np.unique(np.array(strings, dtype=object), return_index=True, return_inverse=True)
    n_alike = np.bincount(places)
    has_right = ~batch.is_nil[filled]
    hits = [lists.best(of_order & (lists.place < rank))[filled] for of_order in (right, right[order]) for rank in RANKS]
    distinct = np.intersect1d(alike, np.flatnonzero(has_right))
    chosen = [hit[which] for which in (has_right, distinct) for hit in hits]
    means = [float(np.mean(hit)) if len(hit) else 0.0 for hit in chosen]
    values = {key: np.asarray(signals[key], dtype=np.float64)[first] for key in CHANCE}
    cosine = lists.first(column["cosine"])[filled]
    alone = lists.first(right)[filled]
    of_filled = [match for match, has_some in zip(matches, filled.tolist(), strict=False) if has_some]
    return Case(name, is_foreign, of_filled, values, cosine, is_any[filled], alone, n_alike[places], min_score, means)


def fit(cases: Sequence[Case], columns: Sequence[np.ndarray]) -> np.ndarray:
    """Fit a logistic regression to the first candidates of cases, given columns of each. Corpora count the same, and
    strings that are no names less."""
    rng = np.random.default_rng(0)
    n_cases = Counter(case.corpus for case in cases)
    parts = []
    for case, values in zip(cases, columns, strict=True):
        drawn = np.arange(len(values))
        if len(drawn) > MOST_MENTIONS:
            drawn = rng.choice(len(drawn), MOST_MENTIONS, replace=False)
        # A string that occurs n times counts as the root of n.
        weights = case.n_alike[drawn] ** -0.5
        weights *= (FOREIGN if case.is_foreign else 1 / n_cases[case.corpus]) / weights.sum()
        parts.append((values[drawn], case.is_right[drawn], weights))
    inputs, is_right, weights = map(np.concatenate, zip(*parts, strict=True))
    scale = np.maximum(inputs.std(axis=0), 1e-6)
    model = LogisticRegression(C=100.0, fit_intercept=False, solver="newton-cholesky", tol=1e-6)
    model.fit(inputs / scale, is_right, weights * len(weights) / weights.sum())
    return model.coef_[0] / scale


def fit_signals(cases: Sequence[Case], signals: Sequence[Mapping[str, np.ndarray]]) -> dict[str, float]:
    """Fit the weights of signals, by their names, but for those that are set."""
    names = [name for name in signals[0] if name not in SET]
    weights = fit(cases, [np.stack([of[name] for name in names], axis=1) for of in signals])
    fitted = dict(zip(names, weights.tolist(), strict=True))
    return {name: SET.get(name, fitted.get(name, 0.0)) for name in signals[0]}


def fit_weights(cases: Sequence[Case]) -> Weights:
    """Fit the weights of `CHANCE` to given mentions, and then those of `FOUND` to matches."""
    of_pipelines = [case for case in cases if not case.matches]
    raw = [case for case in cases if case.matches]
    has_names = any(not case.is_foreign for case in of_pipelines)
    chance = fit_signals(of_pipelines, [case.signals for case in of_pipelines]) if has_names else CHANCE
    of_matches = [make_match_signals(weigh(case.signals, chance), case.matches) for case in raw]
    return Weights(chance, fit_signals(raw, of_matches) if raw else FOUND)


def weigh(signals: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> np.ndarray:
    """Compute probabilities."""
    return sigmoid(np.sum([weight * signals[name] for name, weight in weights.items()], axis=0))


def judge(case: Case, weights: Weights) -> np.ndarray:
    """Compute the probabilities of first candidates."""
    chance = weigh(case.signals, weights.chance)
    return weigh(make_match_signals(chance, case.matches), weights.found) if case.matches else chance


def choose_least(cases: Sequence[Case], weights: Weights, least: float) -> float:
    """Choose the lowest probability for an id that gives as high a share of right ids, the mean of cases, as the
    present weights with theirs."""
    if not cases:
        return least
    present = Weights(CHANCE, FOUND)

    def measure(of: Weights, bar: float) -> float:
        shares = [case.is_right[judge(case, of) >= bar] for case in cases]
        return float(np.mean([share.mean() if len(share) else 1.0 for share in shares]))

    target = measure(present, least)
    return next((bar for bar in BARS if measure(weights, bar) >= target), least)


def fit_cosine(cases: Sequence[Case], chance: float) -> float:
    """Fit the cosine at which the linker's first candidate is as probable as `chance`."""
    alone = [case._replace(is_right=case.is_right_alone) for case in cases]
    bias, weight = fit(alone, [np.stack([np.ones_like(case.cosine), case.cosine], axis=1) for case in cases])
    return float((np.log(chance / (1 - chance)) - bias) / weight)


def describe(case: Case, weights: Weights, threshold: float) -> list[str]:
    """Describe a case: accuracies, probabilities, and what gets an id of reranker and linker."""
    chance = judge(case, weights)
    right = case.is_right
    is_given = chance >= (MIN_FOUND if case.matches else MIN_CHANCE)
    given_alone = case.cosine >= threshold
    if case.is_foreign:
        return [case.name, *[""] * 6, f"{100 * is_given.mean():.1f}", f"{100 * given_alone.mean():.1f}", ""]
    shown = [f"{100 * first:.1f}/{100 * fifth:.1f}" for first, fifth in zip(*[iter(case.accuracies)] * 2, strict=True)]
    share = is_given[right].mean()
    kept_alone = given_alone[case.is_right_alone].mean()
    auroc = area_under_roc(chance, right)
    return [
        case.name,
        *shown,
        f"{calibration_error(chance, right):.3f}",
        "" if auroc is None else f"{auroc:.3f}",
        f"{100 * share:.1f}",
        f"{100 * kept_alone:.1f}",
        f"{100 * right[is_given].mean():.1f}" if is_given.any() else "",
    ]


def hash_inputs(cases: Sequence[str], *folders: Path) -> dict[str, str]:
    """Hash pipelines, mentions and other inputs of cases, by their paths."""
    parts = [part for text in cases for part in text.partition("=")[2].split(":") if part != RAW]
    paths = dict.fromkeys([*map(Path, parts), *folders])
    return {str(path): hash_folder(path) if path.is_dir() else hash_file(path) for path in paths}


def fit_second(cases: Sequence[str], n_fitted: int, output: Path, encoder: Path) -> dict[str, Any]:
    """Fit the weights of the second reading to the first cases, and write the table of all."""
    readings = [read_second(text, encoder, output / "vectors") for text in cases]
    weights, table = second.fit_and_measure(readings, n_fitted)
    write_text(output / "second.md", table)
    return {"reread": weights, "most_mentions": second.MOST_MENTIONS, "without": second.WITHOUT}


def fit_first(cases: Sequence[str], n_fitted: int, output: Path) -> dict[str, Any]:
    """Fit the other weights to the first cases, and write the table of all."""
    samples = [read_case(text) for text in cases]
    learned = samples[:n_fitted]
    raw = [case for case in learned if case.matches]
    strings = [case for case in learned if not case.matches]
    own = [case for case in strings if not case.is_foreign]
    weights = fit_weights(learned) if learned else Weights(CHANCE, FOUND)
    threshold = fit_cosine(strings, MIN_CHANCE) if own else samples[0].min_score
    rows = []
    for number, case in enumerate(samples):
        others = [other for other in learned if other.corpus != case.corpus]
        can_leave_out = number < len(learned) and not case.is_foreign
        of_case = fit_weights(others) if can_leave_out else weights
        rows.append(describe(case, of_case, threshold))
    write_text(output / "prior.md", format_rows(["", *TITLES], rows, n_text_columns=1))
    least = {
        "min_chance": choose_least(own, weights, MIN_CHANCE),
        "min_found": choose_least(raw, weights, MIN_FOUND),
    }
    return {**weights._asdict(), **least, "threshold": threshold}


@app.command()
def main(
    cases: Annotated[str, typer.Argument(help="Cases to measure, with commas between them")],
    output: Path,
    fitted: Annotated[str, typer.Option(help="Cases to fit the weights to and measure, with commas between them")] = "",
    encoder: Annotated[str, typer.Option("--second", help="A second encoder, whose weights alone are fitted")] = "",
) -> None:
    """Write a table, and the weights."""
    learned = [*filter(None, fitted.split(","))]
    texts = [*learned, *filter(None, cases.split(","))]
    if encoder and not learned:
        raise typer.BadParameter("The weights of a second encoder are fitted to cases. Give some with --fitted.")
    folders = [Path(encoder)] if encoder else []
    fit_any = fit_second if encoder else fit_first
    report = {
        **fit_any(texts, len(learned), output, *folders),
        "settings": {"fitted": learned, "measured": texts[len(learned) :], "second": encoder},
        "versions": list_versions("numpy", "scipy", "scikit-learn", "spacy"),
        "inputs": hash_inputs(texts, *folders),
    }
    write_json(output / ("second.json" if encoder else "prior.json"), report)
    msg.good(f"Written to {output}.")


if __name__ == "__main__":
    app()
