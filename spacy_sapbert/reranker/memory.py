"""The annotated mentions of the training documents."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .recollections import Lookup, Recollections

# Annotated mentions nearest to a mention whose concepts are looked at. More than are needed, because those of the
# document that is left out do not count.
NEAREST = 64
# A mention with a cosine of 1 has a vote, one with 0.9 a third of it.
SHARPNESS = 12.0


class Annotation(NamedTuple):
    """A mention with its concept.

    mention (str): The more telling form of the mention.
    concept (str): The id of its concept.
    document (int): The key of its document.
    """

    mention: str
    concept: str
    document: int


class _Counts(NamedTuple):
    """How often concepts are annotated, for each of several queries."""

    query: np.ndarray
    place: np.ndarray
    concept: np.ndarray
    n: np.ndarray


class AnnotationMemory:
    """Annotated mentions with concept and document, and the vector of each distinct mention.

    mentions (Sequence[str]): The distinct mentions.
    vectors (ndarray): Their unit vectors, shape (mentions, width).
    concepts (Sequence[str]): The ids of the distinct concepts.
    rows (ndarray): Places of mention, concept and document, and how often they occur together; shape (n, 4), int64,
        sorted by mention.
    documents (ndarray): The keys of the documents; uint64.
    """

    def __init__(
        self,
        mentions: Sequence[str],
        vectors: np.ndarray,
        concepts: Sequence[str],
        rows: np.ndarray,
        documents: np.ndarray,
    ) -> None:
        self.mentions, self.concepts = list(mentions), list(concepts)
        # Half precision: a cosine differs by less than .001, and the largest part of the folder is half as large.
        self.vectors = np.asarray(vectors, dtype=np.float16)
        self.rows, self.documents = np.asarray(rows, dtype=np.int64), np.asarray(documents, dtype=np.uint64)
        self._wide = self.vectors.astype(np.float32)
        self._places = {mention: place for place, mention in enumerate(self.mentions)}
        self._document_places = {key: place for place, key in enumerate(self.documents.tolist())}
        self._numbers = {concept: number for number, concept in enumerate(self.concepts)}
        mention, concept, document, n = self.rows.T
        self._totals = np.bincount(concept, weights=n, minlength=len(self.concepts)).astype(np.int64)
        # Of each mention, how often each concept is annotated.
        pairs, of_pair = np.unique(mention * len(self.concepts) + concept, return_inverse=True)
        self._concept_of_pair = pairs % max(len(self.concepts), 1)
        self._count_of_pair = np.bincount(of_pair, weights=n, minlength=len(pairs)).astype(np.int64)
        self._pairs = pairs
        sizes = np.bincount(pairs // max(len(self.concepts), 1), minlength=len(self.mentions))
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])
        self._by_document = np.argsort(document, kind="stable")
        self._document_offsets = np.searchsorted(document[self._by_document], np.arange(len(self.documents) + 1))

    @classmethod
    def collect(cls, annotations: Iterable[Annotation], vectors: dict[str, np.ndarray], width: int) -> AnnotationMemory:
        """Collect annotations. The same annotations give the same memory, whatever their order.

        annotations (Iterable[Annotation]): The annotations.
        vectors (dict[str, ndarray]): The vectors of the mentions; others are left out.
        width (int): The width of the vectors.
        RETURNS (AnnotationMemory): The memory.
        """
        counts = Counter(found for found in annotations if found.mention in vectors)
        mentions = sorted({found.mention for found in counts})
        concepts = sorted({found.concept for found in counts})
        documents = sorted({found.document for found in counts})
        places = [{value: place for place, value in enumerate(values)} for values in (mentions, concepts, documents)]
        rows = sorted(
            (*(place[value] for place, value in zip(places, found, strict=True)), n) for found, n in counts.items()
        )
        stacked = np.stack([vectors[text] for text in mentions]) if mentions else np.zeros((0, width))
        table = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
        return cls(mentions, stacked, concepts, table, np.array(documents, dtype=np.uint64))

    def __len__(self) -> int:
        """Return the number of annotated mentions.

        RETURNS (int): All of them, repeated ones included.
        """
        return int(self.rows[:, 3].sum())

    def has_document(self, key: int) -> bool:
        """Tell whether annotations of a document are here.

        key (int): The document's key.
        RETURNS (bool): Whether there are any.
        """
        return key in self._document_places

    def recall(self, mentions: Sequence[str], vectors: np.ndarray, left_out: Sequence[int | None]) -> Recollections:
        """Recall what the annotations say of mentions.

        mentions (Sequence[str]): The mentions.
        vectors (ndarray): Their vectors, shape (mentions, width).
        left_out (Sequence[int | None]): The key of a document for each whose annotations do not count.
        RETURNS (Recollections): What is said of them.
        """
        numbers, n = np.arange(len(mentions)), len(mentions)
        own = self._list_own(left_out)
        nearest, cosines = self._find_nearest(vectors)
        near = self._count(np.repeat(numbers, nearest.shape[1]), nearest.ravel(), own)
        key = near.query * len(self.concepts) + near.concept
        keys, first, group = np.unique(key, return_index=True, return_inverse=True)
        cosine = cosines.ravel()[near.place]
        votes = np.bincount(
            group, weights=near.n * np.exp(SHARPNESS * (cosine.astype(np.float64) - 1)), minlength=len(keys)
        )
        floor = cosines[:, -1] if nearest.shape[1] else np.zeros(n, dtype=np.float32)
        best = floor.copy()
        # The nearest mentions come first.
        filled, start = np.unique(near.query, return_index=True)
        best[filled] = cosine[start]
        place = np.array([self._places.get(mention, -1) for mention in mentions], dtype=np.int64)
        known = np.flatnonzero(place >= 0)
        same = self._count(known, place[known], own)
        return Recollections(
            numbers=self._numbers,
            totals=self._totals,
            nearest=Lookup(keys, cosine[first]),
            order=first,
            votes=Lookup(keys, votes),
            total_votes=np.bincount(keys // max(len(self.concepts), 1), weights=votes, minlength=n),
            floor=floor,
            best=best,
            same=Lookup.of(same.query * len(self.concepts) + same.concept, same.n),
            n_mentions=np.bincount(same.query, weights=same.n, minlength=n),
            left_out=Lookup.of(own.query * len(self.concepts) + own.concept, own.n),
        )

    def _find_nearest(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the annotated mentions nearest to vectors, and their cosines."""
        cosines = vectors @ self._wide.T
        n_nearest = min(NEAREST, cosines.shape[1])
        if not n_nearest:
            return np.zeros(cosines.shape, dtype=np.int64), cosines
        nearest = np.argpartition(-cosines, n_nearest - 1, axis=1)[:, :n_nearest]
        cosines = np.take_along_axis(cosines, nearest, axis=1)
        order = np.argsort(-cosines, axis=1, kind="stable")
        return np.take_along_axis(nearest, order, axis=1), np.take_along_axis(cosines, order, axis=1)

    def _list_own(self, left_out: Sequence[int | None]) -> _Counts:
        """List the annotations of the documents that are left out; `place` is their mention."""
        document = [-1 if key is None else self._document_places.get(key, -1) for key in left_out]
        parts = [
            (query, self._by_document[slice(*self._document_offsets[place : place + 2])])
            for query, place in enumerate(document)
            if place >= 0
        ]
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *(of_document for _, of_document in parts)])
        query = np.repeat([query for query, _ in parts], [len(of_document) for _, of_document in parts])
        mention, concept, _, n = self.rows[rows].T
        return _Counts(query.astype(np.int64), mention, concept, n)

    def _count(self, queries: np.ndarray, mentions: np.ndarray, own: _Counts) -> _Counts:
        """Count the annotations of mentions by concept, without a query's own. `place` is the mention's place."""
        sizes = self._offsets[mentions + 1] - self._offsets[mentions]
        place = np.repeat(np.arange(len(mentions)), sizes)
        pair = np.arange(len(place)) + np.repeat(self._offsets[mentions] - np.cumsum(sizes) + sizes, sizes)
        query, n = queries[place], self._count_of_pair[pair]
        if len(own.query):
            own_pair = np.searchsorted(self._pairs, own.place * len(self.concepts) + own.concept)
            n = n - Lookup.of(own.query * len(self._pairs) + own_pair, own.n).get(query * len(self._pairs) + pair)
        counted = n > 0
        return _Counts(query[counted], place[counted], self._concept_of_pair[pair][counted], n[counted])


def document_key(text: str) -> int:
    """Make the key by which a training document is recognised.

    text (str): Its text.
    RETURNS (int): A hash of 64 bits.
    """
    return int.from_bytes(hashlib.blake2b(text.encode("utf8", "surrogatepass"), digest_size=8).digest(), "little")
