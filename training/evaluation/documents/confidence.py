"""How far the confidence of a pipeline can be trusted: calibration, ranking of right and wrong, NIL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BINS = 10
PRECISION = 0.95
# Points of a risk-coverage curve in a file of results.
POINTS = 50


def bin_confidences(confidence: np.ndarray, is_right: np.ndarray) -> list[tuple[float, float, int]]:
    """Put answers into bins of equal width by their confidence.

    confidence (ndarray): Probabilities from 0 to 1.
    is_right (ndarray): Whether each answer is right; bool.
    RETURNS (list[tuple[float, float, int]]): Mean confidence, share of right ones and number of each bin with answers.
    """
    places = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return [
        (float(confidence[places == bin_].mean()), float(is_right[places == bin_].mean()), int((places == bin_).sum()))
        for bin_ in np.unique(places)
    ]


def calibration_error(bins: Sequence[tuple[float, float, int]]) -> float:
    """Compute the expected calibration error.

    bins (Sequence[tuple[float, float, int]]): What `bin_confidences` returns.
    RETURNS (float): The mean difference of confidence and share of right ones, weighted by the number of answers.
    """
    return sum(abs(mean - right) * n for mean, right, n in bins) / sum(n for _, _, n in bins)


def area_under_roc(confidence: np.ndarray, is_right: np.ndarray) -> float | None:
    """Compute how often a right answer has a higher confidence than a wrong one; ties count half.

    confidence (ndarray): Any numbers.
    is_right (ndarray): Whether each answer is right; bool.
    RETURNS (float | None): The area under the ROC curve; None if all are right, or all wrong.
    """
    n_right, n_wrong = int(is_right.sum()), int((~is_right).sum())
    if not n_right or not n_wrong:
        return None
    _, places, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    # The mean rank of equal values.
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return float((ranks[is_right].sum() - n_right * (n_right + 1) / 2) / (n_right * n_wrong))


def risk_coverage(confidence: np.ndarray, is_right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the precision of the most confident answers, for each share of answers. Equal ones come together.

    confidence (ndarray): Any numbers.
    is_right (ndarray): Whether each answer is right; bool.
    RETURNS (tuple[ndarray, ndarray]): Coverages, ascending, and precisions.
    """
    order = np.argsort(-confidence, kind="stable")
    sorted_ = confidence[order]
    last = np.append(np.flatnonzero(sorted_[1:] != sorted_[:-1]), len(sorted_) - 1)
    return (last + 1) / len(sorted_), np.cumsum(is_right[order])[last] / (last + 1)


def coverage_at(confidence: np.ndarray, is_right: np.ndarray, precision: float = PRECISION) -> float:
    """Find the largest share of answers that can be given with a precision.

    confidence (ndarray): Any numbers.
    is_right (ndarray): Whether each answer is right; bool.
    precision (float): The precision.
    RETURNS (float): The share; 0 if no threshold reaches the precision.
    """
    coverages, precisions = risk_coverage(confidence, is_right)
    return float(coverages[precisions >= precision].max(initial=0.0))


def thin_out(values: np.ndarray) -> list[float]:
    """Choose points of a curve, the first and the last among them.

    values (ndarray): The points.
    RETURNS (list[float]): At most `POINTS` of them.
    """
    rows = np.unique(np.linspace(0, len(values) - 1, POINTS).round().astype(int))
    return [round(float(value), 4) for value in values[rows]]


def nil_scores(is_nil: np.ndarray, predicted: np.ndarray) -> tuple[float, float, float]:
    """Compute precision, recall and F1 of NIL.

    is_nil (ndarray): Whether each mention has no concept; bool.
    predicted (ndarray): Whether each was left without one; bool.
    RETURNS (tuple[float, float, float]): Precision, recall and F1; 0 where there is nothing to divide by.
    """
    hits = int((is_nil & predicted).sum())
    n_gold, n_predicted = int(is_nil.sum()), int(predicted.sum())
    return hits / max(n_predicted, 1), hits / max(n_gold, 1), 2 * hits / max(n_gold + n_predicted, 1)
