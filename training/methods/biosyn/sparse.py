"""Search in blocks, and sparse vectors of strings. No array ever holds the scores of all queries and all names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# In the folder of a run: the sparse encoder, its weight, and the fingerprint of the encoder.
BIOSYN_FILE = "biosyn.json"
# 256 x 16,384 scores are 17 MB.
QUERY_BLOCK = 256
NAME_BLOCK = 16_384
# Takes a block of queries, and returns a function that takes a block of names and returns their scores: an array of
# shape (queries, names), float32. All blocks of names share what it prepares for queries.
Score = Callable[[slice], Callable[[slice], np.ndarray]]


def search_blocks(
    score: Score, n_queries: int, n_names: int, k: int, *, above: float = -np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k names with the highest scores above a limit, block after block; equal scores by row. Rows and scores
    are as a `Search` returns them."""
    rows = np.full((n_queries, k), -1, dtype=np.int64)
    scores = np.full((n_queries, k), -np.inf, dtype=np.float32)
    for first in range(0, n_queries, QUERY_BLOCK):
        take_names = score(slice(first, min(first + QUERY_BLOCK, n_queries)))
        for start in range(0, n_names, NAME_BLOCK):
            products = take_names(slice(start, min(start + NAME_BLOCK, n_names)))
            for query, of_query in enumerate(products, first):
                # A later row that only equals the last of the best comes after it.
                new = np.flatnonzero(of_query > max(above, scores[query, -1]))
                if len(new):
                    together = np.concatenate([scores[query], of_query[new]])
                    rows[query], scores[query] = take_top(np.concatenate([rows[query], new + start]), together, k)
    return rows, scores


def take_top(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Take the k of more rows with the highest scores, without sorting all. Of equal scores, the first rows win."""
    likely = scores >= np.partition(scores, -k)[-k]
    rows, scores = rows[likely], scores[likely]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def pad(found: list[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Put rows and scores of the at most k names found for each query into one array, as a `Search` does."""
    all_rows = np.full((len(found), k), -1, dtype=np.int64)
    all_scores = np.full((len(found), k), -np.inf, dtype=np.float32)
    for query, (rows, scores) in enumerate(found):
        all_rows[query, : len(rows)] = rows
        all_scores[query, : len(rows)] = scores
    return all_rows, all_scores


class SparseEncoder:
    """The sparse encoder of BioSyn (Sung et al., ACL 2020, section 3.1): TF-IDF of characters and pairs of them, the
    vocabulary, in the order of columns."""

    def __init__(self, vocabulary: Sequence[str], idf: Sequence[float]) -> None:
        self.vocabulary = list(vocabulary)
        self.idf = np.asarray(idf, dtype=np.float32)
        self._vectorizer = _make_vectorizer({ngram: column for column, ngram in enumerate(self.vocabulary)})
        self._vectorizer.idf_ = self.idf

    @classmethod
    def fit(cls, names: Sequence[str]) -> SparseEncoder:
        """Learn vocabulary and weights from names."""
        vectorizer = _make_vectorizer(None).fit(names)
        return cls(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_)

    def encode(self, strings: Sequence[str]) -> csr_matrix:
        """Encode strings: shape (n, vocabulary), float32; rows of length 1, or empty where nothing is known."""
        return self._vectorizer.transform(strings)

    def to_dict(self) -> dict[str, Any]:
        """Return `vocabulary` and `idf` as plain JSON data."""
        return {"vocabulary": self.vocabulary, "idf": self.idf.tolist()}


def _make_vectorizer(vocabulary: dict[str, int] | None) -> Any:
    # Imported only by those who compare characters.
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer="char", ngram_range=(1, 2), dtype=np.float32, vocabulary=vocabulary)


def score_sparse(queries: csr_matrix, names: csr_matrix) -> Score:
    """Prepare the inner products of sparse vectors for `search_blocks`; exactly 0 where nothing is shared.

    Nearly every query shares a character with nearly every name, so the products are not sparse: it is much faster to
    multiply the sparse names with queries that are spelled out than to multiply sparse with sparse.
    """

    def take_queries(block: slice) -> Callable[[slice], np.ndarray]:
        columns = np.ascontiguousarray(queries[block].toarray().T)
        return lambda rows: np.ascontiguousarray((names[rows] @ columns).T)

    return take_queries
