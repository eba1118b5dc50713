"""Features of the linkers' scores."""

from __future__ import annotations

import numpy as np

from ..lists import Lists
from .base import FeatureGroup, QueryBatch

# Scores of equal vectors can differ by this much.
TIE = 1e-6


def compute_scores(batch: QueryBatch) -> np.ndarray:
    """Compute the scores' features. Without other linkers, those of other linkers are zero.

    batch (QueryBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features).
    """
    lists, first = batch.lists, batch.scores[:, 0]
    is_tied = np.abs(first - lists.best(first)[lists.mention]) < TIE
    n_tied = np.bincount(lists.mention[is_tied], minlength=lists.n_mentions)[lists.mention]
    own = [*_compare(first, lists), 1.0 / (1.0 + lists.place), np.where(is_tied, n_tied, 0)]
    if batch.scores.shape[1] == 1:
        others = [np.zeros(len(first))] * 3
    else:
        others = _compare(batch.scores[:, 1:].max(axis=1), lists)
    return np.stack([*own, *others], axis=1)


def _compare(scores: np.ndarray, lists: Lists) -> list[np.ndarray]:
    """Return the scores, and their distances to the best and to the best other one."""
    best = lists.best(scores)[lists.mention]
    is_best = np.zeros(len(scores), dtype=bool)
    tops = np.flatnonzero(scores == best)
    # One of each list, if several are equal.
    is_best[tops[np.unique(lists.mention[tops], return_index=True)[1]]] = True
    second = lists.best(np.where(is_best, -1.0, scores).astype(scores.dtype))[lists.mention]
    return [scores, scores - best, scores - np.where(is_best, second, best)]


SCORES = FeatureGroup(
    {
        "cosine": "near the mention",
        "margin_to_best": "as near as the nearest",
        "margin_to_other": "nearer than the other candidates",
        "inverse_rank": "first in the linker's order",
        "n_tied": "as near as several others",
        "other_cosine": "near by another encoder",
        "other_margin_to_best": "as near as the nearest by another encoder",
        "other_margin_to_other": "nearer than the other candidates by another encoder",
    },
    compute_scores,
)
