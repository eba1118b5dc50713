"""Systems that look queries up in a dictionary: by equality, by shared characters, by vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.errors import Errors
from spacy_sapbert.index import exact_search

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Similarity = Literal["cosine", "dot"]
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot")
# Nearly every query shares a letter with nearly every name: so many products are held at a time, 50 MB.
QUERY_BLOCK = 64
NAME_BLOCK = 65_536


class System(Protocol):
    """Whatever finds names for queries."""

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find names.

        names (Sequence[str]): The dictionary.
        queries (Sequence[str]): What to look up.
        k (int): Names wanted for each query, at most as many as there are.
        RETURNS (Tuple[ndarray, ndarray]): Rows of names, shape (queries, k), int64, best first, equal ones by row,
            padded with -1; and their scores, float32, padded with -inf.
        """
        ...


class ExactMatch:
    """Names that are equal to the query but for upper and lower case: the floor for any other system."""

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names that equal a query. See `System.search`; all scores are 1."""
        rows_of: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            rows_of.setdefault(name.lower(), []).append(row)
        found = [np.array(rows_of.get(query.lower(), ())[:k], dtype=np.int64) for query in queries]
        return _pad([(rows, np.ones(len(rows), dtype=np.float32)) for rows in found], k)


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
        return _pad(found, k)


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


def _search_sparse(
    left: csr_matrix, blocks: list[tuple[int, csr_matrix]], k: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    best: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(left.shape[0])]
    for start, right in blocks:
        products: Any = (left @ right).tocsr()
        for query, kept in enumerate(best):
            span = slice(products.indptr[query], products.indptr[query + 1])
            kept.append(_take_best(products.indices[span].astype(np.int64) + start, products.data[span], k))
    return [
        _take_best(np.concatenate([rows for rows, _ in kept]), np.concatenate([scores for _, scores in kept]), k)
        for kept in best
    ]


def _take_best(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Take the rows with the highest scores, and of those with equal scores the first, without sorting all."""
    if len(rows) > k:
        likely = scores >= np.partition(scores, -k)[-k]
        rows, scores = rows[likely], scores[likely]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def _pad(found: list[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    all_rows = np.full((len(found), k), -1, dtype=np.int64)
    all_scores = np.full((len(found), k), -np.inf, dtype=np.float32)
    for query, (rows, scores) in enumerate(found):
        all_rows[query, : len(rows)], all_scores[query, : len(rows)] = rows, scores
    return all_rows, all_scores
