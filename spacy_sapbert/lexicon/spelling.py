"""Typing errors: a long word that neither English nor any name has stands for the word of names that it nearly is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from os.path import commonprefix
from string import ascii_lowercase

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..ragged import as_hashes, find_places, list_owners
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
        # The hash of what each word should be; 0 if nothing is near.
        self._right: dict[str, int] = {}

    def correct(self, text: str, reading: Reading) -> frozenset[int]:
        """Put words of a reading right, and return their places."""
        places = _find_strange(reading.hashes, reading.ends - reading.starts, self._vocabulary)
        words = [text[reading.starts[place] : reading.ends[place]] for place in places]
        # Other threads may use the same one, which therefore loses nothing.
        right = self._right if len(self._right) < CACHED else {}
        new = sorted({word for word in words if word not in right})
        near = find_near(new, self._have)
        hashes_of = {new[place]: hash_string(word) for place, word in near.items()}
        right.update(dict.fromkeys(new, 0) | hashes_of)
        self._right = right
        hashes = as_hashes(right[word] for word in words)
        places = places[hashes > 0]
        reading.hashes[places] = hashes[hashes > 0]
        return frozenset(places.tolist())

    def _have(self, _: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        return _are_among(self._vocabulary, self._may_be, hashes)


def find_misspelt(texts: Sequence[str], names: np.ndarray, may_be: KeyFilter, language: Language) -> dict[int, int]:
    """Find the texts that are a name but for a typing error in one long word, which neither English has nor is a name:
    the key of that name, by the places of texts. `names` are the keys of names by their words in order."""
    scanned, offsets = scan_many(texts, language)
    hashes = scanned.words.hashes
    strange = _find_strange(hashes, scanned.ends - scanned.starts, names)
    words = [scanned.pieces[2 * number + 1] for number in scanned.number[strange]]
    owners = list_owners(offsets)[strange]
    powers = scanned.words.make_powers(offsets)[strange]
    # The keys of texts without their strange words.
    rest = scanned.words.make_keys(offsets)[owners] - hashes[strange] * powers

    def are_names(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        return _are_among(names, may_be, rest[rows, None] + others * powers[rows, None])

    near = find_near(words, are_names)
    rows = np.array([*near], dtype=np.int64)
    right = as_hashes(map(hash_string, near.values()))
    keys = rest[rows] + right * powers[rows]
    return dict(zip(owners[rows].tolist(), keys.tolist(), strict=True))


def _find_strange(hashes: np.ndarray, lengths: np.ndarray, vocabulary: np.ndarray) -> np.ndarray:
    """Find the long words that neither English has nor a vocabulary."""
    places = np.flatnonzero((lengths >= LEAST_LETTERS) & (lengths <= MOST_LETTERS))
    places = places[find_places(vocabulary, hashes[places]) < 0]
    return np.asarray(places[find_levels(hashes[places]) == RARE])


def _are_among(keys: np.ndarray, may_be: KeyFilter, hashes: np.ndarray) -> np.ndarray:
    are_among = may_be(hashes)
    are_among[are_among] = find_places(keys, hashes[are_among]) >= 0
    return are_among


def find_near(texts: Sequence[str], is_known: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> dict[int, str]:
    """Find the one known word that each word nearly is, by the places of words: of several, the one that it starts like
    for longer than like any other. `is_known` gets the places of words, and the hashes of what each may be."""
    near: dict[int, set[str]] = defaultdict(set)
    for places, letters in _group_forms(texts):
        for edits in list_edits(letters):
            rows, columns = np.nonzero(is_known(places, hash_letters(edits)))
            for place, word in zip(places[rows].tolist(), edits[rows, columns], strict=True):
                near[place].add(word.tobytes().decode())
    nearest = {place: _choose_nearest(texts[place].lower(), words) for place, words in near.items()}
    return {place: word for place, word in nearest.items() if word}


def _group_forms(texts: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Group the forms of words by their length: their places, and their letters, shape (forms, length)."""
    groups: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for place, text in enumerate(texts):
        words = list_words(text)
        if len(words) > 1 or len("".join(words)) < LEAST_LETTERS:
            continue
        # As it is, too: "arthrits" is no plural.
        for form in {*words, text.lower()}:
            if form.isascii() and form.isalpha():
                groups[len(form)].append((place, form))
    for group in groups.values():
        for start in range(0, len(group), AT_ONCE):
            places, forms = zip(*group[start : start + AT_ONCE], strict=True)
            letters = np.frombuffer("".join(forms).encode(), dtype=np.uint8)
            yield np.array(places), letters.reshape(len(forms), -1)


def _choose_nearest(text: str, words: set[str]) -> str:
    """Choose the word that a text starts like for longer than like any other; empty if there is none."""
    lengths = {word: len(commonprefix([text, word])) for word in words}
    longest = max(lengths.values())
    nearest = [word for word, length in lengths.items() if length == longest]
    return nearest[0] if len(nearest) == 1 else ""


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
            block = _shift(block * factor) * factor
        key = (key ^ block) * factor
    return _shift(_shift(key) * factor)


def _shift(key: np.ndarray) -> np.ndarray:
    return np.asarray(key ^ (key >> _SHIFT))
