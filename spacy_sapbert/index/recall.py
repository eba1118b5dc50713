"""Measure the recall of an index against exact search, and tune an index with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import Warnings
from .nearest import exact_search

if TYPE_CHECKING:
    from .exact import ExactIndex

# As many as there are altered names, which decide: at a target of 0.995, the standard error is 0.0016. Exact search for
# five times as many took as long as arranging the index.
SAMPLE = 2000
# For a larger index, half of the sample: comparing 2,000 queries with 8 million rows takes two minutes of two cores. At
# a target of 0.985, the standard error is 0.0038.
WHOLE_SAMPLE_UNTIL = 2_000_000
# Scores of one pair of vectors differ by this much between two orders of summation.
TOLERANCE = 1e-5


class RecallTest:
    """Compare an index with exact search, on rows that are left out and on altered names.

    For left-out rows, only *other* rows count as found, because a row finds itself in nearly any index, while
    mentions are mostly similar to names, not equal. Shortened and misspelt names lie farther from all rows and are
    missed more often. Exact neighbours are computed once for all configurations.

    vectors (ndarray): The index's vectors, at least two.
    altered (ndarray | None): Vectors of altered names, shape (n, width).
    sample (int): Number of left-out rows.
    k (int): Depth of the second figure.
    seed (int): Seed of the sample.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        altered: np.ndarray | None = None,
        *,
        sample: int = SAMPLE,
        k: int = 10,
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.seed = seed
        self.k = min(k, len(vectors) - 1)
        self.rows = np.sort(rng.choice(len(vectors), size=min(sample, len(vectors)), replace=False))
        self.queries = np.ascontiguousarray(vectors[self.rows], dtype=np.float32)
        self.expected = _scores_of_others(*exact_search(vectors, self.queries, self.k + 1), self.rows)
        self.altered = altered if altered is not None and len(altered) else None
        if self.altered is not None:
            self.expected_of_altered = exact_search(vectors, self.altered, self.k)[1]

    def measure(self, index: ExactIndex) -> dict[str, Any]:
        """Measure an index as it is configured.

        index (ExactIndex): An index of the same vectors.
        RETURNS (dict[str, Any]): The figures of the lower of the two tests, its name as "test", the seed, and the
            figures of each test as "left_out" and "altered". The figures are "at_1" and "at_10" (for k = 10), shares of
            the exact neighbours found; "standard_error" of the first; "queries".
        """
        found = _scores_of_others(*index.search(self.queries, self.k + 1, own=self.rows), self.rows)
        measured = {"left_out": self._compare(found, self.expected)}
        if self.altered is not None:
            measured["altered"] = self._compare(index.search(self.altered, self.k)[1], self.expected_of_altered)
        lower = min(measured, key=lambda test: measured[test]["at_1"])
        return {**measured[lower], "test": lower, "seed": self.seed, **measured}

    def _compare(self, found: np.ndarray, expected: np.ndarray) -> dict[str, Any]:
        # By score, so that another row at the same distance counts as found.
        at_1 = float((found[:, 0] >= expected[:, 0] - TOLERANCE).mean())
        at_k = float((found >= expected[:, -1:] - TOLERANCE).mean())
        return {
            "at_1": round(at_1, 4),
            "standard_error": round((at_1 * (1 - at_1) / len(found)) ** 0.5, 4),
            f"at_{self.k}": round(at_k, 4),
            "queries": len(found),
        }


def tune(
    index: ExactIndex, configurations: Iterable[dict[str, Any]], target: float, altered: np.ndarray | None = None
) -> None:
    """Give an index the cheapest configuration whose recall exceeds the target by more than the standard error.

    Without one, the index keeps the last configuration; a recall below the target is warned of.

    index (ExactIndex): An index with vectors. Its `configuration` and `recall` are set.
    configurations (Iterable[dict[str, Any]]): Configurations of its search, cheapest first.
    target (float): Share of the queries whose nearest row has to be found.
    altered (ndarray | None): Vectors of altered names.
    """
    sample = SAMPLE if len(index) <= WHOLE_SAMPLE_UNTIL else SAMPLE // 2
    test = RecallTest(index.vectors, None if altered is None else altered[:sample], sample=sample)
    for configuration in configurations:
        index.configuration = configuration
        index.recall = test.measure(index)
        if index.recall["at_1"] - index.recall["standard_error"] >= target:
            return
    if index.recall["at_1"] < target:
        warnings.warn(Warnings.W302.format(target=target, found=index.recall["at_1"]), stacklevel=2)


def _scores_of_others(rows: np.ndarray, scores: np.ndarray, selves: np.ndarray) -> np.ndarray:
    """Drop each query's own row, or the last column if the own row was not found."""
    own = rows == selves[:, None]
    own[~own.any(axis=1), -1] = True
    others: np.ndarray = scores[~own].reshape(len(rows), -1)
    return others
