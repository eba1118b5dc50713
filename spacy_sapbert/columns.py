"""Columns of tables: texts as their UTF-8 bytes and where each begins, so that millions of them can stay in a mapped
file. Columns are immutable, and equal columns have equal buffers, however they were made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from itertools import chain, compress, islice, pairwise
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Self

from .forking import KEPT_STRINGS
from .ragged import join_ranges, make_offsets, take_lists

# Values that are read at once.
CHUNK = 1 << 16
# Lists that are read at once: so few that Python's garbage collector does not start. It would look through all that a
# pipeline has, again and again.
LISTS_AT_ONCE = 256
# Fewer values are read one by one.
FEW = 64
# Bytes of texts that are one number.
PACKED = 8


class Column(ABC):
    """Values of one kind. A slice is a view, an array of rows makes a copy."""

    # How many values are read at once.
    chunk: ClassVar[int] = CHUNK

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, key: Any) -> Any: ...

    @abstractmethod
    def to_list(self) -> list[Any]:
        """List the values, as Python's."""

    @abstractmethod
    def buffers(self) -> list[np.ndarray]:
        """List the arrays that are saved. They depend on the values only."""

    @classmethod
    @abstractmethod
    def take_rows(cls, columns: Sequence[Any], rows: np.ndarray) -> Self:
        """Copy rows of several columns, which are numbered one column behind another."""

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), self.chunk):
            yield from self[start : start + self.chunk].to_list()

    def equals(self, other: Column) -> bool:
        """Return whether another column has the same values."""
        if type(self) is not type(other):
            return False
        pairs = zip(self.buffers(), other.buffers(), strict=True)
        return all(np.array_equal(*pair) for pair in pairs)


class NumberColumn(Column):
    """Numbers or conditions.

    values (ndarray): The values.
    """

    def __init__(self, values: np.ndarray) -> None:
        # A plain view: single items of a memmap are slow to get.
        self._values = np.asarray(values).view()
        self._values.flags.writeable = False

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: Any) -> Any:
        values = self._values[key]
        if isinstance(values, np.ndarray):
            return NumberColumn(values)
        return values.item()

    def to_list(self) -> list[Any]:
        """List the values, as Python's."""
        values: list[Any] = self._values.tolist()
        return values

    def to_numpy(self) -> np.ndarray:
        """Return the values, which cannot be written to."""
        values: np.ndarray = self._values
        return values

    def buffers(self) -> list[np.ndarray]:
        """List the arrays that are saved."""
        return [self._values]

    @classmethod
    def take_rows(cls, columns: Sequence[NumberColumn], rows: np.ndarray) -> NumberColumn:
        """Copy rows of several columns, which are numbered one column behind another."""
        values = [column._values for column in columns]
        return cls(np.concatenate(values)[rows])


