"""Compare many strings at once: the words and character trigrams that two strings share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...spelling import normal_words

# Strings and words whose parts are remembered. Names come back as candidates of many mentions.
REMEMBERED = 1 << 15
# Bits of a character's number.
CHARACTER = 21


class Parts(NamedTuple):
    """The parts of a string that are compared. Sets are arrays of distinct int64.

    plain (str): Its words in their normal forms, with a space between them.
    words (ndarray): Hashes of its words.
    letters (ndarray): The length of each word.
    numbers (ndarray): Hashes of the words that are numbers or single letters, as in "type B".
    trigrams (ndarray): All sequences of three characters in small letters, with a space before and after the string.
    ends (tuple[int, int]): Hashes of its first and its last word.
    """

    plain: str
    words: np.ndarray
    letters: np.ndarray
    numbers: np.ndarray
    trigrams: np.ndarray
    ends: tuple[int, int]


@lru_cache(REMEMBERED)
def split(text: str) -> Parts:
    """Split a string into its parts.

    text (str): The string.
    RETURNS (Parts): Its parts.
    """
    words = normal_words(text)
    distinct = list(dict.fromkeys(words))
    numbers = [word for word in distinct if len(word) == 1 or word.isdigit()]
    ends = (_hash(words[0]), _hash(words[-1])) if words else (0, 0)
    hashes = np.array([_hash(word) for word in distinct], dtype=np.int64)
    letters = np.array([len(word) for word in distinct], dtype=np.int64)
    number_hashes = np.array([_hash(word) for word in numbers], dtype=np.int64)
    return Parts(" ".join(words), hashes, letters, number_hashes, _list_trigrams(f" {text.lower()} "), ends)


@lru_cache(REMEMBERED)
def _hash(word: str) -> int:
    # Python's own hash differs between processes.
    digest = hashlib.blake2b(word.encode("utf8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _list_trigrams(text: str) -> np.ndarray:
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    first, second, third = characters[:-2], characters[1:-1], characters[2:]
    return np.unique((first << 2 * CHARACTER) | (second << CHARACTER) | third)


class Sets:
    """Sets of numbers, one after another.

    sets (Sequence[ndarray]): The sets, each of distinct int64.
    """

    def __init__(self, sets: Sequence[np.ndarray]) -> None:
        self.sizes = np.array([len(items) for items in sets], dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.items = np.concatenate([np.zeros(0, dtype=np.int64), *sets])
        self.owner = np.repeat(np.arange(len(sets)), self.sizes)


class StringTable:
    """The parts of the distinct strings of a list.

    texts (Sequence[str]): The strings.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        places: dict[str, int] = {}
        # The place of each string among the distinct ones.
        self.rows = np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int64)
        parts = [split(text) for text in places]
        self.plain = np.array([_hash(part.plain) for part in parts], dtype=np.int64)
        self.length = np.array([len(part.plain) for part in parts], dtype=np.int64)
        self.ends = np.array([part.ends for part in parts], dtype=np.int64).reshape(len(parts), 2)
        self.words = Sets([part.words for part in parts])
        self.numbers = Sets([part.numbers for part in parts])
        self.trigrams = Sets([part.trigrams for part in parts])
        self.letters = np.concatenate([np.zeros(0, dtype=np.int64), *(part.letters for part in parts)])
        self.n_letters = np.bincount(self.words.owner, weights=self.letters, minlength=len(parts))

    @property
    def n_words(self) -> np.ndarray:
        """Return the number of distinct words of each string.

        RETURNS (ndarray): The numbers.
        """
        return self.words.sizes


class Comparison:
    """Compare mentions with names.

    mentions (StringTable): The mentions.
    names (StringTable): The names.
    """

    def __init__(self, mentions: StringTable, names: StringTable) -> None:
        self._mentions, self._names = mentions, names
        self._words = SharedItems(mentions.words, names.words)
        self._numbers = SharedItems(mentions.numbers, names.numbers)
        self._trigrams = SharedItems(mentions.trigrams, names.trigrams)

    def compare(self, mention: np.ndarray, name: np.ndarray) -> list[np.ndarray]:
        """Compare pairs: similarity of spelling, equality, words in one of them only, numbers, first and last word.

        mention (ndarray): The row of each pair's mention.
        name (ndarray): The row of its name.
        RETURNS (list[ndarray]): Ten features, each with a value for each pair.
        """
        mentions, names = self._mentions, self._names
        n_mention, n_name = mentions.words.sizes[mention], names.words.sizes[name]
        words = self._words.count(mention, name)
        letters = self._words.count(mention, name, weights=names.letters)
        numbers = self._numbers.count(mention, name)
        trigrams = self._trigrams.count(mention, name)
        all_trigrams = mentions.trigrams.sizes[mention] + names.trigrams.sizes[name] - trigrams
        return [
            trigrams / np.maximum(all_trigrams, 1),
            mentions.plain[mention] == names.plain[name],
            (words == n_mention) & (words == n_name),
            n_name - words,
            n_mention - words,
            names.n_letters[name] - letters,
            mentions.n_letters[mention] - letters,
            mentions.numbers.sizes[mention] + names.numbers.sizes[name] - 2 * numbers,
            mentions.ends[mention, 0] == names.ends[name, 0],
            mentions.ends[mention, 1] == names.ends[name, 1],
        ]


class SharedItems:
    """Count the items that sets share.

    first (Sets): The sets of mentions, whose distinct items are columns of a table.
    second (Sets): The sets of names.
    """

    def __init__(self, first: Sets, second: Sets) -> None:
        items, columns = np.unique(first.items, return_inverse=True)
        # The last column stands for all items that no mention has.
        self._has = np.zeros((len(first.sizes), len(items) + 1), dtype=bool)
        self._has[first.owner, columns] = True
        self._second = second
        self._column = np.searchsorted(items, second.items)
        known = self._column < len(items)
        known[known] = items[self._column[known]] == second.items[known]
        self._column[~known] = len(items)

    def count(self, first: np.ndarray, second: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Count the shared items of pairs of sets.

        first (ndarray): The row of each pair's first set.
        second (ndarray): The row of its second set.
        weights (ndarray | None): What an item of the second sets counts; None for 1.
        RETURNS (ndarray): The number for each pair, float64.
        """
        sizes = self._second.sizes[second]
        pair = np.repeat(np.arange(len(second)), sizes)
        # The items of all pairs' second sets, one after another.
        start = self._second.offsets[second] - np.concatenate([[0], np.cumsum(sizes)[:-1]])
        item = np.arange(len(pair)) + start[pair] if len(pair) else pair
        shared = self._has[first[pair], self._column[item]]
        found = shared if weights is None else shared * weights[item]
        return np.bincount(pair, weights=found, minlength=len(second))
