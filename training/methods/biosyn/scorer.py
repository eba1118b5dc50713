"""Search in blocks, sparse vectors of strings, and the trained scorer of BioSyn, which adds up both kinds of products.

No array ever holds the scores of all queries and all names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spacy_sapbert.encoder.shim import EncoderShim

from ...encoders.embeddings import Embeddings

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

ENCODER_FOLDER = "encoder"
BIOSYN_FILE = "biosyn.json"
FORMAT_VERSION = 1
# 256 x 16,384 scores are 17 MB.
QUERY_BLOCK = 256
NAME_BLOCK = 16_384
# Takes a block of queries, and returns a function that takes a block of names and returns their scores: an array of
# shape (queries, names), float32. All blocks of names share what it prepares for queries.
Score = Callable[[slice], Callable[[slice], np.ndarray]]


def search_blocks(
    score: Score,
    n_queries: int,
    n_names: int,
    k: int,
    *,
    above: float = -np.inf,
    query_block: int = QUERY_BLOCK,
    name_block: int = NAME_BLOCK,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k names with the highest scores above a limit, block after block; equal scores by row. Rows and scores
    are as `Searcher.search` returns them."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for start in range(0, n_queries, query_block):
        end = min(start + query_block, n_queries)
        found.extend(_search(score(slice(start, end)), end - start, n_names, k, above, name_block))
    return pad(found, k)


def _search(
    score: Callable[[slice], np.ndarray], n_queries: int, n_names: int, k: int, above: float, name_block: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    best = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))] * n_queries
    for start in range(0, n_names, name_block):
        products = score(slice(start, min(start + name_block, n_names)))
        for query, (rows, scores) in enumerate(best):
            # A later row that only equals the last of the best comes after it.
            floor = scores[-1] if len(rows) == k else above
            new = np.flatnonzero(products[query] > floor)
            if len(new):
                together = np.concatenate([rows, new + start]), np.concatenate([scores, products[query, new]])
                best[query] = take_best(*together, k)
    return best


def take_best(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Take the rows with the highest scores, and of those with equal scores the first, without sorting all."""
    if len(rows) > k:
        likely = scores >= np.partition(scores, -k)[-k]
        rows, scores = rows[likely], scores[likely]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def pad(found: list[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Put rows and scores of the at most k names found for each query into one array, as `Searcher.search` does."""
    all_rows = np.full((len(found), k), -1, dtype=np.int64)
    all_scores = np.full((len(found), k), -np.inf, dtype=np.float32)
    for query, (rows, scores) in enumerate(found):
        all_rows[query, : len(rows)], all_scores[query, : len(rows)] = rows, scores
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


class BioSynScorer:
    """Finds the names with the highest sum of the inner product of vectors and the weighted product of sparse ones
    (section 3.1). The whole dictionary is searched, not only candidates.

    encoder (EncoderShim | Embeddings): The encoder, whose vectors are taken as they are, or its vectors.
    sparse (SparseEncoder): The sparse encoder.
    weight (float): Weight of sparse products.
    """

    def __init__(self, encoder: EncoderShim | Embeddings, sparse: SparseEncoder, weight: float) -> None:
        self.embeddings = encoder if isinstance(encoder, Embeddings) else Embeddings(encoder)
        self.sparse = sparse
        self.weight = weight

    @classmethod
    def from_disk(cls, folder: str | Path, *, cache: str | Path | None = None) -> BioSynScorer:
        """Load what training has written to its output folder. With a cache, vectors of strings are kept there."""
        data = _read(Path(folder) / BIOSYN_FILE)
        encoder = EncoderShim({}, "auto")
        encoder.load(Path(folder) / ENCODER_FOLDER)
        if encoder.fingerprint != data["encoder"]:
            raise ValueError(
                f"The encoder in {folder} is not the one that its weight of shared characters was learned with: its "
                f"fingerprint is {encoder.fingerprint}, not {data['encoder']}. Train again, or put the right one there."
            )
        sparse = SparseEncoder(data["sparse"]["vocabulary"], data["sparse"]["idf"])
        return cls(Embeddings(encoder, cache), sparse, float(data["weight"]))

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the highest scores. See `Searcher.search`."""
        left, right = (self.embeddings.take(strings, normalised=False) for strings in (queries, names))
        sparse = score_sparse(self.sparse.encode(queries), self.sparse.encode(names))

        def take_queries(block: slice) -> Callable[[slice], np.ndarray]:
            shared, dense = sparse(block), left[block]

            def take_names(rows: slice) -> np.ndarray:
                products = shared(rows)
                products *= self.weight
                products += dense @ right[rows].T
                return products

            return take_names

        return search_blocks(take_queries, len(queries), len(names), k)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"Can't find the file {path} (seen from {Path.cwd()}).")
    reason = "its parts do not fit together, or it is of another version"
    try:
        data = json.loads(path.read_text(encoding="utf8"))
        sparse = data["sparse"]
        is_whole = data["format"] == FORMAT_VERSION and {"encoder", "weight"} <= set(data)
        is_whole = is_whole and len(sparse["vocabulary"]) == len(sparse["idf"]) > 0
    except (ValueError, KeyError, TypeError) as error:
        is_whole, reason = False, repr(error)
    if not is_whole:
        raise ValueError(
            f"{path} is not what training of BioSyn writes: {reason}. Give the output folder of a run with the method "
            "biosyn, or train again."
        )
    return data