class TextColumn(Column):
    """Texts, of which some may be missing.

    data (ndarray): Their UTF-8 bytes, one text behind another; uint8.
    offsets (ndarray): Where each begins, and where the last one ends.
    is_there (ndarray | None): Which texts are not missing; None for all. Missing ones have no bytes.
    """

    def __init__(self, data: np.ndarray, offsets: np.ndarray, is_there: np.ndarray | None = None) -> None:
        self._data = np.asarray(data)
        self._offsets = np.asarray(offsets)
        self._is_there = is_there
        # Of these, single items are quick to get.
        self._bytes = self._data.data
        self._places = self._offsets.data

    @classmethod
    def make(cls, texts: Iterable[str | None]) -> TextColumn:
        """Copy texts."""
        unread = iter(texts)
        data = bytearray()
        lengths = [np.empty(0, dtype=np.int64)]
        is_there = [np.empty(0, dtype=bool)]
        while chunk := [*islice(unread, CHUNK)]:
            encoded = [(text or "").encode() for text in chunk]
            data += b"".join(encoded)
            of_chunk = [*map(len, encoded)]
            lengths.append(np.array(of_chunk, dtype=np.int64))
            conditions = [text is not None for text in chunk]
            is_there.append(np.array(conditions, dtype=bool))
        values = np.frombuffer(data, dtype=np.uint8)
        offsets = make_offsets(np.concatenate(lengths))
        return cls._with_conditions(values, offsets, np.concatenate(is_there))

    @classmethod
    def _with_conditions(cls, data: np.ndarray, offsets: np.ndarray, is_there: np.ndarray) -> TextColumn:
        """Make a column that only keeps which texts are there if some are missing."""
        return cls(data, offsets, None if is_there.all() else is_there)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, np.ndarray | list | range):
            return self._take(_list_rows(key))
        row = range(len(self))[key]
        if self._is_there is not None and not self._is_there[row]:
            return None
        start = self._places[row]
        end = self._places[row + 1]
        return str(self._bytes[start:end], "utf8")

    def _slice(self, rows: slice) -> TextColumn:
        start, stop, step = rows.indices(len(self))
        if step != 1:
            return self.take_rows([self], np.arange(start, stop, step))
        stop = max(start, stop)
        offsets = self._offsets[start : stop + 1]
        if self._is_there is None:
            return TextColumn(self._data, offsets)
        return TextColumn(self._data, offsets, self._is_there[start:stop])

    def _take(self, rows: np.ndarray) -> TextColumn:
        """Copy rows. What it takes does not depend on how many the column has, unless they are many."""
        if len(rows) > CHUNK:
            return self.take_rows([self], rows)
        places, offsets = take_lists(self._offsets, rows)
        data = self._data[places]
        if self._is_there is None:
            return TextColumn(data, offsets)
        return self._with_conditions(data, offsets, self._is_there[rows])

    def to_list(self) -> list[Any]:
        """List the texts; None for those that are missing."""
        first, last = self._ends
        data = bytes(self._bytes[first:last])
        bounds = pairwise((self._offsets - first).tolist())
        if data.isascii():
            text = data.decode()
            texts = [text[start:end] for start, end in bounds]
        else:
            texts = [data[start:end].decode() for start, end in bounds]
        if self._is_there is None:
            return texts
        pairs = zip(texts, self._is_there.tolist(), strict=True)
        return [text if is_there else None for text, is_there in pairs]

    @property
    def _ends(self) -> tuple[int, int]:
        """Return where the first text begins, and where the last one ends."""
        return self._places[0], self._places[len(self)]

    @property
    def lengths(self) -> np.ndarray:
        """Return how many bytes each text has."""
        return np.diff(self._offsets)

    @property
    def is_there(self) -> np.ndarray:
        """Return which texts are not missing."""
        if self._is_there is None:
            return np.ones(len(self), dtype=bool)
        return self._is_there

    @property
    def is_whole(self) -> bool:
        """Return whether no text is missing."""
        return self._is_there is None or bool(self._is_there.all())

    def buffers(self) -> list[np.ndarray]:
        """List the arrays that are saved: bytes, places, and which texts are there (none where all are)."""
        first, last = self._ends
        data = self._data[first:last]
        offsets = self._offsets - first
        dtype = choose_places(len(data))
        n_conditions = 0 if self.is_whole else len(self)
        return [data, offsets.astype(dtype, copy=False), self.is_there[:n_conditions]]

    @classmethod
    def take_rows(cls, columns: Sequence[TextColumn], rows: np.ndarray) -> TextColumn:
        """Copy rows of several columns, which are numbered one column behind another. Texts that lie one behind another
        are copied at once."""
        # Between the bytes of two columns one is left out, so that no texts of two seem to lie like this.
        bases = make_offsets([len(column._data) + 1 for column in columns])[:-1]
        starts, ends = _join_bounds([column._offsets for column in columns], bases, rows)
        is_there = np.concatenate([column.is_there for column in columns])[rows]
        # A run of texts begins where one does not begin at the end of the one before.
        is_apart = starts[1:] != ends[:-1]
        is_begin = np.append(True, is_apart)[: len(rows)]
        is_end = np.append(is_apart, True)[: len(rows)]
        run_starts = starts[is_begin]
        numbers = np.searchsorted(bases, run_starts, side="right") - 1
        moves = bases[numbers]
        places = [numbers, run_starts - moves, ends[is_end] - moves]
        runs = zip(*(of_run.tolist() for of_run in places), strict=True)
        data = b"".join([columns[number]._bytes[start:end] for number, start, end in runs])
        values = np.frombuffer(data, dtype=np.uint8)
        return cls._with_conditions(values, make_offsets(ends - starts), is_there)

    def ascends(self) -> bool:
        """Return whether each text is greater than the one before, by its code points."""
        # With the first text of the next chunk.
        starts = range(0, len(self) - 1, CHUNK)
        chunks = (self[start : start + CHUNK + 1] for start in starts)
        return all(chunk._ascends_in_chunk() for chunk in chunks)

    def _ascends_in_chunk(self) -> bool:
        data, offsets, _ = self.buffers()
        places = offsets.astype(np.int64)
        lengths = np.diff(places)
        packed = PackedBytes(data, places[:-1], lengths)
        tied = np.arange(len(self) - 1)
        place = 0
        while len(tied):
            numbers = packed.read(tied, place)
            others = packed.read(tied + 1, place)
            if (numbers > others).any():
                return False
            place += PACKED
            tied = tied[numbers == others]
            length = lengths[tied]
            next_length = lengths[tied + 1]
            is_read = np.maximum(length, next_length) <= place
            # Zeros behind the end of a text may be like those of a longer one.
            is_longer = length < next_length
            if not is_longer[is_read].all():
                return False
            tied = tied[~is_read]
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        data, offsets, _ = self.buffers()
        return TextColumn, (np.array(data), np.array(offsets), self._is_there)


