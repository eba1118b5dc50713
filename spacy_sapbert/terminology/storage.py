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
    """Hash a table as saved.

    frame (pl.DataFrame): The table.
    RETURNS (str): The SHA-256 of the file that `save_folder` writes, hexadecimal.
    """
    return _write_table(frame, None)


def save_folder(folder: Path, tables: Tables, describe: Callable[[dict[str, str]], dict[str, Any]]) -> None:
    """Write tables and their manifest into a folder. Other files in it stay.

    folder (Path): The folder, created if missing.
    tables (Tables): The tables by file name.
    describe (Callable[[dict[str, str]], dict[str, Any]]): Returns further entries of the manifest, as plain JSON data,
        from the digest of each table.
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
    """Load the tables of a folder after checking their hashes.

    folder (Path): A folder written by `save_folder`.
    names (tuple[str, ...]): The file names of its tables.
    memory_map (bool): Whether to map the files into memory instead of reading them.
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
        # Unlike pl.read_ipc, this does not copy the mapped table.
        frame = pl.from_arrow(pa.ipc.open_file(buffer).read_all())
        assert isinstance(frame, pl.DataFrame)
        tables[name] = frame
    return tables, manifest


def _write_table(frame: pl.DataFrame, file: BinaryIO | None) -> str:
    """Write a table to a file, if one is given, and return the SHA-256 of its bytes."""
    table = _canonical(frame)
    sink = _HashingSink(file)
    with pa.ipc.new_file(pa.PythonFile(sink, mode="w"), table.schema) as writer:
        # One record batch, so that a loaded column is one piece of memory.
        writer.write_table(table, max_chunksize=max(1, table.num_rows))
    return sink.hash.hexdigest()


def _canonical(frame: pl.DataFrame) -> pa.Table:
    """Lay out a table so that its bytes depend only on its content, and polars can map it without copying.

    The string views of polars point into the buffers that the strings were read into. Converting them to plain offsets
    and back gives the same bytes for the same strings.
    """
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
    for column, values in enumerate(table.columns):
        if values.null_count or not pa.types.is_large_string(values.type):
            # Bitmaps may end in padding bits of any value, and the lists of a filtered table keep the values of removed
            # rows. Taking every value makes new buffers without either.
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
    """A writable file that hashes data and passes them on to another file, if one is given."""

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
        """Do nothing. The caller flushes the file."""
