"""Nearest-neighbour search of vectors among themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from spacy_sapbert.encoder.transformer import resolve_device
from spacy_sapbert.index import ScannIndex, exact_search
from spacy_sapbert.index.base import Rows, take_best
from spacy_sapbert.progress import show_phase

QUERY_BLOCK = 512
ROW_BLOCK = 32_768


def search_on_device(vectors: Rows, queries: np.ndarray, k: int, device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows with the highest inner products: `exact_search`, on a GPU if the device is one."""
    if device.type == "cpu":
        return exact_search(vectors, queries, k)
    starts = range(0, len(queries), QUERY_BLOCK)
    parts = [torch.from_numpy(queries[start : start + QUERY_BLOCK]).to(device) for start in starts]
    rows = [torch.empty((len(part), 0), dtype=torch.int64, device=device) for part in parts]
    scores = [torch.empty((len(part), 0), device=device) for part in parts]
    # Each block is read, and copied to the device, once.
    for start in range(0, len(vectors), ROW_BLOCK):
        block = torch.from_numpy(vectors[start : start + ROW_BLOCK]).to(device).float().T
        for number, part in enumerate(parts):
            values, places = (part @ block).topk(min(k, block.shape[1]))
            values = torch.cat([scores[number], values], 1)
            places = torch.cat([rows[number], places + start], 1)
            scores[number], best = values.topk(min(k, values.shape[1]))
            rows[number] = places.gather(1, best)
    return take_best(_join(rows), _join(scores), k)


def _join(parts: list[torch.Tensor]) -> np.ndarray:
    return np.concatenate([part.cpu().numpy() for part in parts])


def search_others(
    vectors: np.ndarray, rows: np.ndarray, wanted: int, fingerprint: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """Find the nearest other rows of m given rows, shape (m, wanted), with an index on the CPU, by exact search on a
    GPU; and describe the `index` and its measured `recall`.
    """
    device = resolve_device("auto")
    if device.type == "cpu":
        index = ScannIndex()
        with show_phase("Building the index of names"):
            index.build(vectors, fingerprint=fingerprint)
        nearest, _ = index.search(vectors[rows], wanted + 1)
        report = {"index": index.configuration, "recall": index.recall}
    else:
        # Faster there than building an index on the CPU, and nothing is missed.
        nearest, _ = search_on_device(vectors, vectors[rows], wanted + 1, device)
        report = {"index": {"scoring": "exact"}, "recall": {}}
    return leave_out(rows, nearest), report


def leave_out(rows: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Leave each of m rows out of those found for it: shape (m, k - 1)."""
    is_other = found != rows[:, None]
    # If many rows share a vector, the result may lack the row itself. Then the last neighbour is dropped.
    is_other[is_other.all(axis=1), -1] = False
    return found[is_other].reshape(len(rows), -1)