# What many names come in.
Texts = TextColumn | Sequence[str]


class PackedBytes:
    """The bytes of texts as numbers, eight at a time. Numbers are in the order of their bytes."""

    def __init__(self, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> None:
        # Behind the last text are zeros, which are less than anything else.
        zeros = np.zeros(PACKED, dtype=np.uint8)
        padded = np.append(data, zeros)
        n_places = len(data) + 1
        self._numbers = np.ndarray(n_places, ">u8", padded, strides=1)
        self._starts = starts
        self._lengths = lengths

    def read(self, rows: np.ndarray, place: int) -> np.ndarray:
        """Read the bytes of texts from a place on. Behind the end of a text are zeros."""
        n_left = np.clip(self._lengths[rows] - place, 0, PACKED)
        n_beyond = (PACKED - n_left).astype(np.uint64)
        # Two shifts by half of the bits, since one by all bits is none.
        beyond = n_beyond * np.uint64(4)
        last = len(self._numbers) - 1
        places = np.minimum(self._starts[rows] + place, last)
        numbers = self._numbers[places].astype(np.uint64)
        return np.asarray(numbers >> beyond >> beyond << beyond << beyond)

    def read_all(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Read all bytes: first those that texts begin with, and so on, each time with the rows of texts that go on."""
        rows = np.flatnonzero(self._lengths)
        place = 0
        while len(rows):
            yield rows, self.read(rows, place)
            place += PACKED
            rows = rows[self._lengths[rows] > place]


class CodedColumn(Column):
    """Texts of which few are distinct, by their numbers.

    codes (ndarray): The number of each text.
    values (TextColumn): The distinct texts, sorted.
    """

    def __init__(self, codes: np.ndarray, values: TextColumn, *, texts: list[str] | None = None) -> None:
        self.codes = np.asarray(codes)
        self.values = values
        self._texts: list[str] = values.to_list() if texts is None else texts

    @classmethod
    def make(cls, texts: Iterable[str]) -> CodedColumn:
        """Copy texts."""
        numbers: dict[str, int] = {}
        listed = (numbers.setdefault(text, len(numbers)) for text in texts)
        codes = np.fromiter(listed, dtype=np.int64)
        return cls._sorted(codes, [*numbers])

    @classmethod
    def _sorted(cls, codes: np.ndarray, texts: Sequence[str]) -> CodedColumn:
        """Number the texts that there are in their order."""
        is_used = np.bincount(codes, minlength=len(texts)) > 0
        distinct = sorted({*compress(texts, is_used.tolist())})
        numbers = {text: number for number, text in enumerate(distinct)}
        new_codes = [numbers.get(text, 0) for text in texts]
        renumbered = np.array(new_codes, dtype=choose_codes(len(distinct)))
        return cls(renumbered[codes], TextColumn.make(distinct))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, key: Any) -> Any:
        rows = np.asarray(key, dtype=np.int64) if isinstance(key, range) else key
        codes = self.codes[rows]
        if isinstance(codes, np.ndarray):
            return CodedColumn(codes, self.values, texts=self._texts)
        return self._texts[codes]

    def is_in(self, wanted: Collection[str]) -> np.ndarray:
        """Tell which texts are among some."""
        matches = [text in wanted for text in self._texts]
        is_wanted = np.array(matches, dtype=bool)
        matched: np.ndarray = is_wanted[self.codes]
        return matched

    def to_list(self) -> list[str]:
        """List the texts."""
        return [*map(self._texts.__getitem__, self.codes.tolist())]

    def buffers(self) -> list[np.ndarray]:
        """List the arrays that are saved: those of the distinct texts, and the numbers."""
        used = self._sorted(self.codes, self._texts)
        return [*used.values.buffers(), used.codes]

    @classmethod
    def take_rows(cls, columns: Sequence[CodedColumn], rows: np.ndarray) -> CodedColumn:
        """Copy rows of several columns, which are numbered one column behind another."""
        bases = make_offsets([len(column.values) for column in columns])[:-1]
        pairs = zip(columns, bases.tolist(), strict=True)
        codes = np.concatenate([column.codes + base for column, base in pairs])
        texts = chain.from_iterable(column._texts for column in columns)
        return cls._sorted(codes[rows], [*texts])


class ListColumn(Column):
    """Lists of texts.

    offsets (ndarray): Where each list begins, and where the last one ends.
    child (TextColumn | CodedColumn): The texts of all lists.
    """

    chunk = LISTS_AT_ONCE

    def __init__(self, offsets: np.ndarray, child: TextColumn | CodedColumn) -> None:
        self.offsets = np.asarray(offsets)
        self.child = child
        self._places = self.offsets.data

    @classmethod
    def make(cls, kind: type[TextColumn] | type[CodedColumn], lists: Iterable[Sequence[str]]) -> ListColumn:
        """Copy lists."""
        listed = [*lists]
        offsets = make_offsets([*map(len, listed)])
        return cls(offsets, kind.make(chain.from_iterable(listed)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                return self.take_rows([self], np.arange(start, stop, step))
            stop = max(start, stop)
            return ListColumn(self.offsets[start : stop + 1], self.child)
        if isinstance(key, np.ndarray | list | range):
            places, offsets = take_lists(self.offsets, _list_rows(key))
            return ListColumn(offsets, self.child[places])
        row = range(len(self))[key]
        start = self._places[row]
        end = self._places[row + 1]
        return self.child[start:end]

    def to_list(self) -> list[list[str]]:
        """List the lists."""
        offsets, child = self._split()
        texts = child.to_list()
        return [texts[start:end] for start, end in pairwise(offsets.tolist())]

    def _split(self) -> tuple[np.ndarray, TextColumn | CodedColumn]:
        """Return where lists begin in their own texts, and these texts."""
        first = self._places[0]
        last = self._places[len(self)]
        return self.offsets - first, self.child[first:last]

    def buffers(self) -> list[np.ndarray]:
        """List the arrays that are saved: those of the texts, and where the lists begin."""
        offsets, child = self._split()
        places = offsets.astype(choose_places(len(child)), copy=False)
        return [*child.buffers(), places]

    @classmethod
    def take_rows(cls, columns: Sequence[ListColumn], rows: np.ndarray) -> ListColumn:
        """Copy rows of several columns, which are numbered one column behind another."""
        children: Sequence[Any] = [column.child for column in columns]
        bases = make_offsets([*map(len, children)])[:-1]
        bounds = _join_bounds([column.offsets for column in columns], bases, rows)
        places, offsets = join_ranges(*bounds)
        return cls(offsets, type(children[0]).take_rows(children, places))

    def __reduce__(self) -> tuple[Any, ...]:
        return ListColumn, self._split()


def _list_rows(key: np.ndarray | list[int] | range) -> np.ndarray:
    """List the rows that a key selects: rows, or a condition for each of them."""
    rows = np.asarray(key)
    if rows.dtype == bool:
        return np.flatnonzero(rows)
    return rows.astype(np.int64, copy=False)


def _join_bounds(columns: Sequence[np.ndarray], bases: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List where rows of several columns start and end, given the offsets of each column and what to add to them."""
    pairs = zip(columns, bases.tolist(), strict=True)
    moved = [offsets.astype(np.int64) + base for offsets, base in pairs]
    starts = np.concatenate([offsets[:-1] for offsets in moved])
    ends = np.concatenate([offsets[1:] for offsets in moved])
    return starts[rows], ends[rows]


def choose_places(size: int) -> Any:
    """Choose the type of places up to a size, as they are saved."""
    return np.uint32 if size < 1 << 32 else np.int64


def choose_codes(n: int) -> Any:
    """Choose the type of the numbers of so many texts, as they are saved."""
    return np.min_scalar_type(max(n - 1, 0))


def read_chunks(column: Column | Sequence[Any]) -> Iterator[list[Any]]:
    """Read a column, or a list, as Python's values, many at a time."""
    size = column.chunk if isinstance(column, Column) else CHUNK
    for start in range(0, len(column), size):
        part = column[start : start + size]
        yield part.to_list() if isinstance(part, Column) else [*part]


class ColumnReader:
    """A column of strings, or of lists of them, whose values are remembered when they are read one by one."""

    def __init__(self, values: TextColumn | CodedColumn | ListColumn) -> None:
        self._values = values
        is_nested = isinstance(values, ListColumn)
        get = (lambda row: values[row].to_list()) if is_nested else values.__getitem__
        self.get = lru_cache(KEPT_STRINGS)(get)

    def list(self, rows: np.ndarray) -> list[Any]:
        """List the values of rows. The caller may change what it gets."""
        if len(rows) < FEW:
            return [copy(self.get(row)) for row in rows.tolist()]
        values: list[Any] = self._values[rows].to_list()
        return values
