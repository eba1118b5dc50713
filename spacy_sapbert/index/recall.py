"""How much of the exact answer an index finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .exact import exact_search

if TYPE_CHECKING:
    from .exact import ExactIndex

SAMPLE = 2000
# Scores of one pair of vectors differ by this much between two orders of summation.
TOLERANCE = 1e-5


def measure_recall(index: ExactIndex, *, sample: int = SAMPLE, k: int = 10, seed: int = 0) -> dict[str, Any]:
    """Compare an index with exact search, leaving one out.

    Queries are sampled rows, and what counts is whether the nearest *other* rows are found: a row finds itself in
    nearly any index, while mentions are mostly near names, not equal to one.

    index (ExactIndex): The index.
    sample (int): Number of queries.
    k (int): Depth of the second figure.
    seed (int): Seed of the sample.
    RETURNS (dict): "at_1" and "at_10" (for k = 10), shares of the exact answer found; "standard_error" of the first;
        "queries"; "seed".
    """
    vectors = index.vectors
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(vectors), size=min(sample, len(vectors)), replace=False))
    k = min(k, len(vectors) - 1)
    if k < 1:
        return {"at_1": 1.0, "standard_error": 0.0, "queries": len(rows), "seed": seed}
    queries = np.ascontiguousarray(vectors[rows])
    expected = _scores_of_others(*exact_search(vectors, queries, k + 1), rows)
    found = _scores_of_others(*index.search(queries, k + 1), rows)
    # By score, so that another row at the same distance counts as found.
    at_1 = (found[:, 0] >= expected[:, 0] - TOLERANCE).mean()
    at_k = (found >= expected[:, -1:] - TOLERANCE).mean()
    return {
        "at_1": round(float(at_1), 4),
        "standard_error": round(float((at_1 * (1 - at_1) / len(rows)) ** 0.5), 4),
        f"at_{k}": round(float(at_k), 4),
        "queries": len(rows),
        "seed": seed,
    }


def _scores_of_others(rows: np.ndarray, scores: np.ndarray, selves: np.ndarray) -> np.ndarray:
    """Drop each query's own row, or the last column where it was not found."""
    own = rows == selves[:, None]
    own[~own.any(axis=1), -1] = True
    return scores[~own].reshape(len(rows), -1)
