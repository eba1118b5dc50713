"""Exact search among vectors: every query is compared with every row."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..errors import Errors

# The products of a block, 16 MB, stay near the processor while the best of them are picked.
QUERY_BLOCK = 128
ROW_BLOCK = 32_768


class Rows(Protocol):
    """Rows of vectors, which need not be in memory: they are read in blocks."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> np.ndarray: ...


def exact_search(vectors: Rows, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows with the highest inner products, in blocks that limit memory.

    vectors (Rows): Shape (rows, width), float32 or float16: an array, or what reads one.
    queries (ndarray): Shape (n, width), float32.
    k (int): Rows wanted, at most `rows`.
    RETURNS (tuple[ndarray, ndarray]): Rows (n, k), int64, and products, float32. Best first, equal ones by row.
    """
    parts = [queries[i : i + QUERY_BLOCK] for i in range(0, len(queries), QUERY_BLOCK)]
    rows = [np.empty((len(part), 0), dtype=np.int64) for part in parts]
    scores = [np.empty((len(part), 0), dtype=np.float32) for part in parts]
    # Each block is read once.
    for start in range(0, len(vectors), ROW_BLOCK):
        # Products of float16 numbers are computed in float32.
        block = np.asarray(vectors[start : start + ROW_BLOCK], dtype=np.float32).T
        for i, part in enumerate(parts):
            products = part @ block
            places = _find_highest(products, k)
            found = np.concatenate([rows[i], places + start], axis=1)
            values = np.concatenate([scores[i], np.take_along_axis(products, places, axis=1)], axis=1)
            rows[i], scores[i] = keep_highest(found, values, k)
    return take_best(np.concatenate(rows), np.concatenate(scores), k)


def take_best(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Keep the rows with the highest scores of each query: best first, equal ones by row."""
    order = np.lexsort((rows, -scores), axis=-1)[:, :k]
    return np.take_along_axis(rows, order, axis=-1), np.take_along_axis(scores, order, axis=-1)


def keep_highest(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Keep the rows with the highest scores of each query, in any order: faster than `take_best`."""
    if k >= rows.shape[1]:
        return rows, scores
    places = _find_highest(scores, k)
    return np.take_along_axis(rows, places, axis=1), np.take_along_axis(scores, places, axis=1)


def _find_highest(scores: np.ndarray, k: int) -> np.ndarray:
    k = min(k, scores.shape[1])
    return np.argpartition(scores, -k, axis=1)[:, -k:]


def score_rows(vectors: np.ndarray, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Compute the cosines of queries and their candidate rows, shape (n, m), in blocks; -inf where a row is -1."""
    scores = np.empty(rows.shape, dtype=np.float32)
    block = max(1, ROW_BLOCK // rows.shape[1])
    for start in range(0, len(queries), block):
        part = slice(start, start + block)
        # -1 reads the last row, whose score is replaced below.
        of_query = vectors[rows[part]].astype(np.float32, copy=False)
        scores[part] = np.matmul(of_query, queries[part, :, None])[..., 0]
    scores[rows < 0] = -np.inf
    return scores


def check_finite(vectors: np.ndarray) -> None:
    """Refuse vectors that are not finite, because their scores would be meaningless."""
    # A sum is not finite if any of its terms is not, and takes no memory; ScaNN answers [0, 0, 0] to a NaN.
    bad = ~np.isfinite(vectors.sum(axis=1))
    if bad.any():
        raise ValueError(Errors.E306.format(n=int(bad.sum()), row=int(np.flatnonzero(bad)[0])))
