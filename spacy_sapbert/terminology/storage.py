"""Save tables as files that are mapped into memory on load and checked before use.

A file holds the buffers of a table's columns in Arrow's layout, one behind another. polars takes them by Arrow's C
data interface: without a copy, and without its threads, which a forked process lacks. Its own readers of files copy,
and in a forked process they wait forever.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import polars as pl

from ..errors import Errors
from ..files import fill_folder, read_manifest, write_manifest

FORMAT_VERSION = 2
MANIFEST = "terminology.json"
HEADER = b"Buffers of a table; the manifest has their sizes."
# Arrow advises to align buffers like this.
ALIGNMENT = 64
# The texts of a column are seen as overlapping buffers, each beginning so many bytes behind the last one, because a
# text's place in a buffer has 31 bits.
STEP = 1 << 30
LONGEST = (1 << 31) - 1
# Texts of at most so many bytes stand in the views themselves.
INLINE = 12
# Rows whose texts are copied at a time.
PIECE = 1 << 16
# Arrow's names of types, its names of columns (none), and its flag of columns with missing values.
TYPES = {pl.String(): b"vu", pl.UInt32(): b"I", pl.Boolean(): b"b", pl.List(pl.String()): b"+L"}
FORMATS = {kind: ctypes.create_string_buffer(name) for kind, name in TYPES.items()}
NAME = ctypes.create_string_buffer(b"")
NULLABLE = 2


class Layout(NamedTuple):
    """What a file of a table holds: the number of rows, and the sizes of the buffers in bytes."""

    rows: int
    sizes: list[int]


def table_digest(frame: pl.DataFrame) -> str:
    """Hash a table as saved."""
    return _write_table(frame, None)[0]


def save_folder(
    folder: Path, tables: Mapping[str, pl.DataFrame], describe: Callable[[dict[str, str]], dict[str, Any]]
) -> None:
    """Write tables and their manifest into a folder, where other files stay. `describe` makes further entries of the
    manifest from the digest of each table.
    """
    digests, layouts = {}, {}
    with fill_folder(folder, last=MANIFEST) as temporary:
        for name, frame in tables.items():
            with (temporary / name).open("wb") as file:
                digests[name], layouts[name] = _write_table(frame, file)
        data = {**describe(digests), "layouts": {name: layout._asdict() for name, layout in layouts.items()}}
        write_manifest(temporary / MANIFEST, FORMAT_VERSION, data, hashes=digests)


def load_folder(
    folder: Path, schemas: Mapping[str, pl.Schema], *, memory_map: bool = True
) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    """Load the tables of a folder after checking their hashes, and the manifest."""
    manifest = read_manifest(folder / MANIFEST, FORMAT_VERSION)
    tables = {}
    for name, schema in schemas.items():
        if name not in manifest["files"]:
            raise FileNotFoundError(Errors.E503.format(path=folder / name))
        path = folder / name
        data = np.memmap(path, mode="r") if memory_map else np.fromfile(path, dtype=np.uint8)
        tables[name] = _make_table(data, Layout(**manifest["layouts"][name]), schema)
    return tables, manifest


def _write_table(frame: pl.DataFrame, file: BinaryIO | None) -> tuple[str, Layout]:
    """Write a table to a file, if one is given, and return the SHA-256 of its bytes."""
    digest = hashlib.sha256()
    sizes = []
    columns = chain.from_iterable(_list_buffers(column) for column in frame.iter_columns())
    for buffer in chain([np.frombuffer(HEADER, dtype=np.uint8)], columns):
        sizes.append(buffer.nbytes)
        for part in (buffer.reshape(-1).view(np.uint8).data, bytes(-buffer.nbytes % ALIGNMENT)):
            digest.update(part)
            if file is not None:
                file.write(part)
    return digest.hexdigest(), Layout(frame.height, sizes[1:])


def _make_table(data: np.ndarray, layout: Layout, schema: pl.Schema) -> pl.DataFrame:
    """Make a table of a file's content, which stays where it is."""
    ends = np.cumsum([-(-size // ALIGNMENT) * ALIGNMENT for size in [len(HEADER), *layout.sizes]])
    buffers = (data[end : end + size] for end, size in zip(ends.tolist(), layout.sizes, strict=False))
    return pl.DataFrame([_make_column(name, kind, layout.rows, buffers) for name, kind in schema.items()])


_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _structure(fields: str) -> Any:
    """Make a structure of Arrow's C data interface. All of its fields are numbers or addresses."""
    return type("_Structure", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_int64) for name in fields.split()]})


