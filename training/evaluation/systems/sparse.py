"""Sparse vectors of strings: one or two characters in a row, weighted by rarity (TF-IDF)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class SparseEncoder:
    """The sparse encoder of BioSyn (Sung et al., ACL 2020, section 3.1): TF-IDF of characters and pairs of them.

    vocabulary (Sequence[str]): Characters and pairs of them, in the order of columns.
    idf (Sequence[float]): The weight of each.
    """

    def __init__(self, vocabulary: Sequence[str], idf: Sequence[float]) -> None:
        self.vocabulary = list(vocabulary)
        self.idf = np.asarray(idf, dtype=np.float32)
        self._vectorizer = _make_vectorizer({ngram: column for column, ngram in enumerate(self.vocabulary)})
        self._vectorizer.idf_ = self.idf

    @classmethod
    def fit(cls, names: Sequence[str]) -> SparseEncoder:
        """Learn vocabulary and weights.

        names (Sequence[str]): The names.
        RETURNS (SparseEncoder): The encoder.
        """
        vectorizer = _make_vectorizer(None).fit(names)
        return cls(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_)

    def encode(self, strings: Sequence[str]) -> csr_matrix:
        """Encode strings.

        strings (Sequence[str]): The strings.
        RETURNS (csr_matrix): Shape (n, vocabulary), float32; rows of length 1, or empty where nothing is known.
        """
        return self._vectorizer.transform(strings)

    def to_dict(self) -> dict[str, Any]:
        """Return the encoder as plain JSON data.

        RETURNS (dict): `vocabulary` and `idf`.
        """
        return {"vocabulary": self.vocabulary, "idf": self.idf.tolist()}


def _make_vectorizer(vocabulary: dict[str, int] | None) -> Any:
    # Imported only by those who compare characters.
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer="char", ngram_range=(1, 2), dtype=np.float32, vocabulary=vocabulary)


def score_sparse(queries: csr_matrix, names: csr_matrix) -> Callable[[slice], Callable[[slice], np.ndarray]]:
    """Prepare the inner products of sparse vectors for `search_blocks`.

    Nearly every query shares a character with nearly every name, so the products are not sparse: it is much faster to
    multiply the sparse names with queries that are spelled out than to multiply sparse with sparse.

    queries (csr_matrix): Shape (n, vocabulary).
    names (csr_matrix): Shape (m, vocabulary).
    RETURNS (Callable): Takes a block of queries; returns a function that takes a block of names and returns an array of
        shape (queries, names), exactly 0 where nothing is shared.
    """

    def take_queries(block: slice) -> Callable[[slice], np.ndarray]:
        columns = np.ascontiguousarray(queries[block].toarray().T)
        return lambda rows: np.ascontiguousarray((names[rows] @ columns).T)

    return take_queries
