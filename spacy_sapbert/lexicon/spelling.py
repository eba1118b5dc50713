"""Typing errors: a long word that neither English nor any name has stands for the word of names that it nearly is."""

from __future__ import annotations

from functools import lru_cache
from os.path import commonprefix
from string import ascii_lowercase

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..ragged import find_places
from ..text import CACHED, normal_words
from .english import RARE, find_levels
from .reading import Reading

# Letters of the shortest word that is put right. Shorter ones are nearly any other word.
LEAST_LETTERS = 6


class Speller:
    """The words of names, to put others right. The table of names has their hashes only: what a word may be is made of
    the word, which few words of a text need."""

    def __init__(self, vocabulary: np.ndarray) -> None:
        self._vocabulary = vocabulary
        self._find_known = lru_cache(CACHED)(self._find_nearest)

    def correct(self, text: str, reading: Reading) -> frozenset[int]:
        """Put words of a reading right, and return their places."""
        long = np.flatnonzero(reading.ends - reading.starts >= LEAST_LETTERS)
        strange = long[find_places(self._vocabulary, reading.hashes[long]) < 0]
        strange = strange[find_levels(reading.hashes[strange]) == RARE]
        bounds = zip(reading.starts[strange].tolist(), reading.ends[strange].tolist(), strict=True)
        known = np.array([self._find_known(text[start:end]) for start, end in bounds], dtype=np.uint64)
        reading.hashes[strange[known > 0]] = known[known > 0]
        return frozenset(strange[known > 0].tolist())

    def _find_nearest(self, text: str) -> int:
        """Find the hash of the one word of names that a word nearly is: of several, the one that it starts like for
        longer than like any other; 0 for none."""
        words = normal_words(text)
        if len(words) != 1 or len(words[0]) < LEAST_LETTERS or not (words[0].isascii() and words[0].isalpha()):
            return 0
        # As it is, too: "arthrits" is no plural.
        edits = [edit for word in {words[0], text.lower()} for edit in list_edits(word)]
        is_known = find_places(self._vocabulary, np.array([*map(hash_string, edits)], dtype=np.uint64)) >= 0
        found = {edits[place] for place in np.flatnonzero(is_known).tolist()}
        shared = sorted((len(commonprefix([text.lower(), word])), word) for word in found)
        if not shared or (len(shared) > 1 and shared[-1][0] == shared[-2][0]):
            return 0
        return int(hash_string(shared[-1][1]))


def list_edits(word: str) -> list[str]:
    """List what a word may be with one error: a letter too many, too few or another one, or two that have changed
    places. The first letter is right."""
    edits = []
    for at in range(1, len(word) + 1):
        before, behind = word[:at], word[at:]
        edits += [before + letter + behind for letter in ascii_lowercase]
        if behind:
            edits += [before + letter + behind[1:] for letter in ascii_lowercase]
            edits += [before + behind[1:], before + behind[1:2] + behind[0] + behind[2:]]
    return edits
