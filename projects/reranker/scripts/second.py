"""Fit what a second encoder changes: the weights of `reranker.prior.REREAD`, which are added to those of `CHANCE`.

They are fitted to the distinct mentions of cases, each given alone, and to the same mentions without their right
concepts, where each first candidate is wrong. Only mentions that are read again count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from spacy.training import Example

from spacy_sapbert.candidates import Candidates
from spacy_sapbert.reranker.calibration import area_under_roc
from spacy_sapbert.reranker.features import ConceptFacts
from spacy_sapbert.reranker.gold import AnnotatedMentions, list_gold
from spacy_sapbert.reranker.network import Lists, logit, sigmoid
from spacy_sapbert.reranker.prior import MIN_CHANCE, REREAD, SecondSignals, compute_prior, make_second_signals
from spacy_sapbert.reranker.second import SecondReader, SecondReading
from training.markup import format_rows

# Distinct mentions of a case that count.
MOST_MENTIONS = 500
# What a mention without its right concepts counts beside the mention.
WITHOUT = 0.2
# Keeps weights small where a signal hardly varies.
RIDGE = 1e-4
TITLES = ["weights", "read again", "loss", "AUROC", "ids, P", "ids, R", "ids without"]
Weights = Mapping[str, float]
NOTHING = dict.fromkeys(REREAD, 0.0)


class Reading(NamedTuple):
    """The first candidates of mentions."""

    logits: np.ndarray  # before the second reading
    second: SecondSignals
    is_right: np.ndarray

    @property
    def is_read(self) -> np.ndarray:
        """Which mentions the second encoder has read."""
        return ~np.isnan(self.second.signals["second"])

    def add(self, weights: Weights) -> np.ndarray:
        """Compute logits after the second reading."""
        return self.logits + self.second.weigh(weights)

    def list_losses(self, weights: Weights) -> np.ndarray:
        """List the losses of mentions that were read again."""
        logits = self.add(weights)[self.is_read]
        return np.logaddexp(0, logits) - self.is_right[self.is_read] * logits


class SecondCase(NamedTuple):
    """The mentions of a case, among all candidates and without those that are right."""

    name: str
    corpus: str
    whole: Reading
    without: Reading

    def compute_loss(self, weights: Weights) -> float:
        """Compute the mean loss of a mention that was read again."""
        total = self.whole.list_losses(weights).sum() + WITHOUT * self.without.list_losses(weights).sum()
        return float(total / max(self.whole.is_read.sum(), 1))


def read_mentions(reranker: Any, nlp: Any, examples: Sequence[Example]) -> AnnotatedMentions:
    """List distinct mentions, each by its more telling form, and the ids that are right."""
    fixed = reranker._find_fixed(nlp=nlp)
    annotated = AnnotatedMentions.read(list_gold(examples, use_gold_ents=True), fixed.linker, fixed.gold)
    pairs = zip(annotated.mentions, annotated.right, strict=True)
    right = {mention.forms[0]: ids for mention, ids in pairs if mention.forms and ids}
    texts = sorted(right)
    if len(texts) > MOST_MENTIONS:
        drawn = np.random.default_rng(0).choice(len(texts), MOST_MENTIONS, replace=False)
        texts = [texts[place] for place in sorted(drawn)]
    alone = [*range(len(texts))]
    return AnnotatedMentions(fixed.linker.list_texts(texts), alone, alone, [right[text] for text in texts])


def read_case(
    name: str, corpus: str, reranker: Any, nlp: Any, examples: Sequence[Example], second: Path, vectors: Path
) -> SecondCase:
    """Look mentions up, and read them again."""
    fixed = reranker._find_fixed(nlp=nlp)
    retriever = fixed.linker.snapshot.retriever
    reader = SecondReader(SecondReading.make(second, retriever, vectors), retriever)
    annotated = read_mentions(reranker, nlp, examples)
    if not annotated.mentions:
        raise ValueError(f"The case '{name}' has no mention of a concept of its pipeline. Give annotated documents.")
    candidates = fixed.linker.look_up(annotated.mentions, reranker.n_candidates)
    ids = fixed.table.list_ids(candidates.concept)
    owners = candidates.mention.tolist()
    is_right = np.array([id_ in annotated.right[owner] for id_, owner in zip(ids, owners, strict=True)], dtype=bool)
    facts = ConceptFacts(retriever)
    whole = read_first(candidates, is_right, facts, reader)
    wrong = np.flatnonzero(~is_right)
    return SecondCase(name, corpus, whole, read_first(candidates.take(wrong), is_right[wrong], facts, reader))


def read_first(candidates: Candidates, is_right: np.ndarray, facts: ConceptFacts, reader: SecondReader) -> Reading:
    """Read the first candidate of each mention that has any. One that counts as one with it may be right as well."""
    lists = Lists(candidates.lengths)
    scores = candidates.score.round(6).astype(np.float32)
    values = compute_prior(candidates, scores, facts.list_names, facts.bridged)
    second = make_second_signals(lists, values["prior"], reader.read(candidates, scores), values["alike"])
    order = lists.sort(values["prior"])
    is_any = lists.best(is_right & lists.find_alike(order, values["alike"]), empty=False)
    is_filled = lists.lengths > 0
    first = order[lists.offsets[:-1][is_filled]]
    signals = {name: of[first] for name, of in second.signals.items()}
    of_first = SecondSignals(signals, second.is_behind[first])
    return Reading(logit(values["chance"][first]), of_first, is_any[is_filled])


def fit(cases: Sequence[SecondCase]) -> dict[str, float]:
    """Fit the weights by the likelihood of what is right. Corpora count the same."""
    n_cases = Counter(case.corpus for case in cases)

    def compute_loss(values: np.ndarray) -> float:
        weights = dict(zip(REREAD, values.tolist(), strict=True))
        losses = [case.compute_loss(weights) / n_cases[case.corpus] for case in cases]
        return sum(losses) / len(n_cases) + RIDGE * float(values @ values)

    # The loss has edges where a candidate is behind another.
    best = minimize(compute_loss, np.zeros(len(REREAD)), method="Nelder-Mead", options={"maxiter": 2000})
    return {name: round(value, 2) for name, value in zip(REREAD, best.x.tolist(), strict=True)}


def describe(case: SecondCase, weights: Weights) -> list[str]:
    """Describe what weights give: among mentions that were read again loss and AUROC, and the ids of all mentions."""
    is_read = case.whole.is_read
    chance = sigmoid(case.whole.add(weights))
    has_id = chance >= MIN_CHANCE
    right = case.whole.is_right
    auroc = area_under_roc(chance[is_read], right[is_read])
    return [
        f"{100 * is_read.mean():.0f} %",
        f"{case.compute_loss(weights):.3f}",
        "" if auroc is None else f"{auroc:.3f}",
        f"{100 * right[has_id].mean():.1f}" if has_id.any() else "",
        f"{100 * (has_id & right).mean():.1f}",
        str(int((sigmoid(case.without.add(weights)) >= MIN_CHANCE).sum())),
    ]


def fit_and_measure(cases: Sequence[SecondCase], n_fitted: int) -> tuple[dict[str, float], str]:
    """Fit the weights to the first cases, and measure them on all, beside none and those of the package. A case that
    was fitted is measured with weights of the other corpora."""
    fitted = cases[:n_fitted]
    weights = fit(fitted)
    rows = []
    for place, case in enumerate(cases):
        others = [other for other in fitted if other.corpus != case.corpus]
        is_fitted = place < n_fitted
        kinds = {"none": NOTHING, "of the package": REREAD, "fitted": weights}
        if is_fitted and others:
            kinds["fitted to others"] = fit(others)
        rows += [[case.name, kind, *describe(case, of_kind)] for kind, of_kind in kinds.items()]
    return weights, format_rows(["", *TITLES], rows, n_text_columns=2)
