"""Look-up by shared characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import System
from .blocks import NAME_BLOCK, QUERY_BLOCK, search_blocks
from .sparse import SparseEncoder, score_sparse

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class CharacterTfidf(System):
    """Finds the names that share characters with the query: one or two in a row, weighted by rarity (TF-IDF).

    The sparse half of BioSyn, but fitted on the dictionary that is searched. The last fit is kept for other queries.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._fitted: tuple[SparseEncoder, csr_matrix] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """There is only one. See `System.identity`."""
        return {"kind": "tfidf"}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the highest cosine, without those that share no character. See `Searcher.search`."""
        encoder, encoded = self._fit(names)
        score = score_sparse(encoder.encode(queries), encoded)
        sizes = {"query_block": QUERY_BLOCK, "name_block": NAME_BLOCK}
        return search_blocks(score, len(queries), len(names), k, above=0.0, **sizes)

    def release(self) -> None:
        """Forget the last fit. See `System.release`."""
        self._names, self._fitted = [], None

    def _fit(self, names: Sequence[str]) -> tuple[SparseEncoder, csr_matrix]:
        if self._fitted is None or self._names != list(names):
            encoder = SparseEncoder.fit(names)
            self._names, self._fitted = list(names), (encoder, encoder.encode(names))
        return self._fitted
