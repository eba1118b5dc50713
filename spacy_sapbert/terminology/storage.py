"""Save tables as files that are mapped into memory on load and checked before use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from ..columns import CodedColumn, Column, ListColumn, NumberColumn, TextColumn, choose_codes, choose_places
from ..errors import OTHER_VERSION
from ..files import fill_folder, read_manifest, write_manifest
from .rows import Table, make_table
from .schemas import CHILDREN, FEW_LISTS, FEW_TEXTS, FLAG, LISTS, NUMBER, OPTIONAL_TEXT, Schema

FORMAT_VERSION = 1
MANIFEST = "terminology.json"
HEADER = b"Buffers of a table; the manifest has their sizes."
# Places of buffers in a file are multiples of it, so that numbers are where a processor wants them.
ALIGNMENT = 64
# Bytes of a column that are checked at a time.
CHECKED = 1 << 20


def hash_tables(tables: Mapping[str, Table]) -> str:
    """Hash tables as saved."""
    return _combine(_write_table(table, None)[0] for table in tables.values())


def save_folder(
    folder: Path, tables: Mapping[str, Table], report: dict[str, Any], optional: Collection[str] = ()
) -> str:
    """Write tables by file and their manifest into a folder, where other files stay, but for those of optional tables
    that there were before. Return the fingerprint."""
    digests, sizes = {}, {}
    with fill_folder(folder, last=MANIFEST, remove=set(optional).difference(tables)) as temporary:
        for name, table in tables.items():
            with (temporary / name).open("wb") as file:
                digests[name], sizes[name] = _write_table(table, file)
        counts = {Path(name).stem: table.height for name, table in tables.items()}
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
    folder: Path, schemas: Mapping[str, Schema], optional: Collection[str] = (), *, memory_map: bool = True
) -> tuple[dict[str, Table], TerminologyManifest]:
    """Load the tables of a folder, and the manifest. Hashes are checked, and all that columns rely on: a folder from
    elsewhere may have been made to let them answer with parts of other texts. Optional tables that the manifest does
    not list are empty."""
    used = [name for name in schemas if name not in optional]
    manifest = read_manifest(folder / MANIFEST, FORMAT_VERSION, TerminologyManifest, parts=schemas, used=used)
    tables = {}
    for name, schema in schemas.items():
        if name in optional and name not in manifest["files"]:
            tables[name] = make_table(schema)
            continue
        path = folder / name
        try:
            sizes = manifest["sizes"][name]
            rows = manifest["counts"][path.stem]
            with path.open("rb") as file:
                buffers = _Buffers(file, sizes, memory_map=memory_map)
                tables[name] = Table({column: _read_column(kind, rows, buffers) for column, kind in schema.items()})
                buffers.check()
        except KeyError as error:
            raise OSError(OTHER_VERSION.format(path=folder / MANIFEST, reason=f"it says nothing of {error}")) from error
        except ValueError as error:
            raise OSError(OTHER_VERSION.format(path=path, reason=error)) from error
    return tables, manifest


class _Buffers:
    """The buffers of a file, one behind another, which are taken in their order."""

    def __init__(self, file: BinaryIO, sizes: Sequence[int], *, memory_map: bool) -> None:
        # Windows has no `pread`.
        self._file = file.fileno() if memory_map and hasattr(os, "pread") else None
        self._data = np.memmap(file, mode="r") if memory_map else np.fromfile(file, dtype=np.uint8)
        self._sizes = iter(sizes)
        self._start = _align(len(HEADER))
        # The bytes and the places of each column of texts.
        self.texts: list[tuple[_Buffer, _Buffer]] = []

    def take(self, dtype: Any, rows: int | None, *, more: int = 0) -> np.ndarray:
        """Take a buffer of a value for each row, and some more; of any number of rows if that is None."""
        values = self.take_any(dtype).values
        if rows is not None and len(values) != rows + more:
            raise ValueError(f"a column has {len(values):,} values where {rows + more:,} are needed")
        return values

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


def _write_table(table: Table, file: BinaryIO | None) -> tuple[str, list[int]]:
    """Write a table to a file, if one is given, and return the SHA-256 of its bytes and the sizes of the buffers."""
    digest = hashlib.sha256()
    sizes = []
    columns = chain.from_iterable(table[name].buffers() for name in table.columns)
    for buffer in chain([np.frombuffer(HEADER, dtype=np.uint8)], columns):
        sizes.append(buffer.nbytes)
        data = np.ascontiguousarray(buffer).view(np.uint8).data
        padding = bytes(-buffer.nbytes % ALIGNMENT)
        for part in (data, padding):
            digest.update(part)
            if file is not None:
                file.write(part)
    return digest.hexdigest(), sizes[1:]


def _read_column(kind: str, rows: int | None, buffers: _Buffers) -> Column:
    """Take the next buffers for a column; of any number of rows if that is None. They stay where they are. The bytes of
    texts are checked later."""
    if kind == NUMBER:
        return NumberColumn(buffers.take(np.uint32, rows))
    if kind == FLAG:
        return NumberColumn(_as_flags(buffers.take(np.uint8, rows)))
    if kind in (LISTS, FEW_LISTS):
        child = _read_column(CHILDREN[kind], None, buffers)
        offsets = buffers.take(choose_places(len(child)), rows, more=1)
        _check_places(offsets, len(child))
        return ListColumn(offsets, cast(Any, child))
    if kind != FEW_TEXTS:
        return _read_texts(rows, buffers, is_optional=kind == OPTIONAL_TEXT)
    values = _read_texts(None, buffers)
    codes = buffers.take(choose_codes(len(values)), rows)
    if codes.max(initial=0) >= max(len(values), 1) or (len(codes) and not len(values)):
        raise ValueError(f"a number of a text is {codes.max():,}, but there are {len(values):,}")
    if not values.ascends():
        raise ValueError("the distinct texts of a column do not ascend")
    return CodedColumn(codes, values)


def _as_flags(values: np.ndarray) -> np.ndarray:
    if (values > 1).any():
        raise ValueError("a condition is neither 0 nor 1")
    return values.view(np.bool_)


def _check_places(offsets: np.ndarray, size: int) -> None:
    if not len(offsets) or offsets[0] or offsets[-1] != size or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"the places of its values do not ascend from 0 to {size:,}")


def _read_texts(rows: int | None, buffers: _Buffers, *, is_optional: bool = False) -> TextColumn:
    data = buffers.take_any(np.uint8)
    offsets = buffers.take_any(choose_places(len(data.values)))
    _check_places(offsets.values, len(data.values))
    buffers.texts.append((data, offsets))
    n_texts = len(offsets.values) - 1
    if rows not in (None, n_texts):
        raise ValueError(f"a column has {n_texts:,} values where {rows:,} are needed")
    is_there = _as_flags(buffers.take_any(np.uint8).values)
    if len(is_there) not in (0, n_texts * is_optional):
        raise ValueError(f"{len(is_there):,} conditions can't say which of {n_texts:,} texts are there")
    if not len(is_there):
        return TextColumn(data.values, offsets.values)
    if np.diff(offsets.values)[~is_there].any():
        raise ValueError("a missing text has bytes")
    return TextColumn(data.values, offsets.values, is_there)


def _check_texts(data: _Buffer, offsets: _Buffer) -> None:
    """Refuse texts that are not UTF-8."""
    rows = len(offsets.values) - 1
    step = CHECKED // (offsets.values.itemsize + len(data.values) // max(rows, 1)) + 1
    for start in range(0, rows, step):
        places = offsets.read(start, min(start + step, rows) + 1).astype(np.int64)
        texts = data.read(int(places[0]), int(places[-1]))
        str(texts.tobytes(), "utf8")
        begins = places[:-1][np.diff(places) > 0] - places[0]
        if (texts[begins] & 0xC0 == 0x80).any():
            raise ValueError("a text begins inside of a character")
