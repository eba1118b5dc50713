"""Look-up by equality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import pad


class ExactMatch:
    """Names that are equal to the query but for upper and lower case: the floor for any other system."""

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names that equal a query. See `System.search`; all scores are 1."""
        rows_of: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            rows_of.setdefault(name.lower(), []).append(row)
        found = [np.array(rows_of.get(query.lower(), ())[:k], dtype=np.int64) for query in queries]
        return pad([(rows, np.ones(len(rows), dtype=np.float32)) for rows in found], k)
