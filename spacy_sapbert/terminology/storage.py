"""Save tables as files that are mapped into memory on load and checked before use.

A file holds the buffers of a table's columns in Arrow's layout, one behind another. polars takes them by Arrow's C
data interface: without a copy, and without its threads, which a forked process lacks. Its own readers of files copy,
and in a forked process they wait forever.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl

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
# Rows of a column that are written at a time.
PIECE = 1 << 16
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


def save_folder(folder: Path, tables: Mapping[str, pl.DataFrame], report: dict[str, Any]) -> str:
    """Write tables by file and their manifest into a folder, where other files stay. Return their fingerprint."""
    digests, sizes = {}, {}
    with fill_folder(folder, last=MANIFEST) as temporary:
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


def load_folder(
    folder: Path, schemas: Mapping[str, pl.Schema], *, memory_map: bool = True
) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    """Load the tables of a folder after checking their hashes, and the manifest."""
    manifest = read_manifest(folder / MANIFEST, FORMAT_VERSION, parts=schemas, used=schemas)
    tables = {}
    for name, schema in schemas.items():
        path, sizes, rows = folder / name, manifest["sizes"][name], manifest["counts"][Path(name).stem]
        data = np.memmap(path, mode="r") if memory_map else np.fromfile(path, dtype=np.uint8)
        ends = np.cumsum([-(-size // ALIGNMENT) * ALIGNMENT for size in [len(HEADER), *sizes]])
        buffers = (data[end : end + size] for end, size in zip(ends.tolist(), sizes, strict=False))
        tables[name] = pl.DataFrame({of: pl.Series(_read_column(kind, rows, buffers)) for of, kind in schema.items()})
    return tables, manifest


def make_lists(values: pl.Series, lengths: np.ndarray) -> pl.Series:
    """Make a column of lists: the first `lengths[0]` values, and so on."""
    offsets = make_offsets(lengths)
    buffers = iter([offsets, *_list_buffers(values)])
    return pl.Series(_read_column(pl.List(pl.String()), len(lengths), buffers)).alias(values.name)


def _write_table(frame: pl.DataFrame, file: BinaryIO | None) -> tuple[str, list[int]]:
    """Write a table to a file, if one is given, and return the SHA-256 of its bytes and the sizes of the buffers."""
    digest = hashlib.sha256()
    sizes = []
    columns = chain.from_iterable(_list_buffers(column) for column in frame.iter_columns())
    for buffer in chain([np.frombuffer(HEADER, dtype=np.uint8)], columns):
        sizes.append(buffer.nbytes)
        for part in (buffer.reshape(-1).view(np.uint8).data, bytes(-buffer.nbytes % ALIGNMENT)):
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
    views, long_texts, place = np.zeros((len(column), 4), dtype=np.uint32), [np.empty(0, dtype=np.uint8)], 0
    for start in range(0, len(column), PIECE):
        texts = column.slice(start, PIECE).drop_nulls()
        lengths = texts.str.len_bytes().to_numpy()
        # It is quick to take as many bytes of each, from before it on. Behind a text are zeros.
        text = bytes(4) + texts.str.join("\0" * INLINE).cast(pl.Binary())[0] + bytes(INLINE)
        taken = np.ndarray(len(text) - VIEW.itemsize + 1, VIEW, text, strides=1)[make_offsets(lengths + INLINE)[:-1]]
        numbers = taken.view(np.uint32).reshape(-1, 4)
        # A view of a long text has its length, its first four bytes, its buffer and its place there.
        numbers[:, 0], is_long = lengths, lengths > INLINE
        places = place + make_offsets(lengths[is_long])
        numbers[is_long, 2], numbers[is_long, 3] = places[:-1] // STEP, places[:-1] % STEP
        views[start : start + PIECE][is_there[start : start + PIECE]] = numbers
        long_texts.append(np.frombuffer(texts.filter(pl.Series(is_long)).str.join("").cast(pl.Binary())[0], np.uint8))
        place = places[-1]
    bits = np.packbits(is_there[: 0 if is_there.all() else None], bitorder="little")
    return [bits, views, np.concatenate(long_texts)]


def _read_column(kind: pl.DataType, rows: int, buffers: Iterator[np.ndarray]) -> _ArrowColumn:
    """Take the next buffers for a column. They stay where they are."""
    if isinstance(kind, pl.List):
        offsets = next(buffers)
        n_values = int(offsets.view(np.int64)[-1])
        return _ArrowColumn(kind, rows, [None, offsets], _read_column(pl.String(), n_values, buffers))
    if not isinstance(kind, pl.String):
        return _ArrowColumn(kind, rows, [None, next(buffers)])
    is_there, views, text = next(buffers), next(buffers), next(buffers)
    texts = [text[start : start + LONGEST] for start in range(0, len(text), STEP)]
    lengths = np.array([len(part) for part in texts], dtype=np.int64)
    return _ArrowColumn(kind, rows, [is_there if len(is_there) else None, views, *texts, lengths])


class _ArrowColumn:
    """A column that polars can take: `pl.Series(column)`. It is described as Arrow's C data interface asks for: by two
    structures of numbers and addresses."""

    # What polars reads must stay until it calls `_release`.
    read: dict[int, _ArrowColumn] = {}

    def __init__(
        self, kind: pl.DataType, rows: int, buffers: list[np.ndarray | None], child: _ArrowColumn | None = None
    ) -> None:
        self.buffers, self.child = buffers, child
        self.addresses = _as_numbers(0 if buffer is None else buffer.ctypes.data for buffer in buffers)
        self.children = _as_numbers(() if child is None else (of.ctypes.data for of in (child.schema, child.array)))
        n_children, children = len(self.children) // 2, self.children.ctypes.data
        # A null count of -1 is an unknown one.
        n_nulls = 0 if buffers[0] is None else -1
        # Format, name, metadata, flags, children, dictionary, release and private data.
        names = ctypes.addressof(FORMATS[kind]), ctypes.addressof(NAME)
        self.schema: np.ndarray = _as_numbers([*names, 0, NULLABLE, n_children, children, 0, 0, 0])
        # Length, missing values, offset, buffers, children, dictionary, release and private data.
        counts, addresses = [rows, n_nulls, 0, len(buffers), n_children], self.addresses.ctypes.data
        self.array: np.ndarray = _as_numbers([*counts, addresses, children + self.children.itemsize, 0, 0, 0])

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        self.read[id(self)] = self
        self.array[RELEASE:] = ctypes.cast(_release, ctypes.c_void_p).value, id(self)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        schema, array = self.schema.ctypes.data, self.array.ctypes.data
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
