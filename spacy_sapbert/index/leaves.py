"""The base of indexes that arrange their rows in leaves: train on a sample, arrange block by block, search the nearest
leaves."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from .approximate import ApproximateIndex, Steps

# As many leaves as the square root of the rows. Twice as many take twice as long to arrange, and on 463,000 and on 6.7
# million names hardly less time to search.
SAMPLE_PER_LEAF = 50
TRAINING_PASSES = 7
SEED = 0
# Each row goes to a second leaf that covers what the first one misses (SOAR, NeurIPS 2023): without it, 1.5 % to 4 %
# fewer of the nearest names are found. ScaNN cannot edit such an index, so edits have to be kept beside it.
SOAR_LAMBDA = 2.0
# Rows arranged at once: in full precision, half a gigabyte with vectors of 256 numbers.
BLOCK = 500_000
# Search budgets as (leaves, rows rescored exactly), cheapest first. How many leaves are needed depends little on how
# many there are: with 8 of 680, of 2,596 or of 5,120, the nearest name is found for 96 % of altered names.
BUDGETS = (
    *((2, 60), (3, 75), (4, 90), (6, 105), (8, 120), (12, 150), (16, 180), (24, 240), (32, 300), (48, 400)),
    *((64, 500), (96, 600), (128, 800), (256, 1200), (1024, 3000)),
)
# From cheap to dear: three of five altered names stop at once.
STEPS: Steps = ((0.85, 4), (0.7, 16), (0.5, 64))
# A search of more than this share of the leaves, or for more rows than they hold, is done exactly instead, which takes
# little more time: for the farthest mentions in a terminology of some hundred thousand names.
NEARLY_ALL = 0.75
# For fewer queries, ScaNN (12) and FAISS (20) compare them with the leaves in another way, with other results.
QUERY_MULTIPLE = 32


class LeafIndex(ApproximateIndex):
    """Search the leaves that are nearest to a query, rank their rows by hashes, and rescore the best rows exactly."""

    block: ClassVar[int] = BLOCK

    def _get_steps(self) -> Steps:
        return STEPS

    def _count_leaves(self) -> int:
        return round(math.sqrt(len(self._built)))

    def _count_sample(self) -> int:
        return min(self._count_leaves() * SAMPLE_PER_LEAF, len(self._built))

    def _draw_sample(self) -> np.ndarray:
        """Draw rows to train with."""
        rows = np.random.default_rng(SEED).choice(len(self._built), size=self._count_sample(), replace=False)
        return np.asarray(self._built[np.sort(rows)], dtype=np.float32)

    def _configurations(self) -> Iterator[dict[str, Any]]:
        leaves = self._count_leaves()
        for searched, reorder in BUDGETS:
            searched = min(searched, leaves)
            yield {"scoring": "leaves", "leaves": leaves, "leaves_to_search": searched, "reorder": reorder}

    def _find_candidates(self, queries: np.ndarray, k: int, effort: int) -> np.ndarray | None:
        leaves = effort * self.configuration["leaves_to_search"]
        share = leaves / self.configuration["leaves"]
        rescored = max(round(self.configuration["reorder"] * effort**0.5), 2 * k)
        if share > NEARLY_ALL or rescored > share * len(self._built):
            return None
        # The rows of a query must not depend on how many others there are.
        padding = np.broadcast_to(queries[-1], (-len(queries) % QUERY_MULTIPLE, self.width))
        rows = self._search_leaves(np.concatenate([queries, padding]), rescored, leaves)
        return rows[: len(queries)]

    @abstractmethod
    def _search_leaves(self, queries: np.ndarray, wanted: int, leaves: int) -> np.ndarray:
        """Find as many rows as wanted with the best hashes in each query's nearest leaves, without repeats, padded with
        -1. FAISS finds a row in both of its leaves, so half as many are enough."""
