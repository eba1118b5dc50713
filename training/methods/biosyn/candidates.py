"""Candidates of mentions: names with shared characters, and names with similar vectors."""

from __future__ import annotations

import numpy as np

from spacy_sapbert.encoder.transformer import resolve_device

from ...engine.nearest import search_on_device
from ...evaluation.systems.blocks import search_blocks
from ...evaluation.systems.sparse import SparseEncoder, score_sparse
from .data import BioSynData


def find_sparse(data: BioSynData, sparse: SparseEncoder, k: int) -> np.ndarray:
    """Find the names with the most shared characters for each mention."""
    score = score_sparse(sparse.encode(data.mentions), sparse.encode(data.names))
    rows, _ = search_blocks(score, len(data.mentions), len(data.names), max(1, k))
    return rows[:, :k]


def join_candidates(sparse: np.ndarray, mentions: np.ndarray, names: np.ndarray, total: int) -> np.ndarray:
    """Add names with the highest inner products of vectors to the sparse candidates, without repeats."""
    dense, _ = search_on_device(names, mentions, total, resolve_device("auto"))
    # A stable sort puts new rows before repeated ones, and keeps the order of both.
    is_repeated = (dense[:, :, None] == sparse[:, None, :]).any(axis=2)
    order = np.argsort(is_repeated, axis=1, kind="stable")
    return np.hstack([sparse, np.take_along_axis(dense, order, axis=1)])[:, :total]
