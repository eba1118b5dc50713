"""Nearest-neighbour search of vectors among themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from spacy_sapbert.encoder.transformer import resolve_device
from spacy_sapbert.index import exact_search, make_scann_index
from spacy_sapbert.progress import show_phase


def search_others(
    vectors: np.ndarray, rows: np.ndarray, wanted: int, fingerprint: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """Find the nearest other rows of given rows: with an index on the CPU, by exact search on a GPU.

    vectors (np.ndarray): Unit vectors, shape (n, width), float32.
    rows (np.ndarray): The query rows, shape (m,).
    wanted (int): Neighbours of each; fewer than n.
    fingerprint (str): Fingerprint of the encoder of the vectors.
    RETURNS (tuple[np.ndarray, dict[str, Any]]): Other rows, nearest first, shape (m, wanted), int64; and the
        configuration of the `index` with its measured `recall`.
    """
    device = resolve_device("auto")
    if device.type == "cpu":
        index = make_scann_index()
        with show_phase("Building the index of names"):
            index.build(vectors, fingerprint=fingerprint)
        found, _ = index.search(vectors[rows], wanted + 1)
        report = {"index": index.configuration, "recall": index.recall}
    else:
        # Faster there than building an index on the CPU, and nothing is missed.
        found, _ = exact_search(vectors, vectors[rows], wanted + 1, device)
        report = {"index": {"scoring": "exact"}, "recall": {}}
    is_other = found != rows[:, None]
    # If many rows share a vector, the result may lack the query row itself. Then the last neighbour is dropped.
    is_other[is_other.all(axis=1), -1] = False
    return found[is_other].reshape(len(rows), wanted), report
