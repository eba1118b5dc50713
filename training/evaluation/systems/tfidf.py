"""Look-up by shared characters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .blocks import NAME_BLOCK, QUERY_BLOCK, search_blocks
from .sparse import SparseEncoder, score_sparse


class CharacterTfidf:
    """Names that share characters with the query: one or two in a row, weighed by how few names have them (TF-IDF).

    The sparse half of BioSyn, but fitted on the dictionary that is searched.
    """

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the highest cosine. See `System.search`; names that share no character are not found."""
        encoder = SparseEncoder.fit(names)
        score = score_sparse(encoder.encode(queries), encoder.encode(names))
        sizes = {"query_block": QUERY_BLOCK, "name_block": NAME_BLOCK}
        return search_blocks(score, len(queries), len(names), k, above=0.0, **sizes)
