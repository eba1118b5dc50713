"""Look-up by vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.errors import Errors
from spacy_sapbert.index import exact_search

Similarity = Literal["cosine", "dot"]
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot")


class EncoderSystem:
    """Names whose vectors are the most similar to that of the query, by exact search.

    encoder (EncoderShim): The encoder. Its vectors of strings are kept.
    similarity (str): "cosine", or "dot" for the inner product of vectors as they are, as SapBERT was measured.
    batch_size (int): Strings in one forward pass.
    RAISES (ValueError): If the similarity is another one.
    """

    def __init__(self, encoder: EncoderShim, *, similarity: Similarity = "cosine", batch_size: int = 256) -> None:
        if similarity not in SIMILARITIES:
            raise ValueError(Errors.E620.format(what="similarity", value=similarity, allowed=", ".join(SIMILARITIES)))
        self.encoder = encoder
        self.similarity = similarity
        self.batch_size = batch_size
        self._row_of: dict[str, int] = {}
        self._vectors = np.empty((0, encoder.width), dtype=np.float32)

    def encode(self, strings: Iterable[str]) -> None:
        """Encode strings that have not been encoded yet; all at once is faster than some at a time.

        strings (Iterable[str]): The strings.
        """
        new = [string for string in dict.fromkeys(strings) if string not in self._row_of]
        if not new:
            return
        encode = self.encoder.encode if self.similarity == "cosine" else self.encoder.encode_unscaled
        vectors = encode(new, batch_size=self.batch_size)
        self._row_of.update({string: row for row, string in enumerate(new, len(self._vectors))})
        self._vectors = np.concatenate([self._vectors, vectors]) if len(self._vectors) else vectors

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the most similar vectors. See `System.search`."""
        self.encode([*names, *queries])
        left, right = ([self._row_of[string] for string in strings] for strings in (queries, names))
        return exact_search(self._vectors[right], self._vectors[left], k)
