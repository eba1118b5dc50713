"""Look-up by equality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import System
from .blocks import pad


class ExactMatch(System):
    """Finds the names that are equal to the query: the floor for any other system.

    lower_case (bool): Ignore case.
    """

    def __init__(self, *, lower_case: bool = True) -> None:
        self.lower_case = lower_case

    @property
    def identity(self) -> dict[str, Any]:
        """Name the setting. See `System.identity`."""
        return {"kind": "exact", "lower_case": self.lower_case}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names that equal a query. See `Searcher.search`; all scores are 1."""
        rows_of: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            rows_of.setdefault(self._fold(name), []).append(row)
        found = [np.array(rows_of.get(self._fold(query), ())[:k], dtype=np.int64) for query in queries]
        return pad([(rows, np.ones(len(rows), dtype=np.float32)) for rows in found], k)

    def _fold(self, text: str) -> str:
        return text.lower() if self.lower_case else text
