"""The candidates of mentions: some that share characters, and others that have similar vectors."""

from __future__ import annotations

import numpy as np

from spacy_sapbert.index import exact_search

from ...evaluation.systems.blocks import search_blocks
from ...evaluation.systems.sparse import SparseEncoder, score_sparse
from .data import BioSynData


def find_sparse(data: BioSynData, sparse: SparseEncoder, k: int) -> np.ndarray:
    """Find the names that share most with each mention.

    data (BioSynData): Mentions and names.
    sparse (SparseEncoder): The sparse encoder.
    k (int): Names wanted, at most as many as there are.
    RETURNS (ndarray): Rows of names, shape (mentions, k), int64, best first, equal ones by row.
    """
    score = score_sparse(sparse.encode(data.mentions), sparse.encode(data.names))
    rows, _ = search_blocks(score, len(data.mentions), len(data.names), max(1, k))
    return rows[:, :k]


def join_candidates(sparse: np.ndarray, mentions: np.ndarray, names: np.ndarray, total: int) -> np.ndarray:
    """Put after the sparse candidates those whose vectors have the highest inner products, without repeating any.

    sparse (ndarray): Rows of names, shape (mentions, sparse candidates).
    mentions (ndarray): Vectors of mentions, shape (mentions, width), float32.
    names (ndarray): Vectors of names, shape (names, width), float32.
    total (int): Candidates wanted for each mention, at most as many as there are names.
    RETURNS (ndarray): Rows of names, shape (mentions, total), int64.
    """
    dense, _ = exact_search(names, mentions, total)
    # Rows come in order, new ones before those that are repeated: a stable sort does not change the order of either.
    is_repeated = (dense[:, :, None] == sparse[:, None, :]).any(axis=2)
    order = np.argsort(is_repeated, axis=1, kind="stable")
    return np.hstack([sparse, np.take_along_axis(dense, order, axis=1)])[:, :total]
