"""What open ontologies say: which names stand for one concept, how many descendants it has, and which words make
another concept of a name. It comes with the package, as hashes.

The file is made by `python -m spacy project run bridge projects/open_terminology`, which says how it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from safetensors.numpy import load_file
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..columns import ColumnReader
from ..forking import kept_property
from ..ragged import as_hashes, count_offsets, find_places, list_owners, make_offsets, sum_lists, take_lists
from ..semantic_types import find_kind
from ..text import CACHED
from .bags import ANY_ABNORMALITY
from .contradictions import collect_words, contradicts
from .derived import read_list
from .languages import ENGLISH, Language
from .scan import is_among, read_content, sum_hashes

if TYPE_CHECKING:
    from ..terminology.table import Terminology

FILE = Path(__file__).parent / "bridge.safetensors"
# Of keys and hashes of words, the file has the first bits.
SHIFT = np.uint64(32)
# Bits of a concept of the bridge in a pair.
PAIR = 32
# The largest number of a thing.
MOST = np.uint64((1 << 63) - 1)
# Concepts whose names are read at once.
CHUNK = 8192


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

    def list_clusters(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """List the concepts that have a name with each key, and the offsets of those of each."""
        short = (keys >> SHIFT).astype(np.uint32)
        starts = np.searchsorted(self.keys, short)
        ends = np.searchsorted(self.keys, short, side="right")
        # A text without words has the key 0.
        offsets = make_offsets(np.where(keys > 0, ends - starts, 0))
        places = np.arange(offsets[-1]) + (starts - offsets[:-1])[list_owners(offsets)]
        return self.clusters[places], offsets

    def contradicts(self, mention: str, name: str, language: Language = ENGLISH) -> bool:
        """Check if a mention contradicts a name, or is another by one word that ontologies use to tell siblings apart,
        where these words are known."""
        if contradicts(mention, name, language):
            return True
        if not language.has_contrasts:
            return False
        words = collect_words(mention, ENGLISH)
        others = collect_words(name, ENGLISH)
        ours = words - others
        theirs = others - words
        return len(ours) == len(theirs) == 1 < len(words) and self.tells_apart(*ours, *theirs)

    def tells_apart(self, first: str, second: str) -> bool:
        """Check if a name means another concept once the first word is replaced by the second."""
        contrasting, same = self._words
        words = _shorten(first), _shorten(second)
        if not contrasting.issuperset(words) or pair_words(*words) in same:
            return False
        return _classify(first) != _classify(second)

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
    hashes = [[*map(hash_string, pair)] for pair in read_list("word_pairs")]
    pairs = np.sort(np.array(hashes, dtype=np.uint64), axis=1)
    words, places = np.unique(pairs, return_inverse=True)
    classes = words.copy()
    # Every two words of a class are a pair, so its lowest word is beside each of them.
    np.minimum.at(classes, places.reshape(pairs.shape)[:, 1], pairs[:, 0])
    return words, classes


def make_keys(texts: Sequence[str]) -> np.ndarray:
    """Make a key for each text: the sum of the hashes of its words' classes. The order of words makes no difference,
    and all words for an abnormality count as one. Texts without words get 0. Shape (texts,), uint64."""
    return sum_words(*read_content(texts), len(texts))


def sum_words(hashes: np.ndarray, place: np.ndarray, n: int) -> np.ndarray:
    """Make the keys of `n` texts that have been read, given the hashes of words and the text that each is of."""
    words, classes = _get_classes()
    places = find_places(words, hashes)
    values = np.where(places >= 0, classes[places], hashes)
    is_any = is_among(hashes, ENGLISH.abnormal)
    has_one = np.bincount(place[is_any], minlength=n) == 1
    has_others = np.bincount(place, minlength=n) > 1
    values[is_any & (has_one & has_others)[place]] = ANY_ABNORMALITY
    return sum_hashes(values, place, n)


@lru_cache(CACHED)
def _classify(word: str) -> int:
    """Get the key of a word that is not a name by itself."""
    key = int(make_keys([word])[0])
    return int(ANY_ABNORMALITY) if key in ENGLISH.abnormal.tolist() else key


class Consulted(NamedTuple):
    """What the bridge says of candidates."""

    sizes: np.ndarray  # the logarithm of 1 + the descendants of what their concepts are in the bridge
    # A number of each concept, the same for those of one kind whose canonical names have the same words.
    things: np.ndarray
    is_named: np.ndarray  # whether the concept has a name with the words of the mention
    is_bridged: np.ndarray  # whether one of the concepts that it is in the bridge has such a name


class BridgedTerminology:
    """The concepts of a terminology in the bridge. The keys of their names are made once, as candidates come, or all
    before they are saved."""

    def __init__(self, terminology: Terminology, *made: np.ndarray, language: Language = ENGLISH) -> None:
        self._terminology = terminology
        self._names = ColumnReader(terminology.names["name"])
        self._canonical_names = ColumnReader(terminology.concepts["canonical_name"])
        self._types = ColumnReader(terminology.concepts["types"])
        # The keys of names, and for each concept the key of its canonical name and the number of the thing that it is.
        shapes = terminology.n_names, (len(terminology), 2)
        self._keys, self._concepts = made or tuple(np.zeros(shape, dtype=np.uint64) for shape in shapes)
        self._is_read = np.full(len(terminology), bool(made))
        self.language = language

    @kept_property
    def bridge(self) -> Bridge:
        """The bridge of the package."""
        return get_bridge()

    @property
    def made(self) -> tuple[np.ndarray, ...]:
        """What is to be saved: nothing before all names have been read."""
        return (self._keys, self._concepts) if self._is_read.all() else ()

    def read_all(self) -> None:
        """Read the names of all concepts."""
        for start in range(0, len(self._is_read), CHUNK):
            self._read(np.arange(start, min(start + CHUNK, len(self._is_read))))

    def _read(self, concepts: np.ndarray) -> None:
        missing = concepts[~self._is_read[concepts]]
        if not len(missing):
            return
        rows, _ = take_lists(self._terminology.name_offsets, missing)
        keys = make_keys([*self._canonical_names.list(missing), *self._names.list(rows)])
        canonical = keys[: len(missing)]
        self._keys[rows] = keys[len(missing) :]
        kinds = as_hashes(hash_string(find_kind(types)) for types in self._types.list(missing))
        things = np.where(canonical > 0, (canonical + kinds) & MOST, missing.astype(np.uint64))
        self._concepts[missing] = np.stack([canonical, things], axis=1)
        # Threads may read the same ones; what they write is equal.
        self._is_read[missing] = True

    def consult(self, mention_keys: np.ndarray, mention: np.ndarray, concept: np.ndarray) -> Consulted:
        """Look up pairs of a mention, by its place among keys, and a concept."""
        concepts, place = np.unique(concept, return_inverse=True)
        self._read(concepts)
        rows, offsets = take_lists(self._terminology.name_offsets, concepts)
        canonical, things = self._concepts[concepts].T
        keys = self._keys[rows]
        clusters, of_clusters = self._find_clusters(canonical, keys, offsets)
        sizes = np.zeros(len(concepts))
        np.maximum.at(sizes, list_owners(of_clusters), self.bridge.sizes[clusters])
        mention_key = mention_keys[mention]
        names, of_pair = take_lists(offsets, place)
        has_key = keys[names] == np.repeat(mention_key, np.diff(of_pair))
        is_named = (sum_lists(has_key, of_pair) > 0) | (canonical[place] == mention_key)
        of_mentions, of_mention = self.bridge.list_clusters(mention_keys)
        pairs = np.unique(list_owners(of_mention) << PAIR | of_mentions)
        numbers, of_pair = take_lists(of_clusters, place)
        is_bridged = is_among(np.repeat(mention, np.diff(of_pair)) << PAIR | clusters[numbers], pairs)
        return Consulted(
            sizes=np.log1p(sizes)[place],
            things=things.astype(np.int64)[place],
            is_named=is_named & (mention_key > 0),
            is_bridged=sum_lists(is_bridged, of_pair) > 0,
        )

    def _find_clusters(
        self, canonical: np.ndarray, keys: np.ndarray, offsets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find what concepts are in the bridge, by the keys of their names: the concepts of the bridge that most of
        their names are of, and the offsets of those of each."""
        n = len(canonical)
        clusters, of_name = self.bridge.list_clusters(np.concatenate([canonical, keys]))
        # The canonical name counts twice.
        owners = np.concatenate([np.arange(n), list_owners(offsets)])[list_owners(of_name)]
        pairs, votes = np.unique(owners << PAIR | clusters, return_counts=True)
        most = np.zeros(n, dtype=np.int64)
        np.maximum.at(most, pairs >> PAIR, votes)
        pairs = pairs[2 * votes >= most[pairs >> PAIR]]
        return pairs & ((1 << PAIR) - 1), count_offsets(pairs >> PAIR, n)
