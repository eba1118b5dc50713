"""Pairs of strings compared all at once: a mention and a name, by words and trigrams."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from operator import attrgetter, methodcaller
from typing import NamedTuple, TypeVar

import numpy as np

from ..ragged import count_offsets, find_places, list_owners, make_offsets, sum_lists, take_lists
from .network import Features

# A trigram is three characters of 7 bits. Text in small letters has no ASCII capitals and no control characters: their
# places stand for all characters beyond ASCII, and several share one.
CHARACTER = 7
FREE = np.array([*range(32), *range(ord("A"), ord("Z") + 1)], dtype=np.int32)
# Bits of an item in a pair of a set and an item.
ITEM = 32
_Value = TypeVar("_Value", bound=Hashable)


class Sets(NamedTuple):
    """Sets of numbers, one after another."""

    items: np.ndarray  # the numbers of all sets
    sizes: np.ndarray  # the size of each set
    offsets: np.ndarray  # where each set starts, and the end of the last one

    @classmethod
    def collect(cls, items: np.ndarray, owners: np.ndarray, n_sets: int) -> Sets:
        """Collect the distinct items of each set; `owners` are the sets of the items, ascending."""
        pairs = np.sort((owners << ITEM) | items)
        # Each once. `unique` takes several times as long.
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        offsets = count_offsets(pairs >> ITEM, n_sets)
        return cls((pairs & ((1 << ITEM) - 1)).astype(np.int32), np.diff(offsets), offsets)


class Strings:
    """The parts of strings, as numbers: words in their normal forms, and trigrams in small letters."""

    def __init__(self, texts: Sequence[str]) -> None:
        # Its expressions take long to compile, and spaCy imports this module whenever it makes a pipeline.
        from ..lexicon.scan import list_words

        lists = [*map(list_words, texts)]
        # The same number for the same words in order.
        _, self.plain = _number(lists)
        distinct, words = _number(chain.from_iterable(lists))
        letters = np.array([*map(len, distinct)], dtype=np.int64)
        offsets = make_offsets([*map(len, lists)])
        sizes = np.diff(offsets)
        # First and last word; -1 for a string without words.
        self.first = np.full(len(texts), -1)
        self.last = self.first.copy()
        has_words = sizes > 0
        self.first[has_words] = words[offsets[:-1][has_words]]
        self.last[has_words] = words[offsets[1:][has_words] - 1]
        # The length of the words with a space between them.
        self.length = sum_lists(letters[words], offsets) + np.maximum(sizes - 1, 0)
        owners = list_owners(offsets)
        self.words = Sets.collect(words, owners, len(texts))
        # The letters of each item of `words`, and of each string's distinct words.
        self.letters = letters[self.words.items]
        self.n_letters = sum_lists(self.letters, self.words.offsets)
        # Numbers and single letters, as in "type B".
        is_number = np.array([len(word) == 1 or word.isdigit() for word in distinct], dtype=bool)[words]
        self.numbers = Sets.collect(words[is_number], owners[is_number], len(texts))
        self.trigrams = _list_trigrams(texts)


def _number(values: Iterable[_Value]) -> tuple[list[_Value], np.ndarray]:
    """Number distinct values: these, and the number of each value."""
    numbers: dict[_Value, int] = {}
    places = [numbers.setdefault(value, len(numbers)) for value in values]
    return [*numbers], np.array(places, dtype=np.int64)


def _list_trigrams(texts: Sequence[str]) -> Sets:
    texts = [f" {text.lower()} " for text in texts]
    owners = list_owners(make_offsets([*map(len, texts)]))
    data = "".join(texts).encode("utf-32-le", "surrogatepass")
    characters = np.frombuffer(data, dtype=np.uint32).astype(np.int64)
    characters = np.where(characters < 128, characters, FREE[characters % len(FREE)])
    trigrams = (characters[:-2] << 2 * CHARACTER) | (characters[1:-1] << CHARACTER) | characters[2:]
    is_whole = owners[:-2] == owners[2:]
    return Sets.collect(trigrams[is_whole], owners[2:][is_whole], len(texts))


class Comparison:
    """Pairs of a mention and a name, given by their rows, and how their words, numbers and trigrams differ."""

    def __init__(self, strings: Strings, mention: np.ndarray, name: np.ndarray) -> None:
        self._strings = strings
        self._mention = mention
        self.name = name
        self.trigrams = _compare_sets(strings.trigrams, mention, name)
        n_words = strings.words.sizes
        n_numbers = strings.numbers.sizes
        words, letters = count_shared(strings.words, mention, name, strings.letters)
        (numbers,) = count_shared(strings.numbers, mention, name)
        # Words of the name that the mention lacks, those of the mention that the name lacks, and the letters of both.
        self.extra = n_words[name] - words
        self.missing = n_words[mention] - words
        self.extra_letters = strings.n_letters[name] - letters
        self.missing_letters = strings.n_letters[mention] - letters
        self.other_numbers = n_numbers[mention] + n_numbers[name] - 2 * numbers

    def has_same(self, part: str) -> np.ndarray:
        """Check where both have the same words in order ("plain"), or the same first or last word."""
        values = getattr(self._strings, part)
        return np.asarray(values[self._mention] == values[self.name])


# The braces stand for "name" or "canonical name".
COMPARISONS: Features[Comparison] = {
    "trigrams": ("its {} is spelt like the mention", attrgetter("trigrams")),
    "equal": ("its {} is the mention", methodcaller("has_same", "plain")),
    "same_words": ("its {} has the words of the mention", lambda of: (of.extra == 0) & (of.missing == 0)),
    "extra_words": ("its {} has words that the mention lacks", attrgetter("extra")),
    "missing_words": ("its {} lacks words of the mention", attrgetter("missing")),
    "extra_letters": ("its {} has long words that the mention lacks", attrgetter("extra_letters")),
    "missing_letters": ("its {} lacks long words of the mention", attrgetter("missing_letters")),
    "other_numbers": ("its {} has other numbers than the mention", attrgetter("other_numbers")),
    "first_word": ("its {} starts like the mention", methodcaller("has_same", "first")),
    "last_word": ("its {} ends like the mention", methodcaller("has_same", "last")),
}


def compare_trigrams(texts: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Compute the similarity of trigrams of each text and its name."""
    distinct, places = _number([*texts, *names])
    first, second = places.reshape(2, -1)
    return _compare_sets(_list_trigrams(distinct), first, second)


def _compare_sets(sets: Sets, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute the share of the items of two sets that both have."""
    (shared,) = count_shared(sets, first, second)
    both = sets.sizes[first] + sets.sizes[second] - shared
    return np.asarray(shared / np.maximum(both, 1))


def count_shared(sets: Sets, mention: np.ndarray, name: np.ndarray, *weights: np.ndarray) -> list[np.ndarray]:
    """Count the items that pairs of sets share, and their sums by weights of all items. Few sets are mentions."""
    mentions, rows = np.unique(mention, return_inverse=True)
    places, of_mention = take_lists(sets.offsets, mentions)
    items, columns = np.unique(sets.items[places], return_inverse=True)
    # The first column stands for all items that no mention has.
    has = np.zeros((len(mentions), len(items) + 1), dtype=bool)
    has[list_owners(of_mention), columns + 1] = True
    column_of = find_places(items, sets.items) + 1
    places, of_name = take_lists(sets.offsets, name)
    firsts = np.repeat(rows * has.shape[1], sets.sizes[name])
    shared = has.ravel()[firsts + column_of[places]]
    weighted = [shared * weight[places] for weight in weights]
    return [sum_lists(values, of_name) for values in (shared, *weighted)]
