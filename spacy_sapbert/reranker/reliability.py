"""How far probabilities can be trusted: calibration error, separation of right and wrong, coverage at a precision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

N_BINS = 15
# The precision at which coverage is reported.
PRECISION = 0.95


class Threshold(NamedTuple):
    """A threshold of the probability, and what it gives on the mentions that it was chosen on.

    threshold (float): The probability that a concept needs.
    precision (float): Share of right concepts among those that have it.
    coverage (float): Share of mentions whose best concept has it.
    """

    threshold: float
    precision: float
    coverage: float


class Bin(NamedTuple):
    """Answers of similar confidence.

    confidence (float): Their mean confidence.
    precision (float): The share of right ones.
    n (int): Their number.
    """

    confidence: float
    precision: float
    n: int


def bin_confidences(confidence: np.ndarray, is_right: np.ndarray) -> list[Bin]:
    """Put answers into bins of equal width by their confidence.

    confidence (ndarray): Probabilities from 0 to 1.
    is_right (ndarray): Whether each answer is right; bool.
    RETURNS (list[Bin]): The bins that have answers, in ascending order.
    """
    places = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    masks = [places == bin_ for bin_ in np.unique(places)]
    return [Bin(float(confidence[mask].mean()), float(is_right[mask].mean()), int(mask.sum())) for mask in masks]


def calibration_error(confidence: np.ndarray, is_right: np.ndarray) -> float:
    """Compute the expected calibration error, with 15 bins of equal width.

    confidence (ndarray): Probabilities of the best concept of each mention.
    is_right (ndarray): Whether it is right; bool.
    RETURNS (float): The mean distance between probability and share of right ones, weighted by the bins' mentions.
    """
    bins = bin_confidences(confidence, is_right)
    return sum(abs(found.confidence - found.precision) * found.n for found in bins) / max(len(confidence), 1)


def area_under_roc(probabilities: np.ndarray, is_right: np.ndarray) -> float | None:
    """Compute how often a right decision has a higher probability than a wrong one.

    probabilities (ndarray): Of the best concept of each mention.
    is_right (ndarray): Whether it is right; bool.
    RETURNS (float | None): The area; ties count half. None if all are right or all wrong.
    """
    right = np.asarray(is_right, dtype=bool)
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    if not n_right or not n_wrong:
        return None
    _, place, counts = np.unique(np.asarray(probabilities), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return float((ranks[right].sum() - n_right * (n_right + 1) / 2) / (n_right * n_wrong))


def choose_threshold(probabilities: np.ndarray, is_right: np.ndarray, precision: float) -> Threshold:
    """Choose the threshold with the largest coverage at a promised precision.

    probabilities (ndarray): Of the best concept of each mention, at least one.
    is_right (ndarray): Whether it is right; bool.
    precision (float): The promised precision.
    RETURNS (Threshold): The threshold; the one with the highest precision if none keeps the promise. If nothing is
        right, nothing is chosen: a threshold of 1 with a coverage of 0.
    """
    if not np.any(is_right):
        return Threshold(1.0, 0.0, 0.0)
    coverages, precisions = risk_coverage(probabilities, is_right)
    kept = np.flatnonzero(precisions >= precision)
    chosen = int(kept[-1]) if len(kept) else int(np.argmax(precisions))
    lowest = np.unique(probabilities)[::-1][chosen]
    return Threshold(float(lowest), float(precisions[chosen]), float(coverages[chosen]))


def risk_coverage(confidence: np.ndarray, is_right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the precision of the most confident answers, for each share of answers. Equal ones come together.

    confidence (ndarray): Any numbers.
    is_right (ndarray): Whether each answer is right; bool.
    RETURNS (tuple[ndarray, ndarray]): Coverages, ascending, and precisions; one for each distinct confidence.
    """
    order = np.argsort(-confidence, kind="stable")
    ordered = confidence[order]
    last = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)
    return (last + 1) / len(ordered), np.cumsum(is_right[order])[last] / (last + 1)


def coverage_at(confidence: np.ndarray, is_right: np.ndarray, precision: float = PRECISION) -> float:
    """Find the largest share of answers that can be given with a precision.

    confidence (ndarray): Any numbers.
    is_right (ndarray): Whether each answer is right; bool.
    precision (float): The precision.
    RETURNS (float): The share; 0 if no threshold reaches the precision.
    """
    best = choose_threshold(confidence, is_right, precision)
    return best.coverage if best.precision >= precision else 0.0


def nil_scores(is_nil: np.ndarray, predicted: np.ndarray) -> tuple[float, float, float]:
    """Compute precision, recall and F1 of NIL.

    is_nil (ndarray): Whether each mention has no concept; bool.
    predicted (ndarray): Whether each was left without one; bool.
    RETURNS (tuple[float, float, float]): Precision, recall and F1; 0 where there is nothing to divide by.
    """
    hits = int((is_nil & predicted).sum())
    n_gold, n_predicted = int(is_nil.sum()), int(predicted.sum())
    return hits / max(n_predicted, 1), hits / max(n_gold, 1), 2 * hits / max(n_gold + n_predicted, 1)
