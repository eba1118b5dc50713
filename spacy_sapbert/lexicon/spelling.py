"""Typing errors: a long word that neither English nor any name has stands for the word of names that it nearly is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from os.path import commonprefix
from string import ascii_lowercase

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..ragged import find_places, list_owners
from ..text import CACHED
from .bags import KeyFilter, make_key_filter
from .english import RARE, find_levels
from .languages import Language
from .scan import Reading, list_words, scan_many

# Letters of the words that are put right. Shorter ones are nearly any other word.
LEAST_LETTERS, MOST_LETTERS = 6, 40
# Words that are looked at together.
AT_ONCE = 256
_LETTERS = np.frombuffer(ascii_lowercase.encode(), dtype=np.uint8)
# MurmurHash64A, with the seed of spaCy's strings.
_SEED, _FACTOR, _SHIFT = 1, 0xC6A4A7935BD1E995, np.uint64(47)


class Speller:
    """The words of names, to put others right. The table of names has their hashes only: what a word may be is made of
    the word, which few words of a text need."""

    def __init__(self, vocabulary: np.ndarray) -> None:
        self._vocabulary = vocabulary
        self._may_be = make_key_filter(vocabulary)
        self._known: dict[str, int] = {}

    def correct(self, text: str, reading: Reading) -> frozenset[int]:
        """Put words of a reading right, and return their places."""
        lengths = reading.ends - reading.starts
        long = np.flatnonzero((lengths >= LEAST_LETTERS) & (lengths <= MOST_LETTERS))
        strange = long[find_places(self._vocabulary, reading.hashes[long]) < 0]
        strange = strange[find_levels(reading.hashes[strange]) == RARE]
        bounds = zip(reading.starts[strange].tolist(), reading.ends[strange].tolist(), strict=True)
        words = [text[start:end] for start, end in bounds]
        # Other threads may use the same one, which therefore loses nothing.
        found = self._known if len(self._known) < CACHED else {}
        found.update(self._find_known({word for word in words if word not in found}))
        self._known = found
        known = np.array([found[word] for word in words], dtype=np.uint64)
        reading.hashes[strange[known > 0]] = known[known > 0]
        return frozenset(strange[known > 0].tolist())

    def _find_known(self, texts: set[str]) -> Iterator[tuple[str, int]]:
        """Find the hash of the one word of names that each word nearly is; 0 for none."""
        words = sorted(texts)
        near = find_near(words, lambda _, hashes: self._is_known(hashes))
        yield from ((word, hash_string(near[place]) if place in near else 0) for place, word in enumerate(words))

    def _is_known(self, hashes: np.ndarray) -> np.ndarray:
        return _find_in(self._vocabulary, self._may_be, hashes)


def find_misspelt(texts: Sequence[str], names: np.ndarray, may_be: KeyFilter, language: Language) -> dict[int, int]:
    """Find the texts that are a name but for a typing error in one long word, which neither English has nor is a name:
    the key of that name, by the places of texts. `names` are the keys of names by their words in order."""
    scanned, offsets = scan_many(texts, language)
    keys, hashes = scanned.words.make_keys(offsets), scanned.words.hashes
    words = [scanned.pieces[2 * number + 1] for number in scanned.number.tolist()]
    owner, powers = list_owners(offsets), scanned.words.make_powers(offsets)
    is_long = np.array([LEAST_LETTERS <= len(word) <= MOST_LETTERS for word in words], dtype=bool)
    strange = np.flatnonzero(is_long & (find_places(names, hashes) < 0))
    strange = strange[find_levels(hashes[strange]) == RARE]
    rest = keys[owner[strange]] - hashes[strange] * powers[strange]

    def is_name(rows: np.ndarray, of_words: np.ndarray) -> np.ndarray:
        return _find_in(names, may_be, rest[rows, None] + of_words * powers[strange][rows, None])

    near = find_near([words[place] for place in strange.tolist()], is_name)
    at = np.array([*near], dtype=np.int64)
    right = np.array([*map(hash_string, near.values())], dtype=np.uint64)
    keys = rest[at] + right * powers[strange[at]]
    return dict(zip(owner[strange[at]].tolist(), keys.tolist(), strict=True))


def _find_in(known: np.ndarray, may_be: KeyFilter, hashes: np.ndarray) -> np.ndarray:
    is_known = may_be(hashes)
    is_known[is_known] = find_places(known, hashes[is_known]) >= 0
    return is_known


def find_near(texts: Sequence[str], is_known: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> dict[int, str]:
    """Find the one known word that each word nearly is, by the places of words: of several, the one that it starts like
    for longer than like any other. `is_known` gets the places of words, and the hashes of what each may be."""
    forms: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for place, text in enumerate(texts):
        words = list_words(text)
        if len(words) == 1 and len(words[0]) >= LEAST_LETTERS:
            # As it is, too: "arthrits" is no plural.
            for form in {words[0], text.lower()}:
                if form.isascii() and form.isalpha():
                    forms[len(form)].append((place, form))
    near: dict[int, set[str]] = defaultdict(set)
    for pairs in (some[at : at + AT_ONCE] for some in forms.values() for at in range(0, len(some), AT_ONCE)):
        letters = np.frombuffer("".join(form for _, form in pairs).encode(), dtype=np.uint8)
        places = np.array([place for place, _ in pairs])
        for edits in list_edits(letters.reshape(len(pairs), -1)):
            row, edit = np.nonzero(is_known(places, hash_letters(edits)))
            for at, word in zip(places[row].tolist(), edits[row, edit], strict=True):
                near[at].add(word.tobytes().decode())
    found = {}
    for place, known in near.items():
        shared = sorted((len(commonprefix([texts[place].lower(), word])), word) for word in known)
        if len(shared) == 1 or shared[-1][0] > shared[-2][0]:
            found[place] = shared[-1][1]
    return found


def list_edits(words: np.ndarray) -> Iterator[np.ndarray]:
    """List what words of equal length may be with one error: two letters that have changed places, one too many,
    another one or one too few. The first is right. From letters in ASCII, shape (words, length), come those of as many
    possible words for each, shape (words, possible words, length)."""
    n, length = words.shape
    places = np.arange(length)
    swapped = [[*places[:at], at + 1, at, *places[at + 2 :]] for at in range(1, length - 1)]
    yield words[:, np.array(swapped)]
    yield words[:, np.array([np.delete(places, at) for at in range(1, length)])]
    # The letter behind the last place is any.
    with_letter = np.insert(np.repeat(words[:, None], len(_LETTERS), axis=1), length, _LETTERS, axis=2)
    others = np.where(np.eye(length, dtype=bool)[1:], length, places)
    more = np.array([np.insert(places, at, length) for at in range(1, length + 1)])
    for order in (others, more):
        yield with_letter[:, :, order].reshape(n, -1, order.shape[1])


def hash_letters(words: np.ndarray) -> np.ndarray:
    """Hash words of equal length as spaCy does, all at once."""
    length = words.shape[-1]
    padded = np.zeros((*words.shape[:-1], -(-length // 8) * 8), dtype=np.uint8)
    padded[..., :length] = words
    blocks = padded.view("<u8")
    factor = np.uint64(_FACTOR)
    key = np.full(words.shape[:-1], _SEED ^ (length * _FACTOR % (1 << 64)), dtype=np.uint64)
    for at in range(blocks.shape[-1]):
        block = blocks[..., at]
        if 8 * at + 8 <= length:
            block = block * factor
            block = (block ^ (block >> _SHIFT)) * factor
        key = (key ^ block) * factor
    key = (key ^ (key >> _SHIFT)) * factor
    hashes: np.ndarray = key ^ (key >> _SHIFT)
    return hashes
