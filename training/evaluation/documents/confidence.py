"""How far the confidence of a pipeline can be trusted: points of pictures, coverage at a precision, NIL."""

from __future__ import annotations

import numpy as np

from spacy_sapbert.reliability import N_BINS

# Points of a risk-coverage curve in a file of results.
POINTS = 50


def bin_confidences(confidence: np.ndarray, is_right: np.ndarray) -> list[tuple[float, float, int]]:
    """Put answers into bins of equal width by their confidence.

    confidence (ndarray): Probabilities from 0 to 1.
    is_right (ndarray): Whether each answer is right; bool.
    RETURNS (list[tuple[float, float, int]]): Mean confidence, share of right ones and number of each bin with answers.
    """
    places = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    return [
        (float(confidence[places == bin_].mean()), float(is_right[places == bin_].mean()), int((places == bin_).sum()))
        for bin_ in np.unique(places)
    ]


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
