"""What a system is, and how its results are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class System(Protocol):
    """Whatever finds names for queries."""

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find names.

        names (Sequence[str]): The dictionary.
        queries (Sequence[str]): What to look up.
        k (int): Names wanted for each query, at most as many as there are.
        RETURNS (Tuple[ndarray, ndarray]): Rows of names, shape (queries, k), int64, best first, equal ones by row,
            padded with -1; and their scores, float32, padded with -inf.
        """
        ...


def take_best(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Take the rows with the highest scores, and of those with equal scores the first, without sorting all.

    rows (ndarray): Rows, each once.
    scores (ndarray): Their scores.
    k (int): Rows wanted at most.
    RETURNS (Tuple[ndarray, ndarray]): The best rows and their scores, best first.
    """
    if len(rows) > k:
        likely = scores >= np.partition(scores, -k)[-k]
        rows, scores = rows[likely], scores[likely]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def pad(found: list[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Put what was found for each query into one array.

    found (List[Tuple[ndarray, ndarray]]): Rows and scores of each query, at most `k`.
    k (int): Columns.
    RETURNS (Tuple[ndarray, ndarray]): Rows and scores as `System.search` gives them.
    """
    all_rows = np.full((len(found), k), -1, dtype=np.int64)
    all_scores = np.full((len(found), k), -np.inf, dtype=np.float32)
    for query, (rows, scores) in enumerate(found):
        all_rows[query, : len(rows)], all_scores[query, : len(rows)] = rows, scores
    return all_rows, all_scores
