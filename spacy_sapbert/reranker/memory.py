"""What a reranker remembers of its training, and how that is saved: annotated mentions, and what they say of others."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file

from ..files import fill_folder, read_manifest, write_manifest
from ..ragged import count_offsets, list_owners, take_lists
from .calibration import IDENTITY, Curve
from .network import NetworkModel

CANT_DECIDE = "The reranker '{name}' can't decide here: {reason}. Use what it was trained with, or train it again."

RERANKER_FILE = "reranker.json"
FORMAT_VERSION = 1
MODEL_FILE, ARRAYS_FILE = "model", "arrays.safetensors"

# Annotated mentions nearest to a mention whose concepts are looked at. More than are needed, because those of the
# document that is left out do not count.
NEAREST = 64
# A mention with a cosine of 1 has a vote, one with 0.9 a third of it.
SHARPNESS = 12.0
# Concepts of the nearest annotated mentions that become candidates, and the cosine that they need.
ADDED, ADDED_COSINE = 5, 0.6
# Votes of similar mentions that stand for those that nobody has annotated.
PRIOR_VOTES = 0.001


class MemoryEntry(NamedTuple):
    """A mention with its concept."""

    mention: str  # its more telling form
    concept: str  # the id of its concept
    document: int  # the key of its document


class Lookup(NamedTuple):
    """Values by key: distinct keys, sorted, and the value of each."""

    keys: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, values: np.ndarray) -> Lookup:
        """Sum integers by key."""
        distinct, places = np.unique(keys, return_inverse=True)
        return cls(distinct, np.bincount(places, weights=values, minlength=len(distinct)).astype(np.int64))

    def get(self, keys: np.ndarray, default: np.ndarray | int = 0) -> np.ndarray:
        """Get the value of each key, or the default."""
        if not len(self.keys):
            return np.broadcast_to(np.asarray(default), keys.shape)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.values[places], default)


class _Counts(NamedTuple):
    """How often concepts are annotated, for each of several mentions that are asked for."""

    mention: np.ndarray
    place: np.ndarray
    concept: np.ndarray
    n: np.ndarray


class Recollections(NamedTuple):
    """What the annotations say of mentions. The key of a mention and a concept is `mention * n_concepts + concept`."""

    totals: np.ndarray  # how often each concept is annotated
    nearest: Lookup  # cosine of the nearest annotated mention of a concept
    order: np.ndarray  # for each key of `nearest` where it came among all: the nearest first
    votes: Lookup  # votes of similar mentions for a concept
    total_votes: np.ndarray  # all votes for each mention
    floor: np.ndarray  # for each mention the cosine of concepts that no near mention has
    best: np.ndarray  # for each mention the cosine of the nearest annotated mention
    same: Lookup  # how often a concept is annotated for the same string
    n_mentions: np.ndarray  # how often each string is annotated
    left_out: Lookup  # how often a concept is annotated in the document that is left out

    def list_added(self) -> tuple[np.ndarray, np.ndarray]:
        """List the concepts that become candidates because near mentions are annotated with them: mention after
        mention, best first."""
        near = np.flatnonzero(self.nearest.values >= ADDED_COSINE)
        mentions, concepts = np.divmod(self.nearest.keys[near], max(len(self.totals), 1))
        order = np.lexsort((self.order[near], mentions))
        mentions, concepts = mentions[order], concepts[order]
        place = np.arange(len(mentions)) - np.searchsorted(mentions, mentions)
        return mentions[place < ADDED], concepts[place < ADDED]

    def compute_features(self, mention: np.ndarray, concept: np.ndarray) -> np.ndarray:
        """Compute the features of candidates by the numbers of their mentions and concepts, -1 for those that nothing
        is annotated with."""
        is_known = concept >= 0
        keys = np.where(is_known, mention * len(self.totals) + concept, -1)
        totals = np.where(is_known, np.append(self.totals, 0)[concept], 0)
        nearest = self.nearest.get(keys, self.floor[mention])
        n_mentions, votes = self.n_mentions[mention], self.votes.get(keys)
        columns = [
            np.log1p(totals - self.left_out.get(keys)),
            self.same.get(keys) / np.maximum(n_mentions, 1),
            nearest,
            np.log1p(n_mentions),
            nearest - self.best[mention],
            votes / (self.total_votes[mention] + PRIOR_VOTES),
            np.log1p(votes),
        ]
        return np.stack(columns, axis=1)


class AnnotationMemory:
    """Annotated mentions with concept and document, and the vector of each distinct mention.

    `rows` has places of mention, concept and document, and how often they occur together, sorted by mention. Documents
    are known by their keys.
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
        mention, concept, document, n = self.rows.T
        n_concepts = max(len(self.concepts), 1)
        self._totals = np.bincount(concept, weights=n, minlength=len(self.concepts)).astype(np.int64)
        # Of each mention, how often each concept is annotated.
        self._pairs, of_pair = np.unique(mention * n_concepts + concept, return_inverse=True)
        self._count_of_pair = np.bincount(of_pair, weights=n, minlength=len(self._pairs)).astype(np.int64)
        self._offsets = count_offsets(self._pairs // n_concepts, len(self.mentions))
        self._by_document = np.argsort(document, kind="stable")
        self._document_offsets = count_offsets(document, len(self.documents))

    @classmethod
    def collect(
        cls, annotations: Iterable[MemoryEntry], vectors: dict[str, np.ndarray], width: int
    ) -> AnnotationMemory:
        """Collect annotations of mentions that have a vector. Their order makes no difference."""
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

    def has_document(self, key: int) -> bool:
        """Return whether annotations of a document are here."""
        return key in self._document_places

    def recall(self, mentions: Sequence[str], vectors: np.ndarray, left_out: Sequence[int | None]) -> Recollections:
        """Recall what the annotations say of mentions, without those of the document that is left out for each."""
        n, n_concepts = len(mentions), max(len(self.concepts), 1)
        own = self._list_own(left_out)
        nearest, cosines = self._find_nearest(vectors)
        near = self._count(np.repeat(np.arange(n), nearest.shape[1]), nearest.ravel(), own)
        keys, first, group = np.unique(near.mention * n_concepts + near.concept, return_index=True, return_inverse=True)
        cosine = cosines.ravel()[near.place]
        weights = near.n * np.exp(SHARPNESS * (cosine.astype(np.float64) - 1))
        votes = np.bincount(group, weights=weights, minlength=len(keys))
        floor = cosines[:, -1] if nearest.shape[1] else np.zeros(n, dtype=np.float32)
        best = floor.copy()
        # The nearest mentions come first.
        filled, start = np.unique(near.mention, return_index=True)
        best[filled] = cosine[start]
        place = np.array([self._places.get(mention, -1) for mention in mentions], dtype=np.int64)
        known = np.flatnonzero(place >= 0)
        same = self._count(known, place[known], own)
        return Recollections(
            totals=self._totals,
            nearest=Lookup(keys, cosine[first]),
            order=first,
            votes=Lookup(keys, votes),
            total_votes=np.bincount(keys // n_concepts, weights=votes, minlength=n),
            floor=floor,
            best=best,
            same=Lookup.of(same.mention * n_concepts + same.concept, same.n),
            n_mentions=np.bincount(same.mention, weights=same.n, minlength=n),
            left_out=Lookup.of(own.mention * n_concepts + own.concept, own.n),
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
        numbers = (-1 if key is None else self._document_places.get(key, -1) for key in left_out)
        document = np.fromiter(numbers, dtype=np.int64, count=len(left_out))
        asked = np.flatnonzero(document >= 0)
        places, offsets = take_lists(self._document_offsets, document[asked])
        mention, concept, _, n = self.rows[self._by_document[places]].T
        return _Counts(asked[list_owners(offsets)], mention, concept, n)

    def _count(self, asked: np.ndarray, mentions: np.ndarray, own: _Counts) -> _Counts:
        """Count the annotations of mentions by concept, without those of the document that is left out."""
        n_concepts = max(len(self.concepts), 1)
        pair, offsets = take_lists(self._offsets, mentions)
        place = list_owners(offsets)
        mention, n = asked[place], self._count_of_pair[pair]
        if len(own.mention):
            own_pair = np.searchsorted(self._pairs, own.place * n_concepts + own.concept)
            n = n - Lookup.of(own.mention * len(self._pairs) + own_pair, own.n).get(mention * len(self._pairs) + pair)
        counted = n > 0
        return _Counts(mention[counted], place[counted], self._pairs[pair[counted]] % n_concepts, n[counted])


def document_key(text: str) -> int:
    """Make the key by which a training document is recognised: a hash of 64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf8", "surrogatepass"), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Learned:
    """What a reranker knows of its training apart from the network's weights; replaced as a whole."""

    encoder: str = ""  # fingerprint of the linker's encoder
    terminology: str = ""  # fingerprint of the linker's terminology
    features: tuple[str, ...] = ()  # the features that it was trained with
    memory: AnnotationMemory | None = None
    concept: Curve = IDENTITY  # calibrates the probability of the best concept
    nil: Curve = IDENTITY  # calibrates the probability of NIL
    threshold: float | None = None  # the chosen one


def save_learned(path: Path, model: NetworkModel, learned: Learned) -> None:
    """Save a reranker to a folder, completely or not at all; before training, without a network."""
    (concept_x, concept_y), (nil_x, nil_y) = learned.concept, learned.nil
    arrays = {"concept_x": concept_x, "concept_y": concept_y, "nil_x": nil_x, "nil_y": nil_y}
    data: dict[str, Any] = {
        "features": list(learned.features),
        "encoder": learned.encoder,
        "terminology": learned.terminology,
        "threshold": learned.threshold,
        "memory": None,
    }
    if (memory := learned.memory) is not None:
        data["memory"] = {"mentions": memory.mentions, "concepts": memory.concepts}
        arrays |= {"vectors": memory.vectors, "rows": memory.rows, "documents": memory.documents}
    with fill_folder(path, last=RERANKER_FILE, remove=() if learned.features else (MODEL_FILE,)) as folder:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / ARRAYS_FILE)
        if learned.features:
            (folder / MODEL_FILE).write_bytes(model.to_bytes())
        write_manifest(folder / RERANKER_FILE, FORMAT_VERSION, data)


def load_learned(path: Path, model: NetworkModel, name: str, computed: Sequence[str]) -> Learned:
    """Load a reranker from a folder: the network's weights, if it has been trained, and what else it has learned.

    Features other than the computed ones are refused.
    """
    used: tuple[str, ...] = (MODEL_FILE, ARRAYS_FILE)
    features = tuple(read_manifest(path / RERANKER_FILE, FORMAT_VERSION, parts=used)["features"])
    manifest = read_manifest(path / RERANKER_FILE, FORMAT_VERSION, used=used if features else (ARRAYS_FILE,))
    if features and features != tuple(computed):
        reason = (
            f"it was trained with {len(features)} features, this version of spacy-sapbert computes {len(computed)}, or "
            "others"
        )
        raise ValueError(CANT_DECIDE.format(name=name, reason=reason))
    arrays, memory = load_file(path / ARRAYS_FILE), None
    if (texts := manifest["memory"]) is not None:
        parts = arrays["vectors"], texts["concepts"], arrays["rows"], arrays["documents"]
        memory = AnnotationMemory(texts["mentions"], *parts)
    if features:
        model.from_bytes((path / MODEL_FILE).read_bytes())
    return Learned(
        manifest["encoder"],
        manifest["terminology"],
        features,
        memory,
        Curve(arrays["concept_x"], arrays["concept_y"]),
        Curve(arrays["nil_x"], arrays["nil_y"]),
        manifest["threshold"],
    )
