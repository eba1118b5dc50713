"""The interface of systems that find names for queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Searcher(Protocol):
    """A system that finds names for queries."""

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find names.

        names (Sequence[str]): The dictionary.
        queries (Sequence[str]): The queries.
        k (int): Names of each query; at most the number of names.
        RETURNS (tuple[ndarray, ndarray]): Rows of names, shape (queries, k), int64, best first, equal ones by row,
            padded with -1; and their scores, float32, padded with -inf.
        """
        ...
