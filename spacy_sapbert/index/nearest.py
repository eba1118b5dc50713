"""Exact search among vectors: every query is compared with every row."""

from __future__ import annotations

import numpy as np
import torch

from ..errors import Errors

QUERY_BLOCK = 512
ROW_BLOCK = 32_768


def exact_search(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows with the highest inner products, in blocks that limit memory.

    vectors (ndarray): Shape (rows, width), float32.
    queries (ndarray): Shape (n, width), float32.
    k (int): Rows wanted, at most `rows`.
    RETURNS (tuple[ndarray, ndarray]): Rows (n, k), int64, and products, float32. Best first, equal ones by row.
    """
    found = [_search_block(vectors, queries[i : i + QUERY_BLOCK], k) for i in range(0, len(queries), QUERY_BLOCK)]
    rows, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return take_best(rows, scores, k)


def take_best(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Keep the rows with the highest scores of each query.

    rows (ndarray): Shape (n, m).
    scores (ndarray): Their scores, same shape.
    k (int): Rows to keep.
    RETURNS (tuple[ndarray, ndarray]): Rows (n, min(k, m)) and scores. Best first, equal ones by row.
    """
    order = np.lexsort((rows, -scores), axis=-1)[:, :k]
    return np.take_along_axis(rows, order, axis=-1), np.take_along_axis(scores, order, axis=-1)


def _search_block(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    with torch.inference_mode():
        left = torch.from_numpy(queries)
        scores = torch.empty((len(queries), 0))
        rows = torch.empty((len(queries), 0), dtype=torch.int64)
        for start in range(0, len(vectors), ROW_BLOCK):
            products = left @ torch.from_numpy(vectors[start : start + ROW_BLOCK]).T
            best, place = products.topk(min(k, products.shape[1]))
            scores, rows = torch.cat([scores, best], 1), torch.cat([rows, place + start], 1)
            scores, kept = scores.topk(min(k, scores.shape[1]))
            rows = rows.gather(1, kept)
    return rows.numpy(), scores.numpy()


def check_finite(vectors: np.ndarray) -> None:
    """Refuse vectors that are not finite, because their scores would be meaningless.

    vectors (ndarray): Shape (n, width).
    RAISES (ValueError): If a value is infinite or NaN.
    """
    # A sum is not finite if any of its terms is not, and takes no memory; ScaNN answers [0, 0, 0] to a NaN.
    bad = ~np.isfinite(vectors.sum(axis=1))
    if bad.any():
        raise ValueError(Errors.E306.format(n=int(bad.sum()), row=int(np.flatnonzero(bad)[0])))
