"""Exact search among vectors: every query is compared with every row."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from ..errors import Errors

QUERY_BLOCK = 512
ROW_BLOCK = 32_768


class Rows(Protocol):
    """Rows of vectors, which need not be in memory: they are read in blocks."""

    def __len__(self) -> int:
        """Count the rows."""

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        """Read some rows, shape (n, width), float32 or float16."""


def exact_search(
    vectors: Rows, queries: np.ndarray, k: int, device: torch.device | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows with the highest inner products, in blocks that limit memory.

    vectors (Rows): Shape (rows, width), float32 or float16: an array, or what reads one.
    queries (ndarray): Shape (n, width), float32.
    k (int): Rows wanted, at most `rows`.
    device (torch.device | None): Where to compute; None for the CPU.
    RETURNS (tuple[ndarray, ndarray]): Rows (n, k), int64, and products, float32. Best first, equal ones by row.
    """
    # Not PyTorch's default device, which other code may have set.
    device = device or torch.device("cpu")
    with torch.inference_mode():
        parts = [torch.from_numpy(queries[i : i + QUERY_BLOCK]).to(device) for i in range(0, len(queries), QUERY_BLOCK)]
        found = [_make_empty(len(part), device) for part in parts]
        # Each block is read, and copied to the device, once.
        for start in range(0, len(vectors), ROW_BLOCK):
            # Products of float16 numbers are computed in float32.
            block = torch.from_numpy(vectors[start : start + ROW_BLOCK]).to(device).float().T
            found = [_merge(best, part @ block, start, k) for best, part in zip(found, parts, strict=True)]
    scores, rows = (np.concatenate([best.cpu().numpy() for best in ends]) for ends in zip(*found, strict=True))
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


def keep_highest(rows: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
    """Keep the rows with the highest scores of each query, in any order: faster than `take_best`.

    rows (ndarray): Shape (n, m).
    scores (ndarray): Their scores, same shape.
    k (int): Rows to keep.
    RETURNS (ndarray): Rows, shape (n, min(k, m)).
    """
    if k >= rows.shape[1]:
        return rows
    places = np.argpartition(scores, -k, axis=1)[:, -k:]
    return np.take_along_axis(rows, places, axis=1)


def score_rows(vectors: np.ndarray, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Compute the cosines of queries and their candidates, in blocks that limit memory.

    vectors (ndarray): Shape (rows, width), float32 or float16.
    queries (ndarray): Shape (n, width), float32.
    rows (ndarray): Candidates of each query, shape (n, m); -1 where there are fewer.
    RETURNS (ndarray): Shape (n, m), float32; -inf for -1.
    """
    scores = np.full(rows.shape, -np.inf, dtype=np.float32)
    block = max(1, ROW_BLOCK // rows.shape[1])
    # PyTorch gathers rows with all its threads.
    table = torch.from_numpy(np.asarray(vectors))
    places = torch.from_numpy(np.maximum(rows, 0))
    for start in range(0, len(queries), block):
        part = slice(start, start + block)
        with torch.inference_mode():
            found = table.index_select(0, places[part].flatten()).float().numpy()
        of_query = found.reshape(-1, rows.shape[1], found.shape[1])
        scores[part] = np.matmul(of_query, queries[part, :, None])[..., 0]
    scores[rows < 0] = -np.inf
    return scores


def _make_empty(n: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty((n, 0), device=device), torch.empty((n, 0), dtype=torch.int64, device=device)


def _merge(
    best: tuple[torch.Tensor, torch.Tensor], products: torch.Tensor, start: int, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge the best scores and rows so far with those of a block."""
    scores, place = products.topk(min(k, products.shape[1]))
    scores, rows = torch.cat([best[0], scores], 1), torch.cat([best[1], place + start], 1)
    scores, kept = scores.topk(min(k, scores.shape[1]))
    return scores, rows.gather(1, kept)


def check_finite(vectors: np.ndarray) -> None:
    """Refuse vectors that are not finite, because their scores would be meaningless.

    vectors (ndarray): Shape (n, width).
    RAISES (ValueError): If a value is infinite or NaN.
    """
    # A sum is not finite if any of its terms is not, and takes no memory; ScaNN answers [0, 0, 0] to a NaN.
    bad = ~np.isfinite(vectors.sum(axis=1))
    if bad.any():
        raise ValueError(Errors.E306.format(n=int(bad.sum()), row=int(np.flatnonzero(bad)[0])))
