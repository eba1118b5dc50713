"""Exact search among selected rows of an index."""

from __future__ import annotations

import numpy as np

from .exact import ExactIndex
from .nearest import ROW_BLOCK, check_finite, exact_search, take_best

# Smaller subsets are copied. The vectors of larger ones are collected at each search.
COPIED_BYTES = 64 * 2**20


class Subset:
    """Compare queries with selected rows of an index of any kind.

    index (ExactIndex): The index.
    rows (ndarray): Its rows to search, in ascending order; int64.
    """

    def __init__(self, index: ExactIndex, rows: np.ndarray) -> None:
        self._rows = rows
        self._index = index
        self._copied: np.ndarray | None = None
        if len(rows) * index.width * np.dtype(np.float32).itemsize <= COPIED_BYTES:
            self._copied = index.take(rows)

    def __len__(self) -> int:
        """Return the number of rows.

        RETURNS (int): Rows that can be found.
        """
        return len(self._rows)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the selected rows with the highest cosine for each query.

        queries (ndarray): Shape (n, width), L2-normalised.
        k (int): Rows wanted, at most as many as there are.
        RETURNS (tuple[ndarray, ndarray]): Rows of the index, shape (n, k), int64, and their cosines, float32. Best
            first.
        RAISES (ValueError): If some queries are not finite.
        """
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        check_finite(queries)
        if self._copied is not None:
            rows, scores = exact_search(self._copied, queries, k)
            return self._rows[rows], scores
        best = np.empty((len(queries), 0), dtype=np.int64)
        highest = np.empty((len(queries), 0), dtype=np.float32)
        for start in range(0, len(self), ROW_BLOCK):
            vectors = self._index.take(self._rows[start : start + ROW_BLOCK])
            rows, scores = exact_search(vectors, queries, min(k, len(vectors)))
            found = np.concatenate([best, rows + start], axis=1), np.concatenate([highest, scores], axis=1)
            best, highest = take_best(*found, k)
        return self._rows[best], highest
