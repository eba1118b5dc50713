"""What a reranker remembers of its training, and how that is saved: annotated mentions, and what they say of others."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors.numpy import save_file
from typing_extensions import TypedDict

from ..arrays import ArrayFile
from ..errors import DAMAGED, OTHER_VERSION
from ..files import fill_folder, find_part, read_manifest, write_manifest
from ..forking import kept_property
from .network import Features, NetworkModel
from .prior import MIN_CHANCE, MIN_FOUND

if TYPE_CHECKING:
    from .second import SecondReading

CANT_DECIDE = "The reranker '{name}' can't decide here: {reason}. Use what it was trained with, or train it again."

RERANKER_FILE = "reranker.json"
FORMAT_VERSION = 1
MODEL_FILE, ARRAYS_FILE = "model", "arrays.safetensors"
# The folder of a second reading, if there is one.
SECOND = "second"

# Annotated mentions nearest to a mention whose concepts are looked at. More than are needed, because those of the
# document that is left out do not count.
NEAREST = 64
# A mention with a cosine of 1 has a vote, one with 0.9 a third of it.
SHARPNESS = 12.0
# Concepts of the nearest annotated mentions that become candidates, and the cosine that they need.
ADDED = 5
ADDED_COSINE = 0.6
# Votes of similar mentions that stand for those that nobody has annotated.
PRIOR_VOTES = 0.001


class Recalled(NamedTuple):
    """What the annotations say of a mention, by the numbers of concepts."""

    nearest: dict[int, float]  # cosine of the nearest mention that is annotated with a concept, the nearest first
    floor: float  # cosine of concepts that no near mention is annotated with
    votes: dict[int, float]  # of near mentions for a concept
    same: dict[int, int]  # how often the same string is annotated with a concept
    left_out: dict[int, int]  # how often a concept is annotated in the document that is left out

    def list_added(self) -> list[int]:
        """List the concepts that become candidates because near mentions are annotated with them, best first."""
        return [concept for concept, cosine in self.nearest.items() if cosine >= ADDED_COSINE][:ADDED]


class Remembered(NamedTuple):
    """What the annotations say of candidates."""

    frequency: np.ndarray  # how often the concept is annotated
    n_same: np.ndarray  # how often it is annotated for the same string
    n_mention: np.ndarray  # how often that string is annotated
    nearest: np.ndarray  # the cosine of the nearest mention that is annotated with the concept
    best: np.ndarray  # the cosine of the nearest annotated mention
    votes: np.ndarray  # of near mentions for the concept
    all_votes: np.ndarray


ANNOTATIONS: Features[Remembered] = {
    "concept_frequency": ("annotated often", lambda of: np.log1p(of.frequency)),
    "concept_share": ("annotated for this mention", lambda of: of.n_same / np.maximum(of.n_mention, 1)),
    "annotated_cosine": ("annotated for similar mentions", lambda of: of.nearest),
    "mention_frequency": ("the mention is annotated often", lambda of: np.log1p(of.n_mention)),
    "annotated_margin": ("annotated for the most similar mention", lambda of: of.nearest - of.best),
    "vote_share": ("annotated for most of the similar mentions", lambda of: of.votes / (of.all_votes + PRIOR_VOTES)),
    "votes": ("annotated for many similar mentions", lambda of: np.log1p(of.votes)),
}


class _OwnCounts(NamedTuple):
    """How often mentions are annotated with concepts in one document, and how often concepts are."""

    pairs: dict[tuple[int, int], int]
    concepts: dict[int, int]


NO_COUNTS = _OwnCounts({}, {})


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
        self.mentions = list(mentions)
        self.concepts = list(concepts)
        # Half precision: a cosine differs by less than .001, and the largest part of the folder is half as large.
        self.vectors = np.asarray(vectors, dtype=np.float16)
        self.rows = np.asarray(rows, dtype=np.int64)
        self.documents = np.asarray(documents, dtype=np.uint64)
        self._wide = self.vectors.astype(np.float32)
        self._places = {mention: place for place, mention in enumerate(self.mentions)}
        self._keys = frozenset(self.documents.tolist())
        mention, concept, _, n = self.rows.T
        self._totals = np.bincount(concept, weights=n, minlength=len(self.concepts))
        # How often each concept is annotated for each mention.
        self._counts: list[dict[int, int]] = [{} for _ in self.mentions]
        for of_mention, of_concept, times in zip(mention.tolist(), concept.tolist(), n.tolist(), strict=True):
            counts = self._counts[of_mention]
            counts[of_concept] = counts.get(of_concept, 0) + times

    @kept_property
    def _own(self) -> dict[int, _OwnCounts]:
        """The counts of each document, which training leaves out, by its key."""
        own = {key: _OwnCounts({}, Counter()) for key in self.documents.tolist()}
        of_document = [*own.values()]
        for mention, concept, document, n in self.rows.tolist():
            of_document[document].pairs[mention, concept] = n
            of_document[document].concepts[concept] += n
        return own

    @classmethod
    def collect(
        cls, annotations: Iterable[tuple[Any, ...]], encode: Callable[[list[str]], np.ndarray]
    ) -> AnnotationMemory:
        """Collect mentions with the id of a concept and the key of the document. Their order makes no difference."""
        counts = Counter(annotations)
        columns = [sorted({annotation[column] for annotation in counts}) for column in range(3)]
        mentions, concepts, documents = ({value: place for place, value in enumerate(column)} for column in columns)
        rows = sorted((mentions[text], concepts[id_], documents[key], n) for (text, id_, key), n in counts.items())
        table = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
        keys = np.array([*documents], dtype=np.uint64)
        return cls([*mentions], encode([*mentions]), [*concepts], table, keys)

    def has_document(self, key: int) -> bool:
        """Return whether annotations of a document are here."""
        return key in self._keys

    def recall(self, mentions: Sequence[str], vectors: np.ndarray, left_out: Sequence[int | None]) -> list[Recalled]:
        """Recall what the annotations say of mentions, without those of the document that is left out for each."""
        nearest, cosines = self._find_nearest(vectors)
        weights = np.exp(SHARPNESS * (cosines.astype(np.float64) - 1))
        rows = zip(mentions, left_out, nearest.tolist(), cosines.tolist(), weights.tolist(), strict=True)
        return [self._recall(*row) for row in rows]

    def _recall(
        self, text: str, left_out: int | None, nearest: list[int], cosines: list[float], weights: list[float]
    ) -> Recalled:
        own = NO_COUNTS if left_out is None else self._own[left_out]
        first: dict[int, float] = {}
        votes: dict[int, float] = {}
        for mention, cosine, weight in zip(nearest, cosines, weights, strict=True):
            for concept, n in self._count(mention, own.pairs):
                first.setdefault(concept, cosine)
                votes[concept] = votes.get(concept, 0.0) + n * weight
        same = dict(self._count(self._places[text], own.pairs)) if text in self._places else {}
        return Recalled(first, cosines[-1] if cosines else 0.0, votes, same, own.concepts)

    def _count(self, mention: int, own: dict[tuple[int, int], int]) -> Iterable[tuple[int, int]]:
        """Count the annotations of a mention by concept, without those of the document that is left out."""
        counts = self._counts[mention].items()
        if not own:
            return counts
        left = ((concept, n - own.get((mention, concept), 0)) for concept, n in counts)
        return [(concept, n) for concept, n in left if n > 0]

    def describe(self, recalled: Iterable[Recalled], concepts: Iterable[Sequence[int]]) -> Remembered:
        """Describe the candidates of mentions, given by the numbers of their concepts, -1 for those that nothing is
        annotated with."""
        recalled = [*recalled]
        concepts = [*concepts]
        lengths = [*map(len, concepts)]
        flat = np.array([*chain.from_iterable(concepts)], dtype=np.int64)

        def look_up(tables: Iterable[dict[int, Any]], default: float = 0) -> np.ndarray:
            values: list[float] = []
            for table, row in zip(tables, concepts, strict=True):
                # Few mentions are annotated themselves, or belong to a document that is left out.
                values += [table.get(concept, default) for concept in row] if table else [default] * len(row)
            return np.array(values, dtype=np.float64)

        def repeat(values: Iterable[float]) -> np.ndarray:
            return np.repeat(np.array([*values], dtype=np.float64), lengths)

        nearest = look_up((of.nearest for of in recalled), np.nan)
        floor = repeat(of.floor for of in recalled)
        # Behind the totals there is a 0 for -1.
        totals = np.append(self._totals, 0)[flat]
        return Remembered(
            frequency=totals - look_up(of.left_out for of in recalled),
            n_same=look_up(of.same for of in recalled),
            n_mention=repeat(sum(of.same.values()) for of in recalled),
            nearest=np.where(np.isnan(nearest), floor, nearest),
            best=repeat(next(iter(of.nearest.values()), of.floor) for of in recalled),
            votes=look_up(of.votes for of in recalled),
            all_votes=repeat(sum(of.votes.values()) for of in recalled),
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


def document_key(text: str) -> int:
    """Make the key by which a training document is recognised: a hash of 64 bits."""
    digest = hashlib.blake2b(text.encode("utf8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class Curve(NamedTuple):
    """A monotone map between probabilities, with straight lines between its points."""

    x: np.ndarray  # probabilities of the softmax, rising; float64
    y: np.ndarray  # calibrated ones, not falling; float64

    def apply(self, probabilities: np.ndarray) -> np.ndarray:
        """Calibrate probabilities."""
        return np.asarray(np.interp(probabilities, self.x, self.y))


IDENTITY = Curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]))


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
    second: SecondReading | None = None  # what reads mentions again

    @property
    def is_trained(self) -> bool:
        """Whether a network decides."""
        return bool(self.features)

    @property
    def is_calibrated(self) -> bool:
        """Whether its probabilities, or the one that an id needs, have been fitted to annotations."""
        curves = self.concept, self.nil
        return self.threshold is not None or any(not np.array_equal(curve.x, curve.y) for curve in curves)

    def get_threshold(self, wanted: float | None, *, is_found: bool = False) -> float | None:
        """Get the probability that the best concept of a mention, given or found by the matcher, needs for an id; None
        if it has to beat the probability of NIL."""
        chosen = self.threshold if wanted is None else wanted
        if chosen is None and not self.is_trained:
            return MIN_FOUND if is_found else MIN_CHANCE
        return chosen


class Texts(TypedDict):
    """The mentions and concepts that have been annotated."""

    mentions: list[str]
    concepts: list[str]


class RerankerManifest(TypedDict):
    """What the manifest says beside the arrays."""

    features: list[str]
    encoder: str
    terminology: str
    threshold: float | None
    memory: Texts | None
    second: str | None  # the fingerprint of the second encoder


def save_learned(path: Path, model: NetworkModel, learned: Learned) -> None:
    """Save a reranker to a folder, completely or not at all; before training, without a network."""
    concept = learned.concept
    nil = learned.nil
    arrays = {"concept_x": concept.x, "concept_y": concept.y, "nil_x": nil.x, "nil_y": nil.y}
    data: dict[str, Any] = {
        "features": list(learned.features),
        "encoder": learned.encoder,
        "terminology": learned.terminology,
        "threshold": learned.threshold,
        "memory": None,
        "second": None if learned.second is None else learned.second.encoder.fingerprint,
    }
    if (memory := learned.memory) is not None:
        data["memory"] = {"mentions": memory.mentions, "concepts": memory.concepts}
        arrays |= {"vectors": memory.vectors, "rows": memory.rows, "documents": memory.documents}
    with fill_folder(path, last=RERANKER_FILE, remove=(MODEL_FILE, SECOND)) as folder:
        if learned.second is not None:
            learned.second.to_disk(folder / SECOND)
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / ARRAYS_FILE)
        if learned.features:
            (folder / MODEL_FILE).write_bytes(model.to_bytes())
        write_manifest(folder / RERANKER_FILE, FORMAT_VERSION, data, below=False)


def load_learned(
    path: Path, model: NetworkModel, name: str, computed: Sequence[str], *, memory_map: bool = True
) -> Learned:
    """Load a reranker from a folder: the network's weights, if it has been trained, and what else it has learned.

    Features other than the computed ones are refused.
    """
    used: tuple[str, ...] = (MODEL_FILE, ARRAYS_FILE)
    parts = (*used, SECOND)
    features = tuple(read_manifest(path / RERANKER_FILE, FORMAT_VERSION, RerankerManifest, parts=parts)["features"])
    used = used if features else (ARRAYS_FILE,)
    manifest = read_manifest(path / RERANKER_FILE, FORMAT_VERSION, RerankerManifest, used=used)
    if features and features != tuple(computed):
        reason = (
            f"it was trained with {len(features)} features, this version of spacy-sapbert computes {len(computed)}, or "
            "others"
        )
        raise ValueError(CANT_DECIDE.format(name=name, reason=reason))
    arrays = ArrayFile(path / ARRAYS_FILE)
    texts = manifest["memory"]
    memory = None if texts is None else _read_memory(arrays, texts)
    concept = _read_curve(arrays, "concept")
    nil = _read_curve(arrays, "nil")
    second = None
    if manifest["second"] is not None:
        from .second import SecondReading

        folder = find_part(path, SECOND)
        second = SecondReading.from_disk(folder, memory_map=memory_map)
        if second.encoder.fingerprint != manifest["second"]:
            raise OSError(DAMAGED.format(path=folder, reason="it was saved with another reranker"))
    if features:
        try:
            model.from_bytes((path / MODEL_FILE).read_bytes())
        except Exception as error:  # damaged bytes make msgpack raise nearly anything
            raise OSError(OTHER_VERSION.format(path=path / MODEL_FILE, reason=repr(error))) from error
    return Learned(
        manifest["encoder"],
        manifest["terminology"],
        features,
        memory,
        concept,
        nil,
        manifest["threshold"],
        second,
    )


def _read_curve(arrays: ArrayFile, name: str) -> Curve:
    x = arrays.read(f"{name}_x", np.float64)
    y = arrays.read(f"{name}_y", np.float64, shape=x.shape)
    both = np.stack([x, y])
    # A comparison with what is not a number is false.
    are_probabilities = ((both >= 0) & (both <= 1)).all()
    if not len(x) or not (np.diff(x) >= 0).all() or not are_probabilities:
        raise arrays.refuse(f"{name}_x", "it is no curve from probabilities to probabilities")
    return Curve(x, y)


def _read_memory(arrays: ArrayFile, texts: Texts) -> AnnotationMemory:
    mentions = texts["mentions"]
    concepts = texts["concepts"]
    documents = arrays.read("documents", np.uint64)
    rows = arrays.read("rows", np.int64, shape=(None, 4))
    limits = len(mentions), len(concepts), len(documents), np.iinfo(np.int32).max
    if (rows < 0).any() or (rows >= limits).any():
        raise arrays.refuse("rows", "it has places of mentions, concepts or documents that are not there")
    vectors = arrays.read("vectors", np.float16, shape=(len(mentions), None))
    return AnnotationMemory(mentions, vectors, concepts, rows, documents)
