"""The tables of a terminology as polars' data frames, for what reads releases and for other programs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from ..columns import CodedColumn, Column, ListColumn, NumberColumn, TextColumn
from ..ragged import make_offsets
from .schemas import (
    CONCEPTS,
    FEW_LISTS,
    FEW_TEXTS,
    FLAG,
    LISTS,
    NAMES,
    NUMBER,
    RELATIONS,
    RETIRED,
    Schema,
)

_TEXT = pl.String()
_TEXTS = pl.List(pl.String())
_TYPES = {NUMBER: pl.UInt32(), FLAG: pl.Boolean(), LISTS: _TEXTS, FEW_LISTS: _TEXTS}
# Rows of a column whose texts are joined at a time.
PIECE = 1 << 16
# Arrow's names of types, its names of columns (none), and its flag of columns with missing values.
FORMATS = {name: ctypes.create_string_buffer(name) for name in (b"U", b"+L")}
NAME = ctypes.create_string_buffer(b"")
NULLABLE = 2
# Where the structure of an array has the function to call when it is no longer read, and then what is ours.
RELEASE = 8


def make_schema(schema: Schema) -> pl.Schema:
    """Make the schema of a data frame."""
    return pl.Schema({name: _TYPES.get(kind, _TEXT) for name, kind in schema.items()})


CONCEPT_SCHEMA, NAME_SCHEMA = make_schema(CONCEPTS), make_schema(NAMES)
RETIRED_SCHEMA, RELATION_SCHEMA = make_schema(RETIRED), make_schema(RELATIONS)


def make_series(column: Column) -> pl.Series:
    """Make a series of a column."""
    if isinstance(column, NumberColumn):
        return pl.Series(column.to_numpy())
    if isinstance(column, CodedColumn):
        return make_series(column.values).gather(column.codes)
    if isinstance(column, ListColumn):
        lengths = np.diff(column.offsets)
        first, last = column.offsets[[0, -1]].tolist()
        return make_lists(make_series(column.child[first:last]), lengths)
    assert isinstance(column, TextColumn)
    return pl.Series(_list_texts(column))


def convert_series(values: pl.Series, kind: str) -> Column:
    """Make a column of a series."""
    if kind in (NUMBER, FLAG):
        return NumberColumn(values.to_numpy())
    if kind == FEW_TEXTS:
        return _make_coded(values)
    if kind not in (LISTS, FEW_LISTS):
        return _make_texts(values)
    lengths = values.list.len()
    # `explode` would make a missing value of an empty list.
    child = values.filter(lengths > 0).explode()
    offsets = make_offsets(lengths.to_numpy())
    return ListColumn(offsets, _make_coded(child) if kind == FEW_LISTS else _make_texts(child))


def _make_texts(values: pl.Series) -> TextColumn:
    data = [np.empty(0, dtype=np.uint8)]
    for start in range(0, len(values), PIECE):
        joined = values.slice(start, PIECE).drop_nulls().str.join("").cast(pl.Binary())[0]
        data.append(np.frombuffer(joined, dtype=np.uint8))
    offsets = make_offsets(values.str.len_bytes().fill_null(0).to_numpy())
    is_there = values.is_not_null().to_numpy()
    return TextColumn(np.concatenate(data), offsets, None if is_there.all() else is_there)


def _make_coded(values: pl.Series) -> CodedColumn:
    distinct = pl.DataFrame({"text": values.unique().sort()}).with_row_index("code")
    rows = pl.DataFrame({"text": values}).join(distinct, on="text", how="left", maintain_order="left")
    dtype = np.min_scalar_type(max(distinct.height - 1, 0))
    return CodedColumn(rows["code"].to_numpy().astype(dtype), _make_texts(distinct["text"]))


def make_lists(values: pl.Series, lengths: np.ndarray) -> pl.Series:
    """Make a column of lists: the first `lengths[0]` values, and so on."""
    child = _list_texts(_make_texts(values))
    offsets = make_offsets(lengths)
    return pl.Series(_ArrowColumn(b"+L", len(lengths), [None, offsets], child)).alias(values.name)


def _list_texts(column: TextColumn) -> _ArrowColumn:
    data, offsets, is_there = column.buffers()
    bits = np.packbits(is_there, bitorder="little") if len(is_there) else None
    return _ArrowColumn(b"U", len(column), [bits, offsets.astype(np.int64), data])


class _ArrowColumn:
    """A column that polars can take: `pl.Series(column)`. It is described as Arrow's C data interface asks for: by two
    structures of numbers and addresses."""

    # What polars reads must stay until it calls `_release`.
    read: dict[int, _ArrowColumn] = {}

    def __init__(
        self, kind: bytes, rows: int, buffers: list[np.ndarray | None], child: _ArrowColumn | None = None
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
