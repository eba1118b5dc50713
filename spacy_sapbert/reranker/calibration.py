"""Probabilities: from a softmax to shares of right decisions, thresholds, and scores of how far both can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
from spacy.training import Example

from ..annotations import NIL, get_candidates
from ..errors import warn
from ..scorer import iter_entities, linker_score
from .memory import IDENTITY, Curve
from .network import logit, sigmoid

# With fewer mentions two parameters are fitted, otherwise a step function of any form.
ENOUGH_FOR_STEPS = 500
# Steps of Newton's method, the smallest one, and points of the function that are stored.
NEWTON_STEPS = 30
TINY = 1e-9
PLATT_POINTS = 1025
# Bins of the calibration error, and the precision at which coverage is reported.
N_BINS = 15
PRECISION = 0.95
# With fewer annotated mentions, chance decides what a calibration fits.
FEW = 50
NO_LINK = ("", NIL)
NIL_SCORES = ("nel_nil_p", "nel_nil_r", "nel_nil_f")


class Calibration(NamedTuple):
    """What calibrating has changed, on the documents that it was fitted to."""

    n_mentions: int
    error_before: float  # expected calibration error of the best concepts' probabilities
    error_after: float


class Threshold(NamedTuple):
    """A threshold of the probability, and what it gives on the mentions that it was chosen on."""

    threshold: float  # the probability that a concept needs
    precision: float  # share of right concepts among those that have it
    coverage: float  # share of mentions whose best concept has it


class Judged(NamedTuple):
    """Decisions on annotated mentions: three columns of those that have candidates, and two of all."""

    best: np.ndarray  # the softmax's probability of the best concept and those that count as one with it
    is_first: np.ndarray  # whether the best concept is right
    is_right: np.ndarray  # whether any of those is
    nil: np.ndarray  # the probability of NIL
    is_nil: np.ndarray  # whether no concept is right


class Bin(NamedTuple):
    """Answers of similar confidence."""

    confidence: float  # their mean
    precision: float  # share of right ones
    n: int


def fit_curve(probabilities: np.ndarray, is_right: np.ndarray) -> Curve:
    """Fit a monotone map to decisions: Platt's with few of them, else isotonic regression.

    Decisions that are all right, or all wrong, leave probabilities as they are.
    """
    right = np.asarray(is_right, dtype=np.float64)
    if not len(right) or right.min() == right.max():
        return IDENTITY
    if len(right) < ENOUGH_FOR_STEPS:
        return _fit_platt(np.asarray(probabilities, dtype=np.float64), right)
    return _fit_isotonic(np.asarray(probabilities, dtype=np.float64), right)


def warn_of_chance(name: str, judged: Judged) -> None:
    """Warn if decisions are too few or too much alike to fit a reranker's probabilities to them."""
    n = len(judged.best)
    if judged.is_right.min() == judged.is_right.max():
        what = "right" if judged.is_right[0] else "wrong"
        warn(
            f"All {n} decisions of the reranker '{name}' on these documents are {what}, so nothing tells its "
            "probabilities apart, and they stay as they are. Calibrate on more documents, which it was not trained "
            "with.",
        )
    elif n < FEW:
        warn(
            f"The reranker '{name}' was calibrated on only {n} annotated mentions, so its probabilities can't be "
            "trusted. Calibrate on a few hundred.",
        )


def _fit_isotonic(probabilities: np.ndarray, right: np.ndarray) -> Curve:
    """Pool adjacent violators, and put a point in the middle of each pool."""
    # Of equal probabilities the right ones come first, so that all of them get into one pool.
    order = np.lexsort((-right, probabilities))
    # Each pool: sum of probabilities, of right ones, and their number. One of each in front and behind keeps the
    # outermost pools away from 0 and 1.
    pools: list[tuple[float, float, int]] = [(0.0, 0.5, 1)]
    points = np.stack([probabilities[order], right[order]], axis=1).tolist()
    for x, y in [*points, (1.0, 0.5)]:
        n = 1
        while pools and pools[-1][1] * n >= y * pools[-1][2]:
            last_x, last_y, last_n = pools.pop()
            x = last_x + x
            y = last_y + y
            n = last_n + n
        pools.append((x, y, n))
    xs, ys, ns = np.array(pools).T
    return Curve(xs / ns, ys / ns)


