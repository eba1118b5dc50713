"""Ragged arrays: lists of different lengths, one behind the other in one array of their values. Offsets say where each
list starts and, at the end, where the last one ends: int64, one more than there are lists. Lists may be empty. Token
ids of many strings are kept like this, because a list of millions of arrays takes ten times the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Self

# The token ids of one string.
TokenIds = Sequence[int] | np.ndarray


def as_hashes(values: Iterable[int]) -> np.ndarray:
    """Make an array of hashes."""
    return np.fromiter(values, dtype=np.uint64)


def make_offsets(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Make the offsets of lists from their lengths: 0, the first length, the sum of the first two and so on."""
    n_lists = len(lengths)
    offsets = np.zeros(n_lists + 1, dtype=np.int64)
    ends = offsets[1:]
    np.cumsum(lengths, dtype=np.int64, out=ends)
    return offsets


def count_offsets(owners: np.ndarray, n_lists: int) -> np.ndarray:
    """Make the offsets of lists, given the number of each value's list, in any order."""
    return make_offsets(np.bincount(owners, minlength=n_lists))


def list_owners(offsets: np.ndarray) -> np.ndarray:
    """List the number of each value's list."""
    lengths = np.diff(offsets)
    numbers = np.arange(len(lengths))
    return np.repeat(numbers, lengths)


def take_lists(offsets: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take lists by their numbers, in any order, each as often as it is wanted: the places of their values among all
    values, and their own offsets."""
    starts = offsets[:-1][numbers].astype(np.int64)
    ends = offsets[1:][numbers].astype(np.int64)
    return join_ranges(starts, ends)


def join_ranges(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the numbers from each start to its end, and the offsets of these lists."""
    lengths = ends - starts
    offsets = make_offsets(lengths)
    moves = np.repeat(starts - offsets[:-1], lengths)
    return np.arange(offsets[-1]) + moves, offsets


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
    placed = values << 32 | np.arange(len(values))
    placed.sort()
    order = placed & 0xFFFFFFFF
    is_new_value = np.diff(values[order], prepend=-1) != 0
    is_new_list = np.diff(owners[order], prepend=-1) != 0
    is_start = is_new_value | is_new_list
    return order, np.flatnonzero(is_start)


def pack_lists(columns: Iterable[np.ndarray], offsets: np.ndarray, dtype: np.dtype[Any]) -> list[bytes]:
    """Pack each list into bytes that can be kept by themselves: small, and quickly put together again. Of each field of
    the type, there is a column with the values of all lists."""
    n_rows = int(offsets[-1])
    rows = np.empty(n_rows, dtype=dtype)
    names = dtype.names or ()
    for name, column in zip(names, columns, strict=True):
        rows[name] = column
    data = rows.tobytes()
    bounds = (offsets * dtype.itemsize).tolist()
    return [data[start:end] for start, end in pairwise(bounds)]


def unpack_lists(parts: Sequence[bytes], dtype: np.dtype[Any]) -> tuple[list[np.ndarray], np.ndarray]:
    """Put lists together that `pack_lists` has packed, in any order: their columns, and their offsets."""
    rows = np.frombuffer(b"".join(parts), dtype=dtype)
    names = dtype.names or ()
    columns = [np.ascontiguousarray(rows[name]) for name in names]
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
        has_key = keys > 0
        rows = rows[has_key]
        keys = keys[has_key]
        order = np.lexsort((rows, keys))
        keys = keys[order]
        steps = np.diff(keys, prepend=np.uint64(0))
        starts = np.flatnonzero(steps)
        offsets = np.append(starts, len(keys)).astype(np.uint32)
        ordered_rows = rows[order].astype(np.uint32)
        return cls(keys[starts], offsets, ordered_rows)

    @property
    def _key_of_row(self) -> np.ndarray:
        return np.asarray(self.keys[list_owners(self.offsets)])

    def moved(self, places: np.ndarray) -> KeyTable:
        """Make the table of rows that have moved, given the new place of each, or -1."""
        rows = places[self.rows]
        is_left = rows >= 0
        return KeyTable.make(self._key_of_row[is_left], rows[is_left])

    def joined(self, other: KeyTable) -> KeyTable:
        """Make the table of the rows of two."""
        keys = np.concatenate([self._key_of_row, other._key_of_row])
        rows = np.concatenate([self.rows, other.rows])
        return KeyTable.make(keys, rows)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Find the entries of keys; -1 where there is none."""
        places = find_places(self.keys, keys)
        return np.where(keys > 0, places, -1)

    def rows_of(self, entry: int) -> np.ndarray:
        """Return the rows of an entry."""
        start = self.offsets[entry]
        end = self.offsets[entry + 1]
        return self.rows[start:end]


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
        n_ids = int(offsets[-1])
        listed = chain.from_iterable(lists)
        ids = np.fromiter(listed, dtype="<i4", count=n_ids)
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
        starts = self.offsets[:-1]
        start_of_id = np.repeat(starts, self.lengths)
        places: np.ndarray = np.arange(len(self.ids)) - start_of_id
        return places

    def take(self, rows: np.ndarray) -> TokenLists:
        """Copy the token ids of some strings."""
        places, offsets = take_lists(self.offsets, rows)
        return TokenLists(self.ids[places], offsets)

    def split(self, size: int) -> Iterator[TokenLists]:
        """Yield views of `size` strings each."""
        for start in range(0, len(self), size):
            offsets = self.offsets[start : start + size + 1]
            first = offsets[0]
            ids = self.ids[first : offsets[-1]]
            yield TokenLists(ids, offsets - first)

    def replace(self, lists: TokenLists) -> TokenLists:
        """Replace each id by the ids of the string of that number."""
        replaced = lists.take(self.ids)
        return TokenLists(replaced.ids, replaced.offsets[self.offsets])

    def cut(self, length: int) -> TokenLists:
        """Keep the first token ids of each string."""
        is_first = self.places < length
        ids = self.ids[is_first]
        lengths = np.minimum(self.lengths, length)
        return TokenLists(ids, make_offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:  # type: ignore[override]  # no slices
        start = self.offsets[:-1][row]
        end = self.offsets[1:][row]
        return self.ids[start:end]