_ArrowSchema = _structure("format name metadata flags n_children children dictionary release private_data")
_ArrowArray = _structure(
    "length null_count offset n_buffers n_children buffers children dictionary release private_data"
)
_ArrowStream = _structure("get_schema get_next get_last_error release private_data")
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Column:
    """A column that polars can take: `pl.Series(column)`."""

    # What polars reads must stay. It calls `_release` when it is done.
    read: dict[int, _Column] = {}

    def __init__(
        self, kind: pl.DataType, rows: int, buffers: list[np.ndarray | None], child: _Column | None = None
    ) -> None:
        self.child = child
        self.buffers = buffers
        self.addresses = np.array([0 if b is None else b.ctypes.data for b in buffers], dtype=np.int64)
        self.schema = _ArrowSchema(format=ctypes.addressof(FORMATS[kind]), name=ctypes.addressof(NAME), flags=NULLABLE)
        # A null count of -1 is an unknown one.
        n_nulls = 0 if buffers[0] is None else -1
        address = self.addresses.ctypes.data
        self.array = _ArrowArray(length=rows, null_count=n_nulls, n_buffers=len(buffers), buffers=address)
        if child is not None:
            self.children = np.array([ctypes.addressof(of) for of in (child.schema, child.array)], dtype=np.int64)
            self.schema.n_children = self.array.n_children = 1
            self.schema.children = self.children.ctypes.data
            self.array.children = self.children[1:].ctypes.data

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        self.read[id(self)] = self
        self.array.private_data = id(self)
        self.array.release = ctypes.cast(_release, ctypes.c_void_p).value
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        schema, array = ctypes.addressof(self.schema), ctypes.addressof(self.array)
        return make(schema, b"arrow_schema", None), make(array, b"arrow_array", None)


def _make_release(read: dict[int, _Column], array_type: Any) -> Any:
    def release(address: int) -> None:
        array = array_type.from_address(address)
        read.pop(array.private_data, None)
        array.release = 0

    made = _Release(release)
    # polars may call it when this module is gone already, at the end of the process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


_release = _make_release(_Column.read, _ArrowArray)


def _make_column(name: str, kind: pl.DataType, rows: int, buffers: Iterator[np.ndarray]) -> pl.Series:
    return pl.Series(_read_column(kind, rows, buffers)).alias(name)


def _read_column(kind: pl.DataType, rows: int, buffers: Iterator[np.ndarray]) -> _Column:
    """Take the next buffers for a column."""
    if isinstance(kind, pl.List):
        offsets = next(buffers)
        n_values = int(offsets.view(np.int64)[-1])
        return _Column(kind, rows, [None, offsets], _read_column(pl.String(), n_values, buffers))
    if not isinstance(kind, pl.String):
        return _Column(kind, rows, [None, next(buffers)])
    is_there, views, text = next(buffers), next(buffers), next(buffers)
    texts = [text[start : start + LONGEST] for start in range(0, len(text), STEP)]
    lengths = np.array([len(part) for part in texts], dtype=np.int64)
    return _Column(kind, rows, [is_there if len(is_there) else None, views, *texts, lengths])


def _list_buffers(column: pl.Series) -> list[np.ndarray]:
    """List the buffers of a column to be saved. They depend on its values only, not on how it lies in memory."""
    capsule = column.rechunk().__arrow_c_stream__()
    find = ctypes.pythonapi.PyCapsule_GetPointer
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = find(capsule, b"arrow_array_stream")
    array = _ArrowArray()
    code = _GetNext(_ArrowStream.from_address(address).get_next)(address, ctypes.addressof(array))
    assert code == 0, f"polars does not export the column {column.name}: code {code}"
    try:
        return _copy_buffers(column.dtype, array, 0, array.length)
    finally:
        if array.release:
            _Release(array.release)(ctypes.addressof(array))