def _fit_platt(probabilities: np.ndarray, right: np.ndarray) -> Curve:
    """Fit a logistic function of the logit by Newton's method, with Platt's smoothed targets."""
    n_right = right.sum()
    n_wrong = len(right) - n_right
    targets = np.where(right > 0, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    logits = logit(probabilities)
    design = np.stack([logits, np.ones_like(logits)], axis=1)

    def get_loss(weights: np.ndarray) -> float:
        scores = design @ weights
        return float((np.logaddexp(0, scores) - targets * scores).sum())

    weights = np.array([1.0, 0.0])
    for _ in range(NEWTON_STEPS):
        chances = sigmoid(design @ weights)
        slopes = (chances * (1 - chances))[:, None]
        gradient = design.T @ (chances - targets)
        curvature = (design * slopes).T @ design + 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        while get_loss(weights - step) > get_loss(weights) and np.abs(step).max() > TINY:
            step = step / 2
        weights = weights - step
    if weights[0] <= 0:
        # A falling map would turn the order around: the probabilities say nothing.
        weights = np.array([0.0, float(logit(targets.mean()))])
    x = np.linspace(0, 1, PLATT_POINTS)
    scores = logit(x) * weights[0] + weights[1]
    return Curve(x, sigmoid(scores))


def choose_threshold(probabilities: np.ndarray, is_right: np.ndarray, precision: float) -> Threshold:
    """Choose the threshold with the largest coverage at a promised precision.

    If none keeps the promise, the one with the highest precision is chosen. If nothing is right, nothing is chosen: a
    threshold of 1 with a coverage of 0.
    """
    if not np.any(is_right):
        return Threshold(1.0, 0.0, 0.0)
    coverages, precisions = risk_coverage(probabilities, is_right)
    enough = np.flatnonzero(precisions >= precision)
    place = int(enough[-1]) if len(enough) else int(np.argmax(precisions))
    lowest = np.unique(probabilities)[::-1][place]
    return Threshold(float(lowest), float(precisions[place]), float(coverages[place]))


def risk_coverage(confidence: np.ndarray, is_right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute coverage, ascending, and precision of the most confident answers; equal ones come together."""
    order = np.argsort(-confidence, kind="stable")
    ordered = confidence[order]
    last = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)
    n_answers = last + 1
    n_right = np.cumsum(is_right[order])[last]
    return n_answers / len(ordered), n_right / n_answers


def coverage_at(confidence: np.ndarray, is_right: np.ndarray, precision: float = PRECISION) -> float:
    """Find the largest share of answers that can be given with a precision; 0 if no threshold reaches it."""
    best = choose_threshold(confidence, is_right, precision)
    return best.coverage if best.precision >= precision else 0.0


def bin_confidences(confidence: np.ndarray, is_right: np.ndarray) -> list[Bin]:
    """Put answers into bins of equal width by their confidence, and leave out empty ones."""
    places = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    bins = []
    for place in np.unique(places):
        is_in = places == place
        mean = float(confidence[is_in].mean())
        precision = float(is_right[is_in].mean())
        bins.append(Bin(mean, precision, int(is_in.sum())))
    return bins


def calibration_error(confidence: np.ndarray, is_right: np.ndarray) -> float:
    """Compute the expected calibration error: the mean distance between confidence and precision of the bins."""
    bins = bin_confidences(confidence, is_right)
    return sum(abs(pool.confidence - pool.precision) * pool.n for pool in bins) / max(len(confidence), 1)


def area_under_roc(probabilities: np.ndarray, is_right: np.ndarray) -> float | None:
    """Compute how often a right decision has a higher probability than a wrong one; ties count half.

    None if all are right or all wrong.
    """
    right = np.asarray(is_right, dtype=bool)
    n_right = int(right.sum())
    n_wrong = int((~right).sum())
    if not n_right or not n_wrong:
        return None
    _, place, counts = np.unique(np.asarray(probabilities), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return float((ranks[right].sum() - n_right * (n_right + 1) / 2) / (n_right * n_wrong))


def nil_scores(is_nil: np.ndarray, predicted: np.ndarray) -> tuple[float, float, float]:
    """Compute precision, recall and F1 of NIL; 0 where there is nothing to divide by."""
    hits = int((is_nil & predicted).sum())
    n_gold = int(is_nil.sum())
    n_predicted = int(predicted.sum())
    return hits / max(n_predicted, 1), hits / max(n_gold, 1), 2 * hits / max(n_gold + n_predicted, 1)


def make_reranker_scorer() -> Callable[..., dict[str, Any]]:
    """Create the scorer of the reranker, for the registry of scorers."""
    return reranker_score


def reranker_score(
    examples: Iterable[Example],
    *,
    linker: str,
    resolve: Callable[[str], Collection[str]] | None = None,
    **kwargs: Any,
) -> dict[str, float | None]:
    """Compare predicted with gold decisions on entities that have the same boundaries in both.

    examples (Iterable[Example]): The examples.
    linker (str): The name of the reranker.
    resolve (Callable[[str], Collection[str]] | None): Gives the terminology's ids that are right for a gold id.
        A gold id for which there are none counts as NIL.
    RETURNS (dict[str, float | None]): The scores of `linker_score`, and, None where nothing can be computed:
        nel_nil_p, nel_nil_r, nel_nil_f: precision, recall and F-score of NIL.
        nel_ece: expected calibration error of the best concepts' probabilities.
        nel_auroc: how often a right best concept has a higher probability than a wrong one.
        nel_coverage_at_95: share of mentions that the best threshold keeps at a precision of .95.
    """
    examples = list(examples)
    nil: list[bool] = []
    predicted_nil: list[bool] = []
    probabilities: list[float] = []
    is_right: list[bool] = []
    for gold, ent in iter_entities(examples):
        if ent is None or not gold.kb_id_:
            continue
        ids = {gold.kb_id_} if resolve is None else {*resolve(gold.kb_id_)}
        ids -= {*NO_LINK}
        nil.append(not ids)
        predicted_nil.append(ent.kb_id_ in NO_LINK)
        candidates = get_candidates(ent, linker)
        if candidates:
            probabilities.append(candidates[0]["probability"])
            is_right.append(candidates[0]["id"] in ids)
    scores = linker_score(examples, linker=linker, resolve=resolve, **kwargs)
    of_nil = nil_scores(np.array(nil), np.array(predicted_nil)) if any(nil) else (None,) * len(NIL_SCORES)
    scores |= dict(zip(NIL_SCORES, of_nil, strict=True))
    return scores | _score_probabilities(np.array(probabilities), np.array(is_right, dtype=bool))


def _score_probabilities(probabilities: np.ndarray, is_right: np.ndarray) -> dict[str, float | None]:
    if not len(probabilities):
        return dict.fromkeys(("nel_ece", "nel_auroc", "nel_coverage_at_95"))
    return {
        "nel_ece": calibration_error(probabilities, is_right),
        "nel_auroc": area_under_roc(probabilities, is_right),
        "nel_coverage_at_95": coverage_at(probabilities, is_right),
    }
