"""Look-up by shared characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import pad, take_best

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Nearly every query shares a letter with nearly every name: so many products are held at a time, 50 MB.
QUERY_BLOCK = 64
NAME_BLOCK = 65_536


class CharacterTfidf:
    """Names that share characters with the query: one or two in a row, weighed by how few names have them (TF-IDF).

    The sparse half of BioSyn, but fitted on the dictionary that is searched.
    """

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the highest cosine. See `System.search`; names that share no character are not found."""
        # Only this class needs it.
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), dtype=np.float32)
        right = vectorizer.fit_transform(names)
        left = vectorizer.transform(queries)
        blocks = [(start, right[start : start + NAME_BLOCK].T.tocsr()) for start in range(0, len(names), NAME_BLOCK)]
        found: list[tuple[np.ndarray, np.ndarray]] = []
        for start in range(0, len(queries), QUERY_BLOCK):
            found.extend(_search_sparse(left[start : start + QUERY_BLOCK], blocks, k))
        return pad(found, k)


def _search_sparse(
    left: csr_matrix, blocks: list[tuple[int, csr_matrix]], k: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    best: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(left.shape[0])]
    for start, right in blocks:
        products: Any = (left @ right).tocsr()
        for query, kept in enumerate(best):
            span = slice(products.indptr[query], products.indptr[query + 1])
            kept.append(take_best(products.indices[span].astype(np.int64) + start, products.data[span], k))
    return [
        take_best(np.concatenate([rows for rows, _ in kept]), np.concatenate([scores for _, scores in kept]), k)
        for kept in best
    ]
