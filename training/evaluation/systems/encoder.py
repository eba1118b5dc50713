"""Look-up by vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.index import exact_search

from ...errors import Errors
from ..embeddings import Embeddings

Similarity = Literal["cosine", "dot"]
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot")


class EncoderSystem:
    """Names whose vectors are the most similar to that of the query, by exact search.

    encoder (EncoderShim | Embeddings): The encoder, or vectors that it has made.
    similarity (str): "cosine", or "dot" for the inner product of vectors as they are, as SapBERT was measured.
    batch_size (int): Strings in one forward pass, if vectors are not given.
    RAISES (ValueError): If the similarity is another one.
    """

    def __init__(
        self, encoder: EncoderShim | Embeddings, *, similarity: Similarity = "cosine", batch_size: int = 256
    ) -> None:
        if similarity not in SIMILARITIES:
            raise ValueError(Errors.E620.format(what="similarity", value=similarity, allowed=", ".join(SIMILARITIES)))
        self.embeddings = encoder if isinstance(encoder, Embeddings) else Embeddings(encoder, batch_size=batch_size)
        self.similarity = similarity

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the most similar vectors. See `System.search`."""
        self.embeddings.add([*names, *queries])
        left, right = (
            self.embeddings.take(strings, normalised=self.similarity == "cosine") for strings in (queries, names)
        )
        return exact_search(right, left, k)
