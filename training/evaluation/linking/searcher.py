"""The interface of systems that find names for queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Searcher(Protocol):
    """Whatever finds names for queries."""

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find names.

        names (Sequence[str]): The dictionary.
        queries (Sequence[str]): What to look up.
        k (int): Names wanted for each query, at most as many as there are.
        RETURNS (tuple[ndarray, ndarray]): Rows of names, shape (queries, k), int64, best first, equal ones by row,
            padded with -1; and their scores, float32, padded with -inf.
        """
        ...