def _copy_buffers(kind: pl.DataType, array: Any, start: int, end: int) -> list[np.ndarray]:
    """Copy the rows from `start` to `end` of an exported column."""
    first, last = array.offset + start, array.offset + end
    # A column without rows need not have buffers.
    bits, values = _at(array.buffers, np.int64, 0, 2).tolist() if array.buffers else (0, 0)
    if isinstance(kind, pl.Boolean):
        return [np.packbits(_bits(values, first, last), bitorder="little")]
    if isinstance(kind, pl.UInt32):
        return [_at(values, np.uint32, first, last).copy()]
    if isinstance(kind, pl.List):
        offsets, child = np.zeros(1, dtype=np.int64), _ArrowArray()
        if last > first:
            offsets = _at(values, np.int64, first, last + 1)
            child = _ArrowArray.from_address(int(_at(array.children, np.int64, 0, 1)[0]))
        return [offsets - offsets[0], *_copy_buffers(pl.String(), child, int(offsets[0]), int(offsets[-1]))]
    views = _at(values, np.uint32, 4 * first, 4 * last).reshape(-1, 4).copy()
    is_there = np.ones(last - first, dtype=bool) if not bits else _bits(bits, first, last)
    # What stands at a missing value is left to chance.
    views[~is_there] = 0
    text = _copy_texts(views, array)
    return [np.packbits(is_there[: 0 if is_there.all() else None], bitorder="little"), views, text]


def _copy_texts(views: np.ndarray, array: Any) -> np.ndarray:
    """Copy the texts that are too long for their views into one piece, in order, and let the views point to it."""
    rows = np.flatnonzero(views[:, 0] > INLINE)
    lengths = views[rows, 0].astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    text = np.empty(int(lengths.sum()), dtype=np.uint8)
    sources, places = views[rows, 2], views[rows, 3].astype(np.int64)
    order = np.argsort(sources, kind="stable")
    addresses = _at(array.buffers, np.int64, 2, array.n_buffers) if len(rows) else np.zeros(0, dtype=np.int64)
    for source in np.unique(sources).tolist():
        left, right = np.searchsorted(sources, [source, source + 1], sorter=order).tolist()
        # The last buffer has the sizes of those before.
        size = int(_at(int(addresses[-1]), np.int64, source, source + 1)[0])
        data = _at(int(addresses[source]), np.uint8, 0, size)
        for piece in np.split(order[left:right], range(PIECE, right - left, PIECE)):
            n, to, of = lengths[piece], starts[piece], places[piece]
            steps = np.cumsum(n) - n
            if np.array_equal(to - to[0], steps) and np.array_equal(of - of[0], steps):
                text[to[0] : to[0] + n.sum()] = data[of[0] : of[0] + n.sum()]
                continue
            steps = np.arange(n.sum()) - np.repeat(steps, n)
            text[np.repeat(to, n) + steps] = data[np.repeat(of, n) + steps]
    views[rows, 2], views[rows, 3] = starts // STEP, starts % STEP
    return text


def _at(address: int, kind: type[np.generic], start: int, end: int) -> np.ndarray:
    """Look at the values from `start` to `end` at an address, as long as they are there."""
    if end <= start:
        return np.zeros(0, dtype=kind)
    size = np.dtype(kind).itemsize
    memory = (ctypes.c_char * ((end - start) * size)).from_address(address + start * size)
    values: np.ndarray = np.frombuffer(memoryview(memory), dtype=kind)
    return values


def _bits(address: int, start: int, end: int) -> np.ndarray:
    values = np.unpackbits(_at(address, np.uint8, start // 8, -(-end // 8)), bitorder="little").astype(bool)
    return values[start % 8 :][: end - start]


def make_lists(values: pl.Series, lengths: np.ndarray) -> pl.Series:
    """Make a column of lists: the first `lengths[0]` values, and so on."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return _make_column(values.name, pl.List(pl.String()), len(lengths), iter([offsets, *_list_buffers(values)]))
