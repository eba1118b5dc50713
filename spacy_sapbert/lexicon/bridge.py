"""What open ontologies say: which names stand for one concept, how many descendants it has, and which words make
another concept of a name. It comes with the package, as hashes.

The file is made by `python -m spacy project run bridge projects/open_terminology`, which says how it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from safetensors.numpy import load_file
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..forking import ColumnReader, kept_property
from ..ragged import count_offsets, find_places, list_owners, make_offsets, split_lists, take_lists
from ..semantic_types import find_kind
from ..text import CACHED
from .bags import ANY_ABNORMALITY
from .classes import GIVEN, join_classes
from .contradictions import contradicts, list_words
from .derived import read_list
from .languages import ENGLISH
from .reading import read_many

if TYPE_CHECKING:
    from ..terminology.table import Terminology

FILE = Path(__file__).parent / "bridge.safetensors"
# Of keys and hashes of words, the file has the first bits.
SHIFT = np.uint64(32)
# Bits of a concept of the bridge in a pair.
PAIR = 32
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
        clusters, offsets = self.list_clusters(keys)
        return [frozenset(of_key) for of_key in split_lists(clusters, offsets)]

    def list_clusters(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """List the concepts that have a name with each key, and the offsets of those of each."""
        short = (keys >> SHIFT).astype(np.uint32)
        first, last = (np.searchsorted(self.keys, short, side=side) for side in ("left", "right"))
        # A text without words has the key 0.
        offsets = make_offsets(np.where(keys > 0, last - first, 0))
        places = np.arange(offsets[-1]) + (first - offsets[:-1])[list_owners(offsets)]
        return self.clusters[places], offsets

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
    hashes = (sorted(map(hash_string, pair)) for pair in read_list("word_pairs.txt"))
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

    keys: Sequence[int]  # of its names
    clusters: Sequence[int]  # the concepts of the bridge that most of its names are of
    size: float  # the logarithm of 1 + the descendants of the largest of these
    thing: int  # a number, the same for concepts of one kind whose canonical names have the same words


class BridgedTerminology:
    """The concepts of a terminology in the bridge, looked up once for each concept as candidates come."""

    def __init__(self, terminology: Terminology, bridge: Bridge) -> None:
        self.bridge, self._offsets, concepts = bridge, terminology.name_offsets, terminology.concepts
        self._names, self._canonical_names, self._types = map(
            ColumnReader, (terminology.names["name"], concepts["canonical_name"], concepts["types"])
        )
        self._known: dict[int, BridgedConcept] = {}

    def look_up(self, concepts: Iterable[int]) -> dict[int, BridgedConcept]:
        """Look up concepts by their rows."""
        wanted = [*dict.fromkeys(concepts)]
        known = self._known if len(self._known) < KEPT_CONCEPTS else {}
        if missing := [concept for concept in wanted if concept not in known]:
            # Threads may look up the same ones; what they find is equal.
            known.update(self._read(np.array(missing, dtype=np.int64)))
            self._known = known
        return {concept: known[concept] for concept in wanted}

    def _read(self, concepts: np.ndarray) -> Iterator[tuple[int, BridgedConcept]]:
        rows, offsets = take_lists(self._offsets, concepts)
        # The canonical name counts twice.
        keys = make_keys([*self._canonical_names.list(concepts), *self._names.list(rows)])
        canonical, owners = keys[: len(concepts)].tolist(), np.append(np.arange(len(concepts)), list_owners(offsets))
        # How many names of each concept are of each concept of the bridge, and which of these have most.
        clusters, of_name = self.bridge.list_clusters(keys)
        pairs, votes = np.unique(owners[list_owners(of_name)] << PAIR | clusters, return_counts=True)
        most = np.zeros(len(concepts), dtype=np.int64)
        np.maximum.at(most, pairs >> PAIR, votes)
        pairs = pairs[2 * votes >= most[pairs >> PAIR]]
        owner, clusters = pairs >> PAIR, pairs & ((1 << PAIR) - 1)
        sizes = np.zeros(len(concepts))
        np.maximum.at(sizes, owner, self.bridge.sizes[clusters])
        order = np.argsort(owners, kind="stable")
        order = order[keys[order] > 0]
        columns = (
            concepts.tolist(),
            split_lists(keys[order], count_offsets(owners[order], len(concepts))),
            split_lists(clusters, count_offsets(owner, len(concepts))),
            np.log1p(sizes).tolist(),
            canonical,
            self._types.list(concepts),
        )
        for concept, of_names, kept, size, key, types in zip(*columns, strict=True):
            thing = (key + hash_string(find_kind(types))) % (1 << 63) if key else concept
            yield concept, BridgedConcept(tuple(of_names), tuple(kept), size, thing)
