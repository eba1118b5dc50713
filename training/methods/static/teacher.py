"""The teacher's vectors of strings, kept in a folder, and their projection to the width of the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists
from spacy_sapbert.retrieval.encoding import TokenGroups, VectorStore, encode_groups, group_by_tokens, make_keys

BATCH_SIZE = 256


class Teacher:
    """An encoder whose vectors are computed once.

    encoder (EncoderShim): The encoder.
    folder (str | Path): The folder that keeps its vectors.
    """

    def __init__(self, encoder: EncoderShim, folder: str | Path) -> None:
        self.encoder = encoder
        self.store = VectorStore(folder, encoder)

    def encode(self, strings: pl.Series) -> np.ndarray:
        """Encode strings.

        strings (pl.Series): The strings.
        RETURNS (np.ndarray): Unit vectors, shape (strings, width), float32; zeros for strings of unknown tokens only.
        """
        groups = group_by_tokens(strings, self.encoder)
        vectors = encode_groups(groups, self.encoder, batch_size=BATCH_SIZE, store=self.store)
        # Row -1 stands for strings of unknown tokens only.
        return np.concatenate([vectors, np.zeros_like(vectors, shape=(1, self.encoder.width))])[groups.row_of_name]

    def encode_pieces(self, pieces: Sequence[str]) -> np.ndarray:
        """Encode pieces of words, each as a string of its own, special tokens included.

        pieces (Sequence[str]): Pieces of the encoder's vocabulary, and words.
        RETURNS (np.ndarray): Unit vectors, shape (pieces, width), float32.
        """
        vocabulary = self.encoder.source.tokenizer.get_vocab()
        # An empty string has only the special tokens: one before the others.
        special = self.encoder.tokenize([""])[0]
        words = iter(self.encoder.tokenize([piece for piece in pieces if piece not in vocabulary]))
        tokens = TokenLists.make(
            [
                [*special[:1], vocabulary[piece], *special[1:]] if piece in vocabulary else next(words)
                for piece in pieces
            ]
        )
        groups = TokenGroups(tokens, make_keys(tokens), np.arange(len(tokens)))
        return encode_groups(groups, self.encoder, batch_size=BATCH_SIZE, store=self.store)


class Projection(NamedTuple):
    """A projection to the first principal components of vectors.

    mean (np.ndarray): Shape (width,), float32.
    components (np.ndarray): Shape (width, components), float32.
    """

    mean: np.ndarray
    components: np.ndarray

    def project(self, vectors: np.ndarray) -> np.ndarray:
        """Project vectors, and scale them to unit length.

        vectors (np.ndarray): Shape (n, width).
        RETURNS (np.ndarray): Shape (n, components), float32.
        """
        projected = (vectors - self.mean) @ self.components
        return projected / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-9)


def fit_projection(vectors: np.ndarray, width: int) -> Projection:
    """Find the principal components of vectors.

    vectors (np.ndarray): Shape (n, width).
    width (int): Number of components.
    RETURNS (Projection): The projection, of fewer components if the vectors have not so many dimensions.
    """
    mean = vectors.mean(axis=0)
    centred = (vectors - mean).astype(np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)
    return Projection(mean, np.ascontiguousarray(directions[:, ::-1][:, :width], dtype=np.float32))
