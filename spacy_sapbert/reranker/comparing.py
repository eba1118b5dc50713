"""Compare many strings at once: the words and character trigrams that two strings share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np

from ..forking import free_in_children
from ..spelling import normal_words

# Strings whose parts are kept. Names come back as candidates of many mentions.
KEPT_STRINGS = 1 << 16
# Bits of a character's number, and of a trigram's.
CHARACTER, NUMBER = 21, 32


class Sets:
    """Sets of numbers, one after another.

    items (ndarray): The numbers of all sets; int32.
    sizes (ndarray): The size of each set; int64.
    """

    def __init__(self, items: np.ndarray, sizes: np.ndarray) -> None:
        self.items, self.sizes = items, sizes
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])

    def join(self, others: Sets) -> Sets:
        """Put other sets behind these.

        others (Sets): The other sets.
        RETURNS (Sets): All of them.
        """
        return Sets(np.concatenate([self.items, others.items]), np.concatenate([self.sizes, others.sizes]))

    def list_places(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """List where the items of some sets are.

        rows (ndarray): The rows of the sets.
        RETURNS (tuple[ndarray, ndarray]): The places of all their items, and where those of each set end among them.
        """
        sizes = self.sizes[rows]
        ends = np.cumsum(sizes)
        return np.arange(int(sizes.sum())) + np.repeat(self.offsets[rows] - ends + sizes, sizes), ends


class StringTable(NamedTuple):
    """The parts of strings. Words and trigrams are numbers.

    plain (ndarray): The number of each string's words in their normal forms, with a space between them.
    length (ndarray): The length of that.
    ends (ndarray): The first and the last word; shape (strings, 2), -1 for a string without words.
    words (Sets): The words.
    letters (ndarray): The length of each item of `words`.
    n_letters (ndarray): The letters of each string's distinct words.
    numbers (Sets): The words that are numbers or single letters, as in "type B".
    trigrams (Sets): All sequences of three characters in small letters, with a space before and after the string.
    """

    plain: np.ndarray
    length: np.ndarray
    ends: np.ndarray
    words: Sets
    letters: np.ndarray
    n_letters: np.ndarray
    numbers: Sets
    trigrams: Sets

    def join(self, others: StringTable) -> StringTable:
        """Put other strings behind these.

        others (StringTable): The other strings.
        RETURNS (StringTable): All of them.
        """
        return StringTable(
            np.concatenate([self.plain, others.plain]),
            np.concatenate([self.length, others.length]),
            np.concatenate([self.ends, others.ends]),
            self.words.join(others.words),
            np.concatenate([self.letters, others.letters]),
            np.concatenate([self.n_letters, others.n_letters]),
            self.numbers.join(others.numbers),
            self.trigrams.join(others.trigrams),
        )


class _Numbers(dict[str, int]):
    """Number strings in the order in which they are met."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class _Trigrams:
    """Number trigrams in the order in which they are met."""

    def __init__(self) -> None:
        # Each trigram as the numbers of its characters, sorted, and its own number.
        self._known = np.zeros(0, dtype=np.int64)
        self._numbers = np.zeros(0, dtype=np.int32)

    def split(self, texts: Sequence[str]) -> Sets:
        """Return the distinct trigrams of each text."""
        lengths = np.array([*map(len, texts)], dtype=np.int64)
        encoded = "".join(texts).encode("utf-32-le", "surrogatepass")
        characters = np.frombuffer(encoded, dtype=np.uint32).astype(np.int64)
        owner = np.repeat(np.arange(len(texts)), lengths)
        is_whole = owner[:-2] == owner[2:]
        first, second, third = characters[:-2], characters[1:-1], characters[2:]
        found = ((first << 2 * CHARACTER) | (second << CHARACTER) | third)[is_whole]
        pairs = np.sort((owner[:-2][is_whole] << NUMBER) | self._number(found))
        # Each once. `unique` takes several times as long.
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        sizes = np.bincount(pairs >> NUMBER, minlength=len(texts))
        return Sets((pairs & ((1 << NUMBER) - 1)).astype(np.int32), sizes)

    def _number(self, found: np.ndarray) -> np.ndarray:
        places = np.searchsorted(self._known, found)
        is_new = np.append(self._known, -1)[places] != found
        if not is_new.any():
            return self._numbers[places].astype(np.int64)
        known = np.concatenate([self._known, np.unique(found[is_new])])
        numbers = np.concatenate([self._numbers, np.arange(len(self._known), len(known), dtype=np.int32)])
        order = np.argsort(known)
        self._known, self._numbers = known[order], numbers[order]
        return self._number(found)


class _Splitter:
    """Split strings, and number their words and trigrams."""

    def __init__(self) -> None:
        self._words, self._plain, self._trigrams = _Numbers(), _Numbers(), _Trigrams()

    def split(self, texts: Sequence[str]) -> StringTable:
        # Flat lists, because lists of lists are slow to collect.
        words: list[int] = []
        letters: list[int] = []
        numbers: list[int] = []
        plain, ends, sizes, n_numbers, n_letters = [], [], [], [], []
        for text in texts:
            in_order = normal_words(text)
            distinct = [*dict.fromkeys(in_order)]
            of_letters = [*map(len, distinct)]
            of_numbers = [self._words[word] for word in distinct if len(word) == 1 or word.isdigit()]
            plain.append(" ".join(in_order))
            ends += [self._words[in_order[0]], self._words[in_order[-1]]] if in_order else [-1, -1]
            words += map(self._words.__getitem__, distinct)
            letters += of_letters
            numbers += of_numbers
            sizes.append(len(distinct))
            n_letters.append(sum(of_letters))
            n_numbers.append(len(of_numbers))
        return StringTable(
            np.array([*map(self._plain.__getitem__, plain)], dtype=np.int64),
            np.array([*map(len, plain)], dtype=np.int64),
            np.array(ends, dtype=np.int64).reshape(len(plain), 2),
            Sets(np.array(words, dtype=np.int32), np.array(sizes, dtype=np.int64)),
            np.array(letters, dtype=np.int64),
            np.array(n_letters, dtype=np.int64),
            Sets(np.array(numbers, dtype=np.int32), np.array(n_numbers, dtype=np.int64)),
            self._trigrams.split([f" {text.lower()} " for text in texts]),
        )


