"""Search longer where the best found cosine is low, because there the nearest row is missed most often."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .nearest import exact_search

# A query whose best found cosine is below the first number is searched again with the second number as effort, or
# exactly if that is None.
Steps = tuple[tuple[float, int | None], ...]
# Takes queries, the number of rows and the effort; gives rows and scores.
Search = Callable[[np.ndarray, int, int], tuple[np.ndarray, np.ndarray]]


def search_as_needed(
    search: Search,
    steps: Steps,
    vectors: np.ndarray,
    queries: np.ndarray,
    k: int,
    effort: int,
    own: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Search approximately, and repeat the search with more effort for queries that are far from all found rows.

    search (Callable): The approximate search.
    steps (tuple): When to search again, and with which effort.
    vectors (ndarray): The vectors that it searches.
    queries (ndarray): Shape (n, width).
    k (int): Rows wanted.
    effort (int): The effort of the first search.
    own (ndarray | None): A row of each query that does not count as found.
    RETURNS (tuple[ndarray, ndarray]): Rows and scores, shape (n, k).
    """
    rows, scores = search(queries, k, effort)
    for limit, more in steps:
        if more is not None and more <= effort:
            continue
        best = scores[:, 0]
        if own is not None and k > 1:
            best = np.where(rows[:, 0] == own, scores[:, 1], best)
        far = np.flatnonzero(best < limit)
        if len(far):
            again = exact_search(vectors, queries[far], k) if more is None else search(queries[far], k, more)
            rows[far], scores[far] = again
    return rows, scores
