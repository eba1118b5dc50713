"""Measure the recall of an index against exact search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .exact import exact_search

if TYPE_CHECKING:
    from .exact import ExactIndex

SAMPLE = 10_000
# Scores of one pair of vectors differ by this much between two orders of summation.
TOLERANCE = 1e-5


class RecallTest:
    """Compare an index with exact search, leaving one out.

    Queries are sampled rows. Only *other* rows count as found, because a row finds itself in nearly any index, while
    mentions are mostly similar to names, not equal. Exact neighbours are computed once for all configurations.

    vectors (ndarray): The index's vectors, at least two.
    sample (int): Number of queries.
    k (int): Depth of the second figure.
    seed (int): Seed of the sample.
    """

    def __init__(self, vectors: np.ndarray, *, sample: int = SAMPLE, k: int = 10, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.seed = seed
        self.k = min(k, len(vectors) - 1)
        self.rows = np.sort(rng.choice(len(vectors), size=min(sample, len(vectors)), replace=False))
        self.queries = np.ascontiguousarray(vectors[self.rows])
        self.expected = _scores_of_others(*exact_search(vectors, self.queries, self.k + 1), self.rows)

    def measure(self, index: ExactIndex) -> dict[str, Any]:
        """Measure an index as it is configured.

        index (ExactIndex): An index of the same vectors.
        RETURNS (dict[str, Any]): "at_1" and "at_10" (for k = 10), shares of the exact neighbours found;
            "standard_error" of the first; "queries"; "seed".
        """
        found = _scores_of_others(*index.search(self.queries, self.k + 1), self.rows)
        # By score, so that another row at the same distance counts as found.
        at_1 = float((found[:, 0] >= self.expected[:, 0] - TOLERANCE).mean())
        at_k = float((found >= self.expected[:, -1:] - TOLERANCE).mean())
        n_queries = len(self.rows)
        return {
            "at_1": round(at_1, 4),
            "standard_error": round((at_1 * (1 - at_1) / n_queries) ** 0.5, 4),
            f"at_{self.k}": round(at_k, 4),
            "queries": n_queries,
            "seed": self.seed,
        }


def _scores_of_others(rows: np.ndarray, scores: np.ndarray, selves: np.ndarray) -> np.ndarray:
    """Drop each query's own row, or the last column if the own row was not found."""
    own = rows == selves[:, None]
    own[~own.any(axis=1), -1] = True
    others: np.ndarray = scores[~own].reshape(len(rows), -1)
    return others
