"""Ragged arrays: lists of different lengths, one behind the other in one array of their values. Offsets say where each
list starts and, at the end, where the last one ends: int64, one more than there are lists. Lists may be empty. Token
ids of many strings are kept like this, because a list of millions of arrays takes ten times the memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, pairwise
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Self

# The token ids of one string.
TokenIds = Sequence[int] | np.ndarray


def make_offsets(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Make the offsets of lists from their lengths: 0, the first length, the sum of the first two and so on."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, dtype=np.int64, out=offsets[1:])
    return offsets


def count_offsets(owners: np.ndarray, n_lists: int) -> np.ndarray:
    """Make the offsets of lists, given the number of each value's list, in any order."""
    return make_offsets(np.bincount(owners, minlength=n_lists))


def list_owners(offsets: np.ndarray) -> np.ndarray:
    """List the number of each value's list."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def take_lists(offsets: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take lists by their numbers, in any order, each as often as it is wanted: the places of their values among all
    values, and their own offsets."""
    starts = offsets[numbers]
    lengths = offsets[numbers + 1] - starts
    own = make_offsets(lengths)
    moves = np.repeat(starts - own[:-1], lengths)
    return np.arange(own[-1]) + moves, own


def sum_lists(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum the values of each list, which are whole numbers or conditions: int64. NumPy's `reduceat` is wrong for empty
    lists."""
    # Read as lengths, the values before each list add up to its offset.
    running_sums = make_offsets(values)
    return np.diff(running_sums[offsets])


def group_values(values: np.ndarray, owners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group the equal values of each list, several times faster than NumPy's `unique` does. Values are int64, at least
    0 and less than 2^31, and the numbers of their lists ascend. Returns the places of the values, those of a group
    together and ascending, and where each group starts among them."""
    order = np.sort(values << 32 | np.arange(len(values))) & 0xFFFFFFFF
    is_new_value = np.diff(values[order], prepend=-1) != 0
    is_new_list = np.diff(owners[order], prepend=-1) != 0
    return order, np.flatnonzero(is_new_value | is_new_list)


def pack_lists(columns: Iterable[np.ndarray], offsets: np.ndarray, dtype: np.dtype[Any]) -> list[bytes]:
    """Pack each list into bytes that can be kept by themselves: small, and quickly put together again. Of each field of
    the type, there is a column with the values of all lists."""
    rows = np.empty(int(offsets[-1]), dtype=dtype)
    for name, column in zip(dtype.names or (), columns, strict=True):
        rows[name] = column
    data = rows.tobytes()
    bounds = (offsets * dtype.itemsize).tolist()
    return [data[start:end] for start, end in pairwise(bounds)]


def unpack_lists(parts: Sequence[bytes], dtype: np.dtype[Any]) -> tuple[list[np.ndarray], np.ndarray]:
    """Put lists together that `pack_lists` has packed, in any order: their columns, and their offsets."""
    rows = np.frombuffer(b"".join(parts), dtype=dtype)
    columns = [np.ascontiguousarray(rows[name]) for name in dtype.names or ()]
    lengths = [len(part) // dtype.itemsize for part in parts]
    return columns, make_offsets(lengths)


def find_places(ordered: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Find the places of values among distinct ones in ascending order; -1 where there is none."""
    if not len(ordered):
        return np.full(len(values), -1)
    places = np.searchsorted(ordered, values)
    places = np.minimum(places, len(ordered) - 1)
    return np.where(ordered[places] == values, places, -1)


class KeyTable(NamedTuple):
    """Rows by their keys, which are hashes. With keys of 64 bits and a million of them, one of 2e13 is taken for a key
    that it is not."""

    keys: np.ndarray  # distinct, ascending; uint64
    offsets: np.ndarray  # where the rows of each start, shape (keys + 1,)
    rows: np.ndarray

    @classmethod
    def make(cls, keys: np.ndarray, rows: np.ndarray) -> KeyTable:
        """Make the table of rows, each with its key; rows without one, 0, are left out."""
        keys, rows = keys[keys > 0], rows[keys > 0]
        order = np.lexsort((rows, keys))
        keys = keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - np.uint64(1)))
        return cls(keys[starts], np.append(starts, len(keys)).astype(np.uint32), rows[order].astype(np.uint32))

    def moved(self, places: np.ndarray) -> KeyTable:
        """Make the table of rows that have moved, given the new place of each, or -1."""
        rows = places[self.rows]
        return KeyTable.make(self.keys[list_owners(self.offsets)][rows >= 0], rows[rows >= 0])

    def joined(self, other: KeyTable) -> KeyTable:
        """Make the table of the rows of two."""
        keys = [table.keys[list_owners(table.offsets)] for table in (self, other)]
        return KeyTable.make(np.concatenate(keys), np.concatenate([self.rows, other.rows]))

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Find the entries of keys; -1 where there is none."""
        return np.where(keys > 0, find_places(self.keys, keys), -1)

    def rows_of(self, entry: int) -> np.ndarray:
        """Return the rows of an entry."""
        return self.rows[self.offsets[entry] : self.offsets[entry + 1]]


class TokenLists(Sequence[np.ndarray]):
    """The token ids of many strings.

    ids (ndarray): The token ids of all strings, one string after the other; int32.
    offsets (ndarray): Where each string starts in them, and where the last one ends; int64.
    """

    def __init__(self, ids: np.ndarray, offsets: np.ndarray) -> None:
        # Plain views: single items of a memmap are slow to get.
        self.ids = np.asarray(ids)
        self.offsets = np.asarray(offsets)

    @classmethod
    def make(cls, lists: Sequence[TokenIds]) -> Self:
        """Copy the token ids of each string."""
        offsets = make_offsets([*map(len, lists)])
        ids = np.fromiter(chain.from_iterable(lists), dtype="<i4", count=int(offsets[-1]))
        return cls(ids, offsets)

    @classmethod
    def join(cls, parts: Iterable[TokenLists]) -> Self:
        """Join the token ids of several groups of strings, in their order."""
        parts = [cls.make([]), *parts]
        ids = np.concatenate([part.ids for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(ids, make_offsets(lengths))

    @property
    def lengths(self) -> np.ndarray:
        """Return how many token ids each string has."""
        return np.diff(self.offsets)

    @property
    def places(self) -> np.ndarray:
        """Return the place of each token id in its string."""
        places: np.ndarray = np.arange(len(self.ids)) - np.repeat(self.offsets[:-1], self.lengths)
        return places

    def take(self, rows: np.ndarray) -> TokenLists:
        """Copy the token ids of some strings."""
        places, offsets = take_lists(self.offsets, rows)
        return TokenLists(self.ids[places], offsets)

    def split(self, size: int) -> Iterator[TokenLists]:
        """Yield views of `size` strings each."""
        for start in range(0, len(self), size):
            offsets = self.offsets[start : start + size + 1]
            ids = self.ids[offsets[0] : offsets[-1]]
            yield TokenLists(ids, offsets - offsets[0])

    def replace(self, lists: TokenLists) -> TokenLists:
        """Replace each id by the ids of the string of that number."""
        replaced = lists.take(self.ids)
        return TokenLists(replaced.ids, replaced.offsets[self.offsets])

    def cut(self, length: int) -> TokenLists:
        """Keep the first token ids of each string."""
        ids = self.ids[self.places < length]
        lengths = np.minimum(self.lengths, length)
        return TokenLists(ids, make_offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:  # type: ignore[override]  # no slices
        return self.ids[self.offsets[:-1][row] : self.offsets[1:][row]]


def number_parts(chunks: Iterable[tuple[Sequence[str], Sequence[int]]]) -> tuple[list[str], TokenLists]:
    """Number the distinct parts of split strings, which are few in millions of names: the parts, and the numbers of
    each string's. Strings come in chunks: all their parts, and how many each has."""
    numbers: dict[str, int] = defaultdict(count().__next__)
    ids = [np.empty(0, dtype=np.int32)]
    lengths = [np.empty(0, dtype=np.int64)]
    for parts, n_parts in chunks:
        ids.append(np.fromiter(map(numbers.__getitem__, parts), np.int32, len(parts)))
        lengths.append(np.array(n_parts, dtype=np.int64))
    return [*numbers], TokenLists(np.concatenate(ids), make_offsets(np.concatenate(lengths)))


def split_at_spaces(texts: Sequence[str]) -> tuple[list[str], list[int]]:
    """Split texts for `number_parts`."""
    return " ".join(texts).split(" "), [text.count(" ") + 1 for text in texts]
