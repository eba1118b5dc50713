"""What open ontologies say: which names stand for one concept, how many descendants it has, and which words make
another concept of a name. It comes with the package, as hashes.

The file is made by `python -m spacy project run bridge projects/open_terminology`, which says how it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from safetensors.numpy import load_file
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..forking import kept_property
from ..ragged import find_places
from ..semantic_types import find_kind
from ..text import CACHED
from .bags import ANY_ABNORMALITY, read_lists
from .classes import GIVEN, join_classes
from .contradictions import contradicts, list_words
from .languages import ENGLISH
from .reading import read_many

if TYPE_CHECKING:
    from ..terminology.table import Terminology

FILE = Path(__file__).parent / "bridge.safetensors"
NOWHERE: frozenset[int] = frozenset()
# Of keys and hashes of words, the file has the first bits.
SHIFT = np.uint64(32)
# Concepts whose facts are remembered. When there are more, they are looked up again.
KEPT_CONCEPTS = 1 << 18


@dataclass(frozen=True, eq=False)
class Bridge:
    """Names and concepts of open ontologies."""

    keys: np.ndarray  # of names, sorted; uint32
    clusters: np.ndarray  # the concept of each; uint32
    sizes: np.ndarray  # how many descendants each concept has; uint32
    contrasting: np.ndarray  # words that tell siblings apart, sorted; uint32
    same: np.ndarray  # pairs of these that stand for one another all the same, as `pair_words` makes them; uint64

    @classmethod
    def load(cls, path: Path = FILE) -> Bridge:
        """Load from a file."""
        return cls(**load_file(path))

    def find(self, keys: np.ndarray) -> list[frozenset[int]]:
        """Find the concepts that have a name with each key."""
        short = (keys >> SHIFT).astype(np.uint32)
        first, last = (np.searchsorted(self.keys, short, side=side).tolist() for side in ("left", "right"))
        return [
            frozenset(self.clusters[start:end].tolist()) if start < end and key else NOWHERE
            for key, start, end in zip(keys.tolist(), first, last, strict=True)
        ]

    def contradicts(self, mention: str, name: str) -> bool:
        """Check if a mention contradicts a name, also by one other word that ontologies use to tell siblings apart."""
        if contradicts(mention, name):
            return True
        words, others = list_words(mention), list_words(name)
        ours, theirs = words - others, others - words
        return len(ours) == len(theirs) == 1 < len(words) and self.tells_apart(*ours, *theirs)

    def tells_apart(self, first: str, second: str) -> bool:
        """Check if a name means another concept once the first word is replaced by the second."""
        contrasting, same = self._words
        words = _shorten(first), _shorten(second)
        return (
            contrasting.issuperset(words) and pair_words(*words) not in same and _classify(first) != _classify(second)
        )

    @kept_property
    def _words(self) -> tuple[frozenset[int], frozenset[int]]:
        return frozenset(self.contrasting.tolist()), frozenset(self.same.tolist())


@cache
def get_bridge() -> Bridge:
    """Get the bridge of the package."""
    return Bridge.load()


def _shorten(word: str) -> int:
    return int(hash_string(word)) >> int(SHIFT)


def pair_words(first: int, second: int) -> int:
    """Make one number of the hashes of two words, in any order."""
    return (max(first, second) << int(SHIFT)) | min(first, second)


@cache
def _get_classes() -> tuple[np.ndarray, np.ndarray]:
    """Get the words of the package's pairs, sorted, and the word that stands for the class of each."""
    pairs, _ = read_lists()
    hashes = (sorted(map(hash_string, pair)) for pair in pairs)
    class_of = sorted(join_classes({(first, second): GIVEN for first, second in hashes}).items())
    words, classes = np.array(class_of, dtype=np.uint64).T
    return words, classes


def make_keys(texts: Sequence[str]) -> np.ndarray:
    """Make a key for each text: the sum of the hashes of its words' classes. The order of words makes no difference,
    and all words for an abnormality count as one. Texts without words get 0. Shape (texts,), uint64."""
    hashes, place = read_many(texts)
    words, classes = _get_classes()
    known = find_places(words, hashes)
    of_words = np.where(known >= 0, classes[known], hashes)
    is_any = find_places(ENGLISH.abnormal, hashes) >= 0
    n_any, n_words = (np.bincount(place[which], minlength=len(texts)) for which in (is_any, slice(None)))
    of_words[is_any & ((n_any == 1) & (n_words > 1))[place]] = ANY_ABNORMALITY
    keys = np.zeros(len(texts), dtype=np.uint64)
    np.add.at(keys, place, of_words)
    return keys


@lru_cache(CACHED)
def _classify(word: str) -> int:
    """Get the key of a word that is not a name by itself."""
    key = int(make_keys([word])[0])
    return int(ANY_ABNORMALITY) if key in ENGLISH.abnormal.tolist() else key


class BridgedConcept(NamedTuple):
    """What is known of a concept of a terminology."""

    keys: frozenset[int]  # of its names
    clusters: frozenset[int]  # the concepts of the bridge that most of its names are of
    size: float  # the logarithm of 1 + the descendants of the largest of these
    thing: int  # a number, the same for concepts of one kind whose canonical names have the same words


class BridgedTerminology:
    """The concepts of a terminology in the bridge, looked up once for each concept as candidates come."""

    def __init__(self, terminology: Terminology, bridge: Bridge) -> None:
        self.bridge, self._offsets = bridge, terminology.name_offsets
        self._names, self._canonical_names = terminology.names["name"], terminology.concepts["canonical_name"]
        self._types = terminology.concepts["types"]
        self._known: dict[int, BridgedConcept] = {}

    def look_up(self, concepts: Iterable[int]) -> dict[int, BridgedConcept]:
        """Look up concepts by their rows."""
        wanted = [*dict.fromkeys(concepts)]
        known = self._known if len(self._known) < KEPT_CONCEPTS else {}
        missing = [concept for concept in wanted if concept not in known]
        # Threads may look up the same ones; what they find is equal.
        known = self._known = {**known, **self._read(missing)} if missing else known
        return {concept: known[concept] for concept in wanted}

    def _read(self, concepts: Sequence[int]) -> dict[int, BridgedConcept]:
        names, offsets = self._names, self._offsets
        # The canonical name counts twice.
        texts = [
            [self._canonical_names[concept], *(names[row] for row in range(*offsets[concept : concept + 2].tolist()))]
            for concept in concepts
        ]
        keys = make_keys([text for of_concept in texts for text in of_concept])
        of_name = zip(keys.tolist(), self.bridge.find(keys), strict=True)
        return {
            concept: self._describe(concept, [next(of_name) for _ in of_concept])
            for concept, of_concept in zip(concepts, texts, strict=True)
        }

    def _describe(self, concept: int, of_names: Sequence[tuple[int, frozenset[int]]]) -> BridgedConcept:
        votes: dict[int, int] = {}
        for _, clusters in of_names:
            for cluster in clusters:
                votes[cluster] = votes.get(cluster, 0) + 1
        most = max(votes.values(), default=0)
        kept = frozenset(cluster for cluster, n in votes.items() if 2 * n >= most)
        size = max((int(self.bridge.sizes[cluster]) for cluster in kept), default=0)
        keys, canonical = frozenset(key for key, _ in of_names if key), of_names[0][0]
        kind = hash_string(find_kind(self._types[concept].to_list()))
        thing = (canonical + kind) % (1 << 63) if canonical else concept
        return BridgedConcept(keys, kept, float(np.log1p(size)), thing)
