"""Columns of tables: texts as their UTF-8 bytes and where each begins, so that millions of them can stay in a mapped
file. Columns are immutable, and equal columns have equal buffers, however they were made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Self

from .forking import KEPT_STRINGS
from .ragged import make_offsets

# Values that are read at once.
CHUNK = 1 << 16
# Lists that are read at once: so few that Python's garbage collector does not start. It would look through all that a
# pipeline has, again and again.
LISTS_AT_ONCE = 256
# Fewer values are read one by one.
FEW = 64
# Bytes of texts that are compared at once.
WORD = 8


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
        pairs = zip(self.buffers(), other.buffers(), strict=True)
        return type(self) is type(other) and all(np.array_equal(one, two) for one, two in pairs)


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
        return NumberColumn(values) if isinstance(values, np.ndarray) else values.item()

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
        return cls(np.concatenate([column._values for column in columns])[rows])


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
        left = iter(texts)
        data = bytearray()
        lengths = [np.empty(0, dtype=np.int64)]
        is_there = [np.empty(0, dtype=bool)]
        while chunk := [*islice(left, CHUNK)]:
            encoded = [b"" if text is None else text.encode() for text in chunk]
            data += b"".join(encoded)
            lengths.append(np.array([*map(len, encoded)], dtype=np.int64))
            is_there.append(np.array([text is not None for text in chunk], dtype=bool))
        there = np.concatenate(is_there)
        offsets = make_offsets(np.concatenate(lengths))
        return cls(np.frombuffer(data, dtype=np.uint8), offsets, None if there.all() else there)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                return self.take_rows([self], np.arange(start, stop, step))
            stop = max(start, stop)
            is_there = None if self._is_there is None else self._is_there[start:stop]
            return TextColumn(self._data, self._offsets[start : stop + 1], is_there)
        if isinstance(key, np.ndarray | list | range):
            return self._take(_list_rows(key))
        row = range(len(self))[key]
        if self._is_there is not None and not self._is_there[row]:
            return None
        return str(self._bytes[self._places[row] : self._places[row + 1]], "utf8")

    def _take(self, rows: np.ndarray) -> TextColumn:
        """Copy rows. What it takes does not depend on how many the column has, unless they are many."""
        if len(rows) > CHUNK:
            return self.take_rows([self], rows)
        places, offsets = _take_places(self._offsets, rows)
        is_there = None if self._is_there is None else self._is_there[rows]
        is_whole = is_there is None or is_there.all()
        return TextColumn(self._data[places], offsets, None if is_whole else is_there)

    def to_list(self) -> list[Any]:
        """List the texts; None for those that are missing."""
        first = self._places[0]
        data = bytes(self._bytes[first : self._places[len(self)]])
        places = pairwise((self._offsets - first).tolist())
        text = data.decode() if data.isascii() else ""
        if text or not data:
            texts = [text[start:end] for start, end in places]
        else:
            texts = [data[start:end].decode() for start, end in places]
        if self._is_there is None:
            return texts
        return [text if there else None for text, there in zip(texts, self._is_there.tolist(), strict=True)]

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
        first, last = self._places[0], self._places[len(self)]
        is_there = self.is_there
        offsets = (self._offsets - first).astype(choose_places(last - first), copy=False)
        return [self._data[first:last], offsets, is_there[: 0 if is_there.all() else None]]

    @classmethod
    def take_rows(cls, columns: Sequence[TextColumn], rows: np.ndarray) -> TextColumn:
        """Copy rows of several columns, which are numbered one column behind another. Texts that lie one behind another
        are copied at once."""
        # Between the bytes of two columns one is left out, so that no texts of two seem to lie like this.
        bases = make_offsets([len(column._data) + 1 for column in columns])[:-1]
        moved = [column._offsets.astype(np.int64) + base for column, base in zip(columns, bases.tolist(), strict=True)]
        starts = np.concatenate([offsets[:-1] for offsets in moved])[rows]
        ends = np.concatenate([offsets[1:] for offsets in moved])[rows]
        is_there = np.concatenate([column.is_there for column in columns])[rows]
        begins = np.flatnonzero(starts != np.append(-1, ends[:-1])[: len(starts)])
        runs = zip(starts[begins].tolist(), ends[np.append(begins, len(ends))[1:] - 1].tolist(), strict=True)
        listed = bases.tolist()

        def copy(start: int, end: int) -> memoryview:
            place = bisect_right(listed, start) - 1
            return columns[place]._bytes[start - listed[place] : end - listed[place]]

        data = np.frombuffer(b"".join([copy(start, end) for start, end in runs]), dtype=np.uint8)
        return cls(data, make_offsets(ends - starts), None if is_there.all() else is_there)

    def ascends(self) -> bool:
        """Return whether each text is greater than the one before, by its code points."""
        return all(self._ascends_from(start) for start in range(0, len(self) - 1, CHUNK))

    def _ascends_from(self, start: int) -> bool:
        # With the first text of the next chunk.
        offsets = self._offsets[start : start + CHUNK + 2].astype(np.int64)
        first = int(offsets[0])
        # Zeros behind the last text, which are less than anything else.
        data = np.append(self._data[first : int(offsets[-1])], np.zeros(WORD, dtype=np.uint8))
        words = np.ndarray(len(data) - WORD + 1, ">u8", data, strides=1)
        starts, lengths = offsets[:-1] - first, np.diff(offsets)

        def read_word(rows: np.ndarray, place: int) -> np.ndarray:
            left = np.clip(lengths[rows] - place, 0, WORD).astype(np.uint64)
            # Two shifts, since one by all bits is none.
            beyond = (np.uint64(WORD) - left) * np.uint64(WORD // 2)
            values = words[np.minimum(starts[rows] + place, len(words) - 1)].astype(np.uint64)
            word: np.ndarray = values >> beyond >> beyond << beyond << beyond
            return word

        tied = np.arange(len(starts) - 1)
        place = 0
        while len(tied):
            one, two = read_word(tied, place), read_word(tied + 1, place)
            place += WORD
            is_same = one == two
            ended = is_same & (np.maximum(lengths[tied], lengths[tied + 1]) <= place)
            if (one > two).any() or (lengths[tied] >= lengths[tied + 1])[ended].any():
                return False
            tied = tied[is_same & ~ended]
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        data, offsets, _ = self.buffers()
        return TextColumn, (np.array(data), np.array(offsets), self._is_there)


# What many names come in.
Texts = TextColumn | Sequence[str]


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
        codes = np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), dtype=np.int64)
        return cls._sorted(codes, [*numbers])

    @classmethod
    def _sorted(cls, codes: np.ndarray, texts: Sequence[str]) -> CodedColumn:
        """Number the texts that there are in their order."""
        is_used = np.bincount(codes, minlength=len(texts)) > 0
        distinct = sorted({text for text, used in zip(texts, is_used.tolist(), strict=True) if used})
        new = {text: number for number, text in enumerate(distinct)}
        renumbered = np.array([new.get(text, 0) for text in texts], dtype=choose_codes(len(distinct)))
        return cls(renumbered[codes], TextColumn.make(distinct))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, key: Any) -> Any:
        codes = self.codes[np.asarray(key, dtype=np.int64) if isinstance(key, range) else key]
        is_view = isinstance(codes, np.ndarray)
        return CodedColumn(codes, self.values, texts=self._texts) if is_view else self._texts[codes]

    def is_in(self, wanted: Collection[str]) -> np.ndarray:
        """Tell which texts are among some."""
        is_wanted = np.array([text in wanted for text in self._texts], dtype=bool)
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
        bases = make_offsets([len(column.values) for column in columns])
        codes = [column.codes + base for column, base in zip(columns, bases.tolist(), strict=False)]
        texts = [*chain.from_iterable(column._texts for column in columns)]
        return cls._sorted(np.concatenate(codes)[rows], texts)


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
        return cls(make_offsets([*map(len, listed)]), kind.make(chain.from_iterable(listed)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                return self.take_rows([self], np.arange(start, stop, step))
            return ListColumn(self.offsets[start : max(start, stop) + 1], self.child)
        if isinstance(key, np.ndarray | list | range):
            places, offsets = _take_places(self.offsets, _list_rows(key))
            return ListColumn(offsets, self.child[places])
        row = range(len(self))[key]
        return self.child[self._places[row] : self._places[row + 1]]

    def to_list(self) -> list[list[str]]:
        """List the lists."""
        first = self._places[0]
        texts = self.child[first : self._places[len(self)]].to_list()
        return [texts[start:end] for start, end in pairwise((self.offsets - first).tolist())]

    def buffers(self) -> list[np.ndarray]:
        """List the arrays that are saved: those of the texts, and where the lists begin."""
        first, last = self._places[0], self._places[len(self)]
        offsets = (self.offsets - first).astype(choose_places(last - first), copy=False)
        return [*self.child[first:last].buffers(), offsets]

    @classmethod
    def take_rows(cls, columns: Sequence[ListColumn], rows: np.ndarray) -> ListColumn:
        """Copy rows of several columns, which are numbered one column behind another."""
        bases = make_offsets([len(column.child) for column in columns]).tolist()
        moved = [column.offsets.astype(np.int64) + base for column, base in zip(columns, bases, strict=False)]
        lengths = np.concatenate([np.diff(offsets) for offsets in moved])[rows]
        starts = np.concatenate([offsets[:-1] for offsets in moved])[rows]
        offsets = make_offsets(lengths)
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        children: Sequence[Any] = [column.child for column in columns]
        return cls(offsets, type(children[0]).take_rows(children, places))

    def __reduce__(self) -> tuple[Any, ...]:
        first, last = self._places[0], self._places[len(self)]
        return ListColumn, (np.array(self.offsets - first), self.child[first:last])


def _list_rows(key: np.ndarray | list[int] | range) -> np.ndarray:
    """List the rows that a key selects: rows, or a condition for each of them."""
    rows = np.asarray(key)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64, copy=False)


def _take_places(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the places of the values of some rows, and where those of each row begin among them."""
    starts = offsets[:-1][rows].astype(np.int64)
    lengths = offsets[1:][rows] - starts
    own = make_offsets(lengths)
    return np.arange(own[-1]) + np.repeat(starts - own[:-1], lengths), own


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
        get = (lambda row: values[row].to_list()) if isinstance(values, ListColumn) else values.__getitem__
        self.get = lru_cache(KEPT_STRINGS)(get)

    def list(self, rows: np.ndarray) -> list[Any]:
        """List the values of rows. The caller may change what it gets."""
        if len(rows) < FEW:
            return [copy(self.get(row)) for row in rows.tolist()]
        values: list[Any] = self._values[rows].to_list()
        return values
