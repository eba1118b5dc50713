"""The annotated mentions of the training documents."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

# Annotated mentions nearest to a mention whose concepts are looked at.
NEAREST = 64
# Concepts of them that become candidates, and the cosine that they need.
ADDED, ADDED_COSINE = 5, 0.6


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


class Recollection(NamedTuple):
    """What the annotations say of one mention.

    totals (Mapping[str, int]): How often each concept is annotated, in all documents.
    left_out (Mapping[str, int]): How often in the document that is left out.
    same (Mapping[str, int]): How often each concept is annotated for the same string.
    n_mentions (int): How often the string is annotated.
    nearest (dict[str, float]): Cosine of the nearest annotated mention of each concept, best first.
    floor (float): Cosine of concepts that no near mention has.
    """

    totals: Counter[str]
    left_out: Counter[str]
    same: Counter[str]
    n_mentions: int
    nearest: dict[str, float]
    floor: float
    votes: dict[str, float]

    def frequency(self, concept: str) -> int:
        """Count the annotations of a concept.

        concept (str): Its id.
        RETURNS (int): How often it is annotated, in other documents than the one that is left out.
        """
        return self.totals[concept] - self.left_out[concept]

    def share(self, concept: str) -> float:
        """Compute how probable a concept is for annotations of the same string.

        concept (str): Its id.
        RETURNS (float): Its share; zero for strings that are not annotated.
        """
        return self.same[concept] / self.n_mentions if self.n_mentions else 0.0

    def list_added(self) -> list[str]:
        """List the concepts that become candidates because near mentions are annotated with them.

        RETURNS (list[str]): Their ids, best first.
        """
        near = [concept for concept, cosine in self.nearest.items() if cosine >= ADDED_COSINE]
        return near[:ADDED]


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
        self._totals: Counter[str] = Counter()
        self._by_document: dict[int, Counter[str]] = {}
        # Of each mention, how often each concept is annotated; and how often of that in a single document.
        self._by_mention: list[dict[str, int]] = [{} for _ in self.mentions]
        self._in_document: dict[tuple[int, int], dict[str, int]] = {}
        for place, number, document, n in self.rows.tolist():
            concept = self.concepts[number]
            self._totals[concept] += n
            self._by_document.setdefault(document, Counter())[concept] += n
            of_mention = self._by_mention[place]
            of_mention[concept] = of_mention.get(concept, 0) + n
            in_document = self._in_document.setdefault((document, place), {})
            in_document[concept] = in_document.get(concept, 0) + n

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

    def recall(
        self, mentions: Sequence[str], vectors: np.ndarray, left_out: Sequence[int | None]
    ) -> list[Recollection]:
        """Recall what the annotations say of mentions.

        mentions (Sequence[str]): The mentions.
        vectors (ndarray): Their vectors, shape (mentions, width).
        left_out (Sequence[int | None]): The key of a document for each whose annotations do not count.
        RETURNS (list[Recollection]): What is said of each.
        """
        if not self.mentions:
            return [Recollection(self._totals, Counter(), Counter(), 0, {}, 0.0, {}) for _ in mentions]
        cosines = vectors @ self._wide.T
        # More than are needed, because those of the document that is left out do not count.
        n_nearest = min(NEAREST, cosines.shape[1])
        nearest = np.argpartition(-cosines, n_nearest - 1, axis=1)[:, :n_nearest]
        return [
            self._recall_one(mention, cosines[place], nearest[place], left_out[place])
            for place, mention in enumerate(mentions)
        ]

    def _recall_one(self, mention: str, cosines: np.ndarray, nearest: np.ndarray, key: int | None) -> Recollection:
        document = -1 if key is None else self._document_places.get(key, -1)
        place = self._places.get(mention)
        same = Counter({} if place is None else self._count(place, document))
        best: dict[str, float] = {}
        votes: dict[str, float] = {}
        ordered = nearest[np.argsort(-cosines[nearest], kind="stable")]
        for near, cosine in zip(ordered.tolist(), cosines[ordered].tolist(), strict=True):
            weight = math.exp(SHARPNESS * (cosine - 1))
            for concept, n in self._count(near, document).items():
                best.setdefault(concept, cosine)
                votes[concept] = votes.get(concept, 0.0) + n * weight
        floor = float(cosines[ordered[-1]])
        left = self._by_document.get(document, Counter())
        return Recollection(self._totals, left, same, sum(same.values()), best, floor, votes)

    def _count(self, mention: int, left_out: int) -> dict[str, int]:
        """Count the annotations of a mention by concept, without those of one document."""
        own = self._in_document.get((left_out, mention))
        if own is None:
            return self._by_mention[mention]
        left = {concept: n - own.get(concept, 0) for concept, n in self._by_mention[mention].items()}
        return {concept: n for concept, n in left.items() if n}


def document_key(text: str) -> int:
    """Make the key by which a training document is recognised.

    text (str): Its text.
    RETURNS (int): A hash of 64 bits.
    """
    return int.from_bytes(hashlib.blake2b(text.encode("utf8", "surrogatepass"), digest_size=8).digest(), "little")
