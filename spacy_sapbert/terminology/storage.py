"""Save tables as files that are mapped into memory on load and checked before use.

A file holds the buffers of a table's columns in Arrow's layout, one behind another. polars takes them by Arrow's C
data interface: without a copy, and without its threads, which a forked process lacks. Its own readers of files copy,
and in a forked process they wait forever.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import polars as pl
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from ..errors import DAMAGED
from ..files import fill_folder, read_manifest, write_manifest
from ..ragged import make_offsets

FORMAT_VERSION = 1
MANIFEST = "terminology.json"
HEADER = b"Buffers of a table; the manifest has their sizes."
# Arrow advises to align buffers like this.
ALIGNMENT = 64
# The texts of a column are seen as overlapping buffers, because a text's place in a buffer has 31 bits: how far apart
# they begin, and how long they are at most.
STEP = 1 << 30
LONGEST = (1 << 31) - 1
# Texts of at most this many bytes stand in the views themselves, behind their lengths.
INLINE = 12
VIEW = np.dtype((np.void, 4 + INLINE))
# Of the view of a text of each length, the bytes behind it; none of a longer text.
BEHIND = np.array([[0xFF * (4 + length <= byte) for byte in range(VIEW.itemsize)] for length in range(INLINE + 2)])
BEHIND = BEHIND.astype(np.uint8).view(np.uint64)
BEHIND[-1] = 0
# The bits that letters beyond ASCII have in a view.
BEYOND_ASCII = np.array([0x8080808000000000, 0x8080808080808080], dtype=np.uint64)
# Rows of a column that are written at a time, and bytes of one that are checked.
PIECE = 1 << 16
CHECKED = 1 << 20
# Arrow's names of types, its names of columns (none), and its flag of columns with missing values.
TYPES = {pl.String(): b"vu", pl.UInt32(): b"I", pl.Boolean(): b"b", pl.List(pl.String()): b"+L"}
FORMATS = {kind: ctypes.create_string_buffer(name) for kind, name in TYPES.items()}
NAME = ctypes.create_string_buffer(b"")
NULLABLE = 2
# Where the structure of an array has the function to call when it is no longer read, and then what is ours.
RELEASE = 8


def hash_tables(tables: Mapping[str, pl.DataFrame]) -> str:
    """Hash tables as saved."""
    return _combine(_write_table(frame, None)[0] for frame in tables.values())


def save_folder(
    folder: Path, tables: Mapping[str, pl.DataFrame], report: dict[str, Any], optional: Collection[str] = ()
) -> str:
    """Write tables by file and their manifest into a folder, where other files stay, but for those of optional tables
    that there were before. Return the fingerprint."""
    digests, sizes = {}, {}
    with fill_folder(folder, last=MANIFEST, remove=set(optional).difference(tables)) as temporary:
        for name, frame in tables.items():
            with (temporary / name).open("wb") as file:
                digests[name], sizes[name] = _write_table(frame, file)
        counts = {Path(name).stem: frame.height for name, frame in tables.items()}
        fingerprint = _combine(digests.values())
        data = {"counts": counts, "fingerprint": fingerprint, "report": report, "sizes": sizes}
        write_manifest(temporary / MANIFEST, FORMAT_VERSION, data)
    return fingerprint


def _combine(digests: Iterable[str]) -> str:
    return hashlib.sha256("".join(digests).encode("ascii")).hexdigest()


class SourceReport(TypedDict, total=False):
    """What is read of one source in a report."""

    name: str | None
    version: str | None
    licence: str | None
    language: str | None
    restriction_level: int | None


class Report(TypedDict, total=False):
    """What is read of a report. Its reader may have written more."""

    dropped: dict[str, int]
    ids: dict[str, int]
    id_prefix: str | None
    normalized_names: int
    sources: dict[str, SourceReport]


class TerminologyManifest(TypedDict):
    """What the manifest says of the tables."""

    counts: dict[str, NonNegativeInt]
    files: dict[str, str]
    fingerprint: str
    report: Report
    sizes: dict[str, list[NonNegativeInt]]


def load_folder(
    folder: Path, schemas: Mapping[str, pl.Schema], optional: Collection[str] = (), *, memory_map: bool = True
) -> tuple[dict[str, pl.DataFrame], TerminologyManifest]:
    """Load the tables of a folder, and the manifest. Hashes are checked, and all that polars relies on: a folder from
    elsewhere may have been made to let it read outside of the files. Optional tables that the manifest does not list
    are empty."""
    used = [name for name in schemas if name not in optional]
    manifest = read_manifest(folder / MANIFEST, FORMAT_VERSION, TerminologyManifest, parts=schemas, used=used)
    tables = {}
    for name, schema in schemas.items():
        if name in optional and name not in manifest["files"]:
            tables[name] = pl.DataFrame(schema=schema)
            continue
        path = folder / name
        try:
            sizes = manifest["sizes"][name]
            rows = manifest["counts"][path.stem]
            with path.open("rb") as file:
                buffers = _Buffers(file, sizes, memory_map=memory_map)
                columns = {column: _read_column(kind, rows, buffers) for column, kind in schema.items()}
                buffers.check()
        except KeyError as error:
            raise OSError(DAMAGED.format(path=folder / MANIFEST, reason=f"it says nothing of {error}")) from error
        except ValueError as error:
            raise OSError(DAMAGED.format(path=path, reason=error)) from error
        # Not before all have been checked: polars calls back to Python when it drops a column, and must not while an
        # exception is raised.
        tables[name] = pl.DataFrame({column: pl.Series(values) for column, values in columns.items()})
    return tables, manifest


class _Buffers:
    """The buffers of a file, one behind another, which are taken in their order."""

    def __init__(self, file: BinaryIO, sizes: Sequence[int], *, memory_map: bool) -> None:
        # Windows has no `pread`.
        self._file = file.fileno() if memory_map and hasattr(os, "pread") else None
        self._data = np.memmap(file, mode="r") if memory_map else np.fromfile(file, dtype=np.uint8)
        self._sizes = iter(sizes)
        self._start = _align(len(HEADER))
        # The views and the bytes of each column of texts.
        self.texts: list[tuple[_Buffer, _Buffer]] = []

    def take(self, dtype: Any, length: int) -> _Buffer:
        """Take a buffer of as many values as the manifest has to say."""
        buffer = self.take_any(dtype)
        if len(buffer.values) != length:
            raise ValueError(f"a column has {len(buffer.values):,} values where {length:,} are needed")
        return buffer

    def take_any(self, dtype: Any) -> _Buffer:
        """Take a buffer of any length."""
        size = next(self._sizes, None)
        if size is None:
            raise ValueError("the manifest lists fewer buffers than its columns have")
        start = self._start
        self._start = self._start + _align(size)
        if self._start > len(self._data) or size % np.dtype(dtype).itemsize:
            raise ValueError(f"a buffer of {size:,} bytes can't begin at {start:,} of {len(self._data):,}")
        values = np.asarray(self._data[start : start + size]).view(dtype)
        return _Buffer(values, self._file, start)

    def check(self) -> None:
        """Check the texts that have been taken, and that they are all that the file has."""
        if self._start != len(self._data) or next(self._sizes, None) is not None:
            raise ValueError(f"its columns end at {self._start:,} of {len(self._data):,} bytes")
        # Nearly all of that is done without the interpreter's lock.
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for _ in pool.map(_check_texts, *zip(*self.texts, strict=True)):
                pass


class _Buffer(NamedTuple):
    """The values of a buffer, and where they are in their open file if they are mapped from there."""

    values: np.ndarray
    file: int | None
    start: int

    def read(self, start: int, stop: int) -> np.ndarray:
        """Read some values. What is read through a map stays in the memory of the process."""
        if self.file is None:
            return self.values[start:stop]
        dtype = self.values.dtype
        size = (stop - start) * dtype.itemsize
        place = self.start + start * dtype.itemsize
        return np.frombuffer(os.pread(self.file, size, place), dtype)


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _count_bytes(n_bits: int) -> int:
    return -(-n_bits // 8)


def make_lists(values: pl.Series, lengths: np.ndarray) -> pl.Series:
    """Make a column of lists: the first `lengths[0]` values, and so on."""
    is_there, views, text = _list_text_buffers(values)
    child = _take_texts(is_there, views, text, len(values))
    return pl.Series(_make_lists(make_offsets(lengths), child)).alias(values.name)


def _write_table(frame: pl.DataFrame, file: BinaryIO | None) -> tuple[str, list[int]]:
    """Write a table to a file, if one is given, and return the SHA-256 of its bytes and the sizes of the buffers."""
    digest = hashlib.sha256()
    sizes = []
    columns = chain.from_iterable(_list_buffers(column) for column in frame.iter_columns())
    for buffer in chain([np.frombuffer(HEADER, dtype=np.uint8)], columns):
        sizes.append(buffer.nbytes)
        data = buffer.reshape(-1).view(np.uint8).data
        padding = bytes(-buffer.nbytes % ALIGNMENT)
        for part in (data, padding):
            digest.update(part)
            if file is not None:
                file.write(part)
    return digest.hexdigest(), sizes[1:]


def _list_buffers(column: pl.Series) -> list[np.ndarray]:
    """List the buffers of a column to be saved. They depend on its values only, not on how it lies in memory."""
    if isinstance(column.dtype, pl.Boolean):
        return [np.packbits(column.to_numpy(), bitorder="little")]
    if isinstance(column.dtype, pl.UInt32):
        return [column.to_numpy()]
    if not isinstance(column.dtype, pl.List):
        return _list_text_buffers(column)
    lengths = column.list.len()
    offsets = make_offsets(lengths.to_numpy())
    # `explode` would make a missing value of an empty list.
    return [offsets, *_list_text_buffers(column.filter(lengths > 0).explode())]


def _list_text_buffers(column: pl.Series) -> list[np.ndarray]:
    """List which texts are there (empty if all are), their views, and the bytes of those too long for a view."""
    # Of all that polars offers, this works in a forked process; `fill_null`, for one, does not.
    is_there = column.is_not_null().to_numpy()
    views = np.zeros((len(column), 4), dtype=np.uint32)
    long_texts = [np.empty(0, dtype=np.uint8)]
    place = 0
    for start in range(0, len(column), PIECE):
        texts = column.slice(start, PIECE).drop_nulls()
        lengths = texts.str.len_bytes().to_numpy()
        # It is quick to take as many bytes of each, from before it on. Behind a text are zeros.
        text = bytes(4) + _join(texts, "\0" * INLINE) + bytes(INLINE)
        windows = np.ndarray(len(text) - VIEW.itemsize + 1, VIEW, text, strides=1)
        numbers = windows[make_offsets(lengths + INLINE)[:-1]].view(np.uint32).reshape(-1, 4)
        # A view of a long text has its length, its first four bytes, its buffer and its place there.
        numbers[:, 0] = lengths
        is_long = lengths > INLINE
        places = place + make_offsets(lengths[is_long])
        numbers[is_long, 2] = places[:-1] // STEP
        numbers[is_long, 3] = places[:-1] % STEP
        piece = slice(start, start + PIECE)
        views[piece][is_there[piece]] = numbers
        long_text = _join(texts.filter(pl.Series(is_long)), "")
        long_texts.append(np.frombuffer(long_text, np.uint8))
        place = places[-1]
    bits = np.packbits(is_there[: 0 if is_there.all() else None], bitorder="little")
    return [bits, views, np.concatenate(long_texts)]


def _join(texts: pl.Series, between: str) -> bytes:
    text: bytes = texts.str.join(between).cast(pl.Binary())[0]
    return text


def _read_column(kind: pl.DataType, rows: int, buffers: _Buffers) -> _ArrowColumn:
    """Take the next buffers for a column. They stay where they are. Texts are checked later."""
    if isinstance(kind, pl.Boolean):
        bits = buffers.take(np.uint8, _count_bytes(rows))
        return _ArrowColumn(kind, rows, [None, bits.values])
    if isinstance(kind, pl.UInt32):
        numbers = buffers.take(np.uint32, rows)
        return _ArrowColumn(kind, rows, [None, numbers.values])
    if isinstance(kind, pl.List):
        offsets = buffers.take(np.int64, rows + 1).values
        if offsets[0] or (offsets[1:] < offsets[:-1]).any():
            raise ValueError("the places of its lists do not ascend from 0")
        child = _read_column(pl.String(), int(offsets[-1]), buffers)
        if child.buffers[0] is not None:
            raise ValueError("a list has missing texts")
        return _make_lists(offsets, child)
    is_there = buffers.take_any(np.uint8).values
    if len(is_there) not in (0, _count_bytes(rows)):
        raise ValueError(f"{len(is_there):,} bytes can't say which of {rows:,} texts are there")
    views = buffers.take(VIEW, rows)
    text = buffers.take_any(np.uint8)
    buffers.texts.append((views, text))
    return _take_texts(is_there, views.values, text.values, rows)


def _take_texts(is_there: np.ndarray, views: np.ndarray, text: np.ndarray, rows: int) -> _ArrowColumn:
    texts = [text[start : start + LONGEST] for start in range(0, len(text), STEP)]
    lengths = np.array([*map(len, texts)], dtype=np.int64)
    bits = is_there if len(is_there) else None
    return _ArrowColumn(pl.String(), rows, [bits, views, *texts, lengths])


def _make_lists(offsets: np.ndarray, child: _ArrowColumn) -> _ArrowColumn:
    return _ArrowColumn(pl.List(pl.String()), len(offsets) - 1, [None, offsets], child)


def _check_texts(views: _Buffer, text: _Buffer) -> None:
    """Refuse views that `_list_text_buffers` would not make of these texts, and texts that are not UTF-8."""
    place = 0
    rows = len(views.values)
    size = len(text.values)
    step = CHECKED // (VIEW.itemsize + size // max(rows, 1)) + 1
    for start in range(0, rows, step):
        piece = views.read(start, min(start + step, rows))
        numbers = piece.view(np.uint32).reshape(-1, 4)
        kinds = np.minimum(numbers[:, 0], INLINE + 1)
        _check_short(piece.view(np.uint64).reshape(-1, 2), kinds)
        is_long = np.flatnonzero(kinds > INLINE)
        if not len(is_long):
            continue
        lengths, first_bytes, buffer, in_buffer = numbers[is_long].T
        places = place + make_offsets(lengths)
        if places[-1] > size:
            raise ValueError(f"its texts have {places[-1]:,} bytes or more where there are {size:,}")
        if (buffer != places[:-1] // STEP).any() or (in_buffer != places[:-1] % STEP).any():
            raise ValueError("its texts do not lie one behind another")
        _check_long(text.read(place, places[-1]), places[:-1] - place, first_bytes)
        place = int(places[-1])
    if place != size:
        raise ValueError(f"its texts have {place:,} bytes where there are {size:,}")


def _check_long(texts: np.ndarray, places: np.ndarray, first_bytes: np.ndarray) -> None:
    """Refuse texts that are not UTF-8, or do not begin at their places with these bytes."""
    str(texts.tobytes(), "utf8")
    if (texts[places] & 0xC0 == 0x80).any():
        raise ValueError("a text begins inside of a character")
    beginnings = np.ndarray(max(len(texts) - 3, 0), np.uint32, texts, strides=1)
    if (beginnings[places] != first_bytes).any():
        raise ValueError("the first bytes of a text are others")


def _check_short(views: np.ndarray, kinds: np.ndarray) -> None:
    """Refuse texts in the views themselves that are not UTF-8, and anything behind them. Kinds are lengths, of all long
    texts the same."""
    if (views & BEHIND.take(kinds, axis=0)).any():
        raise ValueError("there is something behind a short text")
    beyond = views & BEYOND_ASCII
    other = views[((beyond[:, 0] | beyond[:, 1]) > 0) & (kinds <= INLINE)]
    # Their lengths are below a space, so no character begins in one text and ends in the next.
    str(other.tobytes(), "utf8")


class _ArrowColumn:
    """A column that polars can take: `pl.Series(column)`. It is described as Arrow's C data interface asks for: by two
    structures of numbers and addresses."""

    # What polars reads must stay until it calls `_release`.
    read: dict[int, _ArrowColumn] = {}

    def __init__(
        self, kind: pl.DataType, rows: int, buffers: list[np.ndarray | None], child: _ArrowColumn | None = None
    ) -> None:
        self.buffers = buffers
        self.child = child
        structures = [] if child is None else [child.schema, child.array]
        self.addresses = _as_numbers(0 if buffer is None else buffer.ctypes.data for buffer in buffers)
        self.children = _as_numbers(structure.ctypes.data for structure in structures)
        n_children = len(structures) // 2
        schemas = self.children.ctypes.data
        arrays = schemas + self.children.itemsize
        # A null count of -1 is an unknown one.
        n_nulls = 0 if buffers[0] is None else -1
        # Format, name, metadata, flags, children, dictionary, release and private data.
        names = ctypes.addressof(FORMATS[kind]), ctypes.addressof(NAME)
        self.schema: np.ndarray = _as_numbers([*names, 0, NULLABLE, n_children, schemas, 0, 0, 0])
        # Length, missing values, offset, buffers, children, dictionary, release and private data.
        counts = rows, n_nulls, 0, len(buffers), n_children
        self.array: np.ndarray = _as_numbers([*counts, self.addresses.ctypes.data, arrays, 0, 0, 0])

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        self.read[id(self)] = self
        self.array[RELEASE:] = ctypes.cast(_release, ctypes.c_void_p).value, id(self)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        schema = self.schema.ctypes.data
        array = self.array.ctypes.data
        return make(schema, b"arrow_schema", None), make(array, b"arrow_array", None)


def _as_numbers(numbers: Iterable[int]) -> np.ndarray:
    return np.fromiter(numbers, dtype=np.int64)


# polars may call it when this module is gone already, at the end of the process, so it has all that it needs.
def _forget(array: Any, read: dict[int, _ArrowColumn] = _ArrowColumn.read, place: int = RELEASE) -> None:
    # polars has moved the structure. That it is released is noted there.
    read.pop(array[place + 1], None)
    array[place] = 0


_release = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int64))(_forget)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_release))
