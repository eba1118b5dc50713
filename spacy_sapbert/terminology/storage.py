"""Save tables as uncompressed Arrow files that are memory-mapped on load and checked before use."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
import pyarrow as pa

from ..errors import Errors
from ..files import fill_folder, read_manifest, write_manifest

FORMAT_VERSION = 1
MANIFEST = "terminology.json"

Tables = Mapping[str, pl.DataFrame]


def table_digest(frame: pl.DataFrame) -> str:
    """Hash the bytes that a table is saved as.

    frame (pl.DataFrame): The table.
    RETURNS (str): The sha256 as hexadecimal digits.
    """
    return _write_table(frame, None)


def save_folder(folder: Path, tables: Tables, describe: Callable[[dict[str, str]], dict[str, Any]]) -> None:
    """Write tables and their manifest into a folder, leaving other files in it alone.

    folder (Path): The folder, made if missing.
    tables (Tables): The tables by file name.
    describe (Callable[[dict[str, str]], dict[str, Any]]): From the digest of each table, gives what to save beside them
        in the manifest, as plain JSON data.
    """
    digests = {}
    with fill_folder(folder, last=MANIFEST) as temporary:
        for name, frame in tables.items():
            with (temporary / name).open("wb") as file:
                digests[name] = _write_table(frame, file)
        write_manifest(temporary / MANIFEST, FORMAT_VERSION, describe(digests), hashes=digests)


def load_folder(
    folder: Path, names: tuple[str, ...], *, memory_map: bool = True
) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    """Load the tables of a folder, after checking that they are whole.

    folder (Path): A folder written by `save_folder`.
    names (tuple[str, ...]): The file names of its tables.
    memory_map (bool): Leave the tables on disk until they are needed.
    RETURNS (tuple[dict[str, pl.DataFrame], dict[str, Any]]): The tables by file name, and the manifest.
    RAISES (OSError): If a file is missing, damaged or of another format version.
    """
    manifest = read_manifest(folder / MANIFEST, FORMAT_VERSION)
    tables = {}
    for name in names:
        if name not in manifest["files"]:
            raise FileNotFoundError(Errors.E503.format(path=folder / name))
        path = folder / name
        buffer = pa.memory_map(str(path)).read_buffer() if memory_map else pa.py_buffer(path.read_bytes())
        # Not pl.read_ipc: it copies the table into memory, while this keeps it in the mapped file.
        frame = pl.from_arrow(pa.ipc.open_file(buffer).read_all())
        assert isinstance(frame, pl.DataFrame)
        tables[name] = frame
    return tables, manifest


def _write_table(frame: pl.DataFrame, file: BinaryIO | None) -> str:
    """Write a table to a file, if there is one, and return the sha256 of its bytes."""
    table = _canonical(frame)
    sink = _HashingSink(file)
    with pa.ipc.new_file(pa.PythonFile(sink, mode="w"), table.schema) as writer:
        # One record batch, so that a loaded column is one piece of memory.
        writer.write_table(table, max_chunksize=max(1, table.num_rows))
    return sink.hash.hexdigest()


def _canonical(frame: pl.DataFrame) -> pa.Table:
    """Lay a table out in the one way that depends on its content only and that polars maps without copying.

    Polars' own string views point into whatever buffers the strings happened to come from. Going through
    plain offsets and back gives the same bytes for the same strings.
    """
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
    for column, values in enumerate(table.columns):
        if values.null_count or not pa.types.is_large_string(values.type):
            # Bits of truth values or of the mask of missing ones may be followed by some that mean nothing, and the
            # lists of a filtered table keep what the others held. Taking every value makes them anew.
            taken = values.take(pa.array(np.arange(len(values))))
            table = table.set_column(column, table.schema.field(column), taken)
    schema = pa.schema([(field.name, _view_type(field.type)) for field in table.schema])
    return table.cast(schema)


def _view_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string_view()
    if pa.types.is_large_list(kind):
        return pa.large_list(pa.field("item", _view_type(kind.value_type)))
    return kind


class _HashingSink:
    """A writable file that hashes what it passes on to another one, if any."""

    closed = False

    def __init__(self, file: BinaryIO | None) -> None:
        self.hash = hashlib.sha256()
        self.file = file

    def write(self, data: Any) -> int:
        """Hash data and pass them on."""
        self.hash.update(data)
        if self.file is not None:
            self.file.write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: whoever opened the file flushes it."""
