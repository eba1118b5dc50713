"""Search in blocks: no array ever holds the scores of all queries and all names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .base import pad, take_best

# 256 x 16,384 scores are 17 MB.
QUERY_BLOCK = 256
NAME_BLOCK = 16_384
Score = Callable[[slice], Callable[[slice], np.ndarray]]


def search_blocks(
    score: Score,
    n_queries: int,
    n_names: int,
    k: int,
    *,
    above: float = -np.inf,
    query_block: int = QUERY_BLOCK,
    name_block: int = NAME_BLOCK,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the names with the highest scores, block after block.

    score (Callable): Takes a block of queries, and returns what takes a block of names and gives their scores: an array
        of shape (queries, names), float32. What it prepares for the queries serves all blocks of names.
    n_queries (int): Queries.
    n_names (int): Names.
    k (int): Names wanted for each query.
    above (float): Names are found if their score is above.
    query_block (int): Queries in a block.
    name_block (int): Names in a block.
    RETURNS (Tuple[ndarray, ndarray]): Rows and scores as `System.search` gives them, equal scores by row.
    """
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for start in range(0, n_queries, query_block):
        end = min(start + query_block, n_queries)
        found.extend(_search(score(slice(start, end)), end - start, n_names, k, above, name_block))
    return pad(found, k)


def _search(
    score: Callable[[slice], np.ndarray], n_queries: int, n_names: int, k: int, above: float, name_block: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    best = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))] * n_queries
    for start in range(0, n_names, name_block):
        products = score(slice(start, min(start + name_block, n_names)))
        for query, (rows, scores) in enumerate(best):
            # A later row that only equals the last of the best comes after it.
            floor = scores[-1] if len(rows) == k else above
            new = np.flatnonzero(products[query] > floor)
            if len(new):
                best[query] = take_best(
                    np.concatenate([rows, new + start]), np.concatenate([scores, products[query, new]]), k
                )
    return best
