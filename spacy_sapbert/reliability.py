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


def calibration_error(probabilities: np.ndarray, is_right: np.ndarray) -> float:
    """Compute the expected calibration error, with 15 bins of equal width.

    probabilities (ndarray): Of the best concept of each mention.
    is_right (ndarray): Whether it is right; bool.
    RETURNS (float): The mean distance between probability and share of right ones, weighted by the bins' mentions.
    """
    bins = np.minimum((np.asarray(probabilities) * N_BINS).astype(int), N_BINS - 1)
    gaps = np.bincount(bins, weights=np.asarray(probabilities) - np.asarray(is_right, dtype=float), minlength=N_BINS)
    return float(np.abs(gaps).sum() / max(len(bins), 1))


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
    order = np.argsort(-np.asarray(probabilities), kind="stable")
    ordered = np.asarray(probabilities)[order]
    found = np.cumsum(np.asarray(is_right)[order]) / np.arange(1, len(order) + 1)
    # Equal probabilities are above a threshold together.
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    kept = ends[found[ends] >= precision]
    last = int(kept[-1]) if len(kept) else int(ends[np.argmax(found[ends])])
    return Threshold(float(ordered[last]), float(found[last]), (last + 1) / len(order))


def coverage_at(confidence: np.ndarray, is_right: np.ndarray, precision: float = PRECISION) -> float:
    """Find the largest share of answers that can be given with a precision.

    confidence (ndarray): Any numbers.
    is_right (ndarray): Whether each answer is right; bool.
    precision (float): The precision.
    RETURNS (float): The share; 0 if no threshold reaches the precision.
    """
    best = choose_threshold(confidence, is_right, precision)
    return best.coverage if best.precision >= precision else 0.0
