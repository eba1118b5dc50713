"""Search in blocks: no array ever holds the scores of all queries and all names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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

    score (Callable): Takes a block of queries, and returns a function that takes a block of names and returns their
        scores: an array of shape (queries, names), float32. All blocks of names share what it prepares for queries.
    n_queries (int): Queries.
    n_names (int): Names.
    k (int): Names wanted for each query.
    above (float): Only names with a higher score are found.
    query_block (int): Queries in a block.
    name_block (int): Names in a block.
    RETURNS (tuple[ndarray, ndarray]): Rows and scores as `Searcher.search` returns them, equal scores by row.
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


def take_best(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Take the rows with the highest scores, and of those with equal scores the first, without sorting all.

    rows (ndarray): Distinct rows.
    scores (ndarray): Their scores.
    k (int): Rows wanted at most.
    RETURNS (tuple[ndarray, ndarray]): The best rows and their scores, best first.
    """
    if len(rows) > k:
        likely = scores >= np.partition(scores, -k)[-k]
        rows, scores = rows[likely], scores[likely]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def pad(found: list[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Put the names found for each query into one array.

    found (list[tuple[ndarray, ndarray]]): Rows and scores of each query, at most `k`.
    k (int): Columns.
    RETURNS (tuple[ndarray, ndarray]): Rows and scores as `Searcher.search` returns them.
    """
    all_rows = np.full((len(found), k), -1, dtype=np.int64)
    all_scores = np.full((len(found), k), -np.inf, dtype=np.float32)
    for query, (rows, scores) in enumerate(found):
        all_rows[query, : len(rows)], all_scores[query, : len(rows)] = rows, scores
    return all_rows, all_scores
