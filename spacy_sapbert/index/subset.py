"""Exact search among some of an index's rows."""

from __future__ import annotations

import numpy as np

from .exact import ExactIndex, check_finite, exact_search

# Vectors up to this size are copied out of the index; a larger subset is gathered anew for each search.
COPIED_BYTES = 64 * 2**20


class Subset:
    """Compare queries with some rows of an index, whatever the index's own way of searching.

    index (ExactIndex): The index.
    rows (ndarray): Its rows to search, in ascending order; int64.
    """

    def __init__(self, index: ExactIndex, rows: np.ndarray) -> None:
        self._rows = rows
        self._vectors = index.vectors
        self._copied: np.ndarray | None = None
        if len(rows) * index.width * self._vectors.itemsize <= COPIED_BYTES:
            self._copied = self._vectors[rows]

    def __len__(self) -> int:
        """Return the number of rows.

        RETURNS (int): Rows that can be found.
        """
        return len(self._rows)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find those of the rows with the highest cosine for each query.

        queries (ndarray): Shape (n, width), L2-normalised.
        k (int): Rows wanted, at most as many as there are.
        RETURNS (Tuple[ndarray, ndarray]): Rows of the index, shape (n, k), int64, and their cosines, float32. Best
            first.
        RAISES (ValueError): If some queries are not finite.
        """
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        check_finite(queries)
        if self._copied is None:
            return exact_search(self._vectors, queries, k, among=self._rows)
        rows, scores = exact_search(self._copied, queries, k)
        return self._rows[rows], scores
