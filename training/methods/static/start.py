"""The table before training: the teacher's vector of each token, projected, and weighted by its rarity."""

from __future__ import annotations

import numpy as np
import polars as pl
import torch

from .settings import TokenTableSettings
from .table import UNKNOWN, StaticTable
from .teacher import Projection, Teacher
from .vocabulary import make_tokenizer


def make_start(names: pl.Series, teacher: Teacher, projection: Projection, settings: TokenTableSettings) -> StaticTable:
    """Make the table before training: the teacher's vector of each token, projected, and weighted by its rarity
    (Model2Vec).

    names (pl.Series): The names, which determine words and weights.
    teacher (Teacher): The teacher.
    projection (Projection): The projection of the teacher's vectors.
    settings (TokenTableSettings): Vocabulary and weights.
    RETURNS (StaticTable): The table.
    """
    source = teacher.encoder.source
    tokenizer = make_tokenizer(
        source.tokenizer.backend_tokenizer, names, settings, lower_case=teacher.encoder.settings.lower_case
    )
    vocabulary = tokenizer.get_vocab()
    pieces = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    vectors = teacher.encode_pieces(pieces)
    ids = (token for encoding in tokenizer.encode_batch_fast(names.to_list()) for token in encoding.ids)
    counts = np.bincount(np.fromiter(ids, dtype=np.int64), minlength=len(pieces))
    rows = (vectors - vectors.mean(axis=0)) @ projection.components
    rows *= weigh_tokens(counts, settings.smoothing)[:, None]
    rows[UNKNOWN] = 0
    return StaticTable(tokenizer, torch.from_numpy(scale_rows(rows)))


def weigh_tokens(counts: np.ndarray, smoothing: float) -> np.ndarray:
    """Weigh tokens by their rarity: a / (a + p) (Arora et al., ICLR 2017).

    counts (np.ndarray): Occurrences of each token.
    smoothing (float): The constant a.
    RETURNS (np.ndarray): Weights from 0 to 1, float32.
    """
    shares = (counts + 0.5) / counts.sum()
    return (smoothing / (smoothing + shares)).astype(np.float32)


def scale_rows(rows: np.ndarray) -> np.ndarray:
    """Scale a table so that the length of its rows is 1 in the quadratic mean, and learning rates have one meaning.

    rows (np.ndarray): Shape (tokens, width).
    RETURNS (np.ndarray): The same shape, float32.
    """
    return (rows / np.sqrt(np.square(rows).sum(axis=1).mean())).astype(np.float32)
