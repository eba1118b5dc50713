"""Fit and measure the trust in names: how probable it is that words of a running text mean what the name means.

A case is NAME=PIPELINE:DOCUMENTS: a saved pipeline with a matcher and a linker, and annotated documents (.spacy). What
the matcher finds without a bar is a mention if it overlaps one that is annotated. Weights are fitted to some cases, and
measured on all. A case that was fitted is measured with weights of the other corpora; the part of a name before "_" is
its corpus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import spacy
import typer
from sklearn.linear_model import LogisticRegression
from spacy.tokens import DocBin
from wasabi import msg

from spacy_sapbert.annotations import read_match
from spacy_sapbert.lexicon.bags import read_names
from spacy_sapbert.lexicon.trust import WAYS, WEIGHTS, compute_signals
from spacy_sapbert.matcher import MatcherSettings
from spacy_sapbert.reranker.calibration import area_under_roc, calibration_error
from training.corpora.gold import list_gold_spans
from training.data.run_folder import write_json, write_text
from training.markup import format_rows

FITTED = [*WEIGHTS, *(f"as {way}" for way in WAYS if way != "exact")]
Weights = Mapping[str, float]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Case(NamedTuple):
    """What the matcher has found in the documents of a case."""

    name: str
    signals: np.ndarray  # by `FITTED`
    is_mention: np.ndarray
    n_alike: np.ndarray  # how often the same string is there


def read_case(text: str) -> Case:
    """Read a case, and find names in its documents."""
    name, _, paths = text.partition("=")
    pipeline, documents = paths.split(":")
    nlp = spacy.load(pipeline)
    components: list[tuple[str, Any]] = nlp.components
    matcher = next(part for _, part in components if isinstance(getattr(part, "settings", None), MatcherSettings))
    matcher.min_trust = 0.0
    retriever = nlp.get_pipe(matcher.linker).retriever
    language = retriever.lexicon.language
    of_names = read_names(retriever.terminology.names["name"], language)
    has_levels = np.full(retriever.terminology.n_names, language.has_levels)
    columns = compute_signals(retriever.terminology, *of_names.first, has_levels)
    of_name = np.stack([columns[key] for key in WEIGHTS], axis=1).astype(np.float64)
    rows: list[int] = []
    ways: list[str] = []
    texts: list[str] = []
    is_mention: list[bool] = []
    with nlp.select_pipes(enable=[part for part in nlp.pipe_names if part in ("schwartz_hearst", matcher.name)]):
        for gold in DocBin().from_disk(documents).get_docs(nlp.vocab):
            doc = nlp(gold.text)
            bounds = [(span.start_char, span.end_char) for span in list_gold_spans(gold)]
            for ent in doc.ents:
                if (match := read_match(ent)) is not None:
                    rows.append(match["names"][0])
                    ways.append(match["how"])
                    texts.append(ent.text)
                    is_mention.append(any(ent.start_char < end and start < ent.end_char for start, end in bounds))
    way = np.array([[how == other for other in WAYS if other != "exact"] for how in ways], dtype=np.float64)
    _, place, counts = np.unique(texts, return_inverse=True, return_counts=True)
    return Case(name, np.hstack([of_name[rows], way]), np.array(is_mention, dtype=bool), counts[place])


def fit(cases: Sequence[Case]) -> dict[str, float]:
    """Fit a logistic regression. All cases count the same; a string that occurs n times counts as the root of n."""
    signals, is_mention = (np.concatenate([case[field] for case in cases]) for field in (1, 2))
    weights = np.concatenate([case.n_alike**-0.5 / (case.n_alike**-0.5).sum() for case in cases])
    scale = np.maximum(signals.std(axis=0), 1e-6)
    # The first is the bias.
    scale[0] = 1.0
    model = LogisticRegression(C=1.0, fit_intercept=False, max_iter=5000)
    model.fit(signals / scale, is_mention, weights * len(weights) / weights.sum())
    return dict(zip(FITTED, (model.coef_[0] / scale).tolist(), strict=True))


def judge(case: Case, weights: Weights) -> np.ndarray:
    """Compute the trust in what was found."""
    return 1 / (1 + np.exp(-case.signals @ np.array([weights[name] for name in FITTED])))


def describe(case: Case, weights: Weights) -> list[str]:
    """Describe a case: how much is a mention, of all and of what the default keeps, and how reliable trust is."""
    trust = judge(case, weights)
    right = case.is_mention
    alone = judge(case._replace(signals=case.signals * ([1.0] * len(WEIGHTS) + [0.0] * (len(WAYS) - 1))), weights)
    is_kept = alone >= MatcherSettings().min_trust
    auroc = area_under_roc(trust, right)
    shares = right.mean(), right[is_kept].mean(), is_kept[right].mean()
    return [
        case.name,
        f"{len(right):,}",
        *(f"{100 * share:.1f}" for share in shares),
        "" if auroc is None else f"{auroc:.3f}",
        f"{calibration_error(trust, right):.3f}",
    ]


@app.command()
def main(
    cases: Annotated[str, typer.Argument(help="Cases to measure, with commas between them")],
    output: Path,
    fitted: Annotated[str, typer.Option(help="Cases to fit the weights to and measure, with commas between them")] = "",
) -> None:
    """Write a table, and the weights."""
    samples = [read_case(text) for text in filter(None, [*fitted.split(","), *cases.split(",")])]
    learned = samples[: len([*filter(None, fitted.split(","))])]
    weights: Weights = WEIGHTS | {f"as {way}": weight for way, weight in WAYS.items()}
    if learned:
        weights = fit(learned)
    rows = []
    for number, case in enumerate(samples):
        others = [other for other in learned if other.name.split("_")[0] != case.name.split("_")[0]]
        rows.append(describe(case, fit(others) if number < len(learned) and others else weights))
    heading = ["", "found", "mentions %", "mentions %, trusted", "mentions kept %", "AUROC", "ECE"]
    write_text(output / "trust.md", format_rows(heading, rows, n_text_columns=1))
    write_json(output / "trust.json", {**weights})
    msg.good(f"Written to {output}.")


if __name__ == "__main__":
    app()
