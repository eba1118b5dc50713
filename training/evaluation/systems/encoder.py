"""Look-up by vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import resolve_device

from ...engine.nearest import search_on_device
from ...errors import Errors
from ..embeddings import Embeddings
from .base import System

Similarity = Literal["cosine", "dot"]
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot")


class EncoderSystem(System):
    """Finds the names whose vectors are the most similar to that of the query, by exact search.

    encoder (EncoderShim | Embeddings): The encoder, or its vectors.
    similarity (str): "cosine", or "dot" for the inner product of vectors as they are, as SapBERT was measured.
    batch_size (int): Strings in one forward pass, unless vectors are given.
    RAISES (ValueError): If the similarity is another one.
    """

    def __init__(
        self, encoder: EncoderShim | Embeddings, *, similarity: Similarity = "cosine", batch_size: int = 256
    ) -> None:
        if similarity not in SIMILARITIES:
            raise ValueError(Errors.E620.format(what="similarity", value=similarity, allowed=", ".join(SIMILARITIES)))
        self.embeddings = encoder if isinstance(encoder, Embeddings) else Embeddings(encoder, batch_size=batch_size)
        self.similarity = similarity

    @property
    def encoder(self) -> EncoderShim:
        """The encoder."""
        return self.embeddings.encoder

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint and its precision, which changes rounding."""
        return f"{self.encoder.fingerprint} {self.encoder.dtype}"

    @property
    def identity(self) -> dict[str, Any]:
        """Name encoder and similarity. See `System.identity`."""
        return {"kind": "encoder", "encoder": self.fingerprint, "similarity": self.similarity}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the most similar vectors. See `Searcher.search`."""
        self.embeddings.add([*names, *queries])
        normalised = self.similarity == "cosine"
        # Names are read in blocks: their vectors may not fit into memory.
        left, right = self.embeddings.take(queries, normalised=normalised), self.embeddings.view(names, normalised)
        return search_on_device(right, left, k, resolve_device("auto"))

    def encode(self, strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode strings. A string of unknown tokens only is not known. See `NameVectors.encode`."""
        row_of = {string: row for row, string in enumerate(dict.fromkeys(strings))}
        is_known = np.array([self.encoder.is_informative(ids) for ids in self.encoder.tokenize(list(row_of))], bool)
        vectors = np.zeros((len(row_of), self.encoder.width), dtype=np.float32)
        known = [string for string, row in row_of.items() if is_known[row]]
        if known:
            vectors[is_known] = self.embeddings.take(known, normalised=False)
        rows = [row_of[string] for string in strings]
        return vectors[rows], is_known[rows]