class StringStore:
    """The parts of strings, each split once. Threads can share a store.

    get_text (Callable[[int], str]): Gets a string that is known by a number, such as a name of the terminology.
    """

    def __init__(self, get_text: Callable[[int], str]) -> None:
        self._get_text = get_text
        self._lock = free_in_children(Lock())
        self._clear()

    def _clear(self) -> None:
        self._splitter = _Splitter()
        self._table = self._splitter.split([])
        self._places: dict[str | int, int] = {}

    def tabulate(self, keys: Sequence[str | int]) -> tuple[np.ndarray, StringTable]:
        """Get the parts of strings.

        keys (Sequence[str | int]): The strings, or their numbers.
        RETURNS (tuple[ndarray, StringTable]): The row of each in a table, which stays as it is.
        """
        with self._lock:
            if len(self._places) > KEPT_STRINGS:
                self._clear()
            places = self._places
            texts = {key: key if isinstance(key, str) else self._get_text(key) for key in keys if key not in places}
            unknown = [text for text in dict.fromkeys(texts.values()) if text not in places]
            if unknown:
                start = len(self._table.plain)
                self._table = self._table.join(self._splitter.split(unknown))
                places.update(zip(unknown, range(start, start + len(unknown)), strict=True))
            # Many names are canonical names, or mentions.
            places.update((key, places[text]) for key, text in texts.items())
            return np.array([places[key] for key in keys], dtype=np.int64), self._table


class Comparison:
    """Compare mentions with names.

    table (StringTable): The strings.
    mentions (ndarray): The rows of the mentions in it.
    """

    def __init__(self, table: StringTable, mentions: np.ndarray) -> None:
        self._table = table
        mentions = np.unique(mentions)
        self._words = SharedItems(table.words, mentions)
        self._numbers = SharedItems(table.numbers, mentions)
        self._trigrams = SharedItems(table.trigrams, mentions)

    def compare(self, mention: np.ndarray, name: np.ndarray) -> list[np.ndarray]:
        """Compare pairs: similarity of spelling, equality, words in one of them only, numbers, first and last word.

        mention (ndarray): The row of each pair's mention.
        name (ndarray): The row of its name.
        RETURNS (list[ndarray]): Ten features, each with a value for each pair.
        """
        table = self._table
        n_mention, n_name = table.words.sizes[mention], table.words.sizes[name]
        words, letters = self._words.count(mention, name, table.letters)
        (numbers,) = self._numbers.count(mention, name)
        (trigrams,) = self._trigrams.count(mention, name)
        all_trigrams = table.trigrams.sizes[mention] + table.trigrams.sizes[name] - trigrams
        return [
            trigrams / np.maximum(all_trigrams, 1),
            table.plain[mention] == table.plain[name],
            (words == n_mention) & (words == n_name),
            n_name - words,
            n_mention - words,
            table.n_letters[name] - letters,
            table.n_letters[mention] - letters,
            table.numbers.sizes[mention] + table.numbers.sizes[name] - 2 * numbers,
            table.ends[mention, 0] == table.ends[name, 0],
            table.ends[mention, 1] == table.ends[name, 1],
        ]


class SharedItems:
    """Count the items that sets share with the sets of mentions.

    sets (Sets): The sets.
    mentions (ndarray): The rows of the mentions' sets, sorted; their distinct items are the columns of a table.
    """

    def __init__(self, sets: Sets, mentions: np.ndarray) -> None:
        self._sets, self._mentions = sets, mentions
        places, _ = sets.list_places(mentions)
        items, columns = np.unique(sets.items[places], return_inverse=True)
        # The last column stands for all items that no mention has.
        self._n_columns = len(items) + 1
        has = np.zeros((len(mentions), self._n_columns), dtype=bool)
        has[np.repeat(np.arange(len(mentions)), sets.sizes[mentions]), columns] = True
        self._has = has.ravel()
        self._column = np.full(int(sets.items.max(initial=-1)) + 1, len(items), dtype=np.int64)
        self._column[items] = np.arange(len(items))

    def count(self, mention: np.ndarray, name: np.ndarray, *weights: np.ndarray) -> list[np.ndarray]:
        """Count the shared items of pairs of sets.

        mention (ndarray): The row of each pair's mention.
        name (ndarray): The row of its other set.
        *weights (ndarray): What each item of all sets counts.
        RETURNS (list[ndarray]): The number of shared items of each pair, and their sum by each of the weights; int64.
        """
        places, ends = self._sets.list_places(name)
        sizes = self._sets.sizes[name]
        starts = np.searchsorted(self._mentions, mention) * self._n_columns
        shared = self._has[np.repeat(starts, sizes) + self._column[self._sets.items[places]]]
        found = [shared, *(shared * of_items[places] for of_items in weights)]
        sums = (np.concatenate([[0], np.cumsum(values, dtype=np.int64)]) for values in found)
        return [up_to[ends] - up_to[ends - sizes] for up_to in sums]
