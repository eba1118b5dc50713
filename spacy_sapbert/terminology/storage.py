"""Save tables as uncompressed Arrow files that are memory-mapped on load and checked before use."""

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
import pyarrow as pa
import srsly

from ..errors import Errors

FORMAT = "spacy-sapbert.Terminology"
FORMAT_VERSION = 1
MANIFEST = "terminology.json"

Tables = Mapping[str, pl.DataFrame]


def table_digest(frame: pl.DataFrame) -> str:
    """Hash the bytes that a table is saved as.

    frame (pl.DataFrame): The table.
    RETURNS (str): The sha256 as hexadecimal digits.
    """
    return _write_table(frame, None)


def save_folder(folder: Path, tables: Tables, content: dict[str, Any]) -> None:
    """Write tables and their manifest into a folder, leaving other files in it alone.

    folder (Path): The folder, made if missing.
    tables (Tables): The tables by file name.
    content (dict[str, Any]): What to save beside them in the manifest, as plain JSON data.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Files are replaced rather than written over: the tables may be memory-mapped from this very folder, and
    # the mapping keeps the old file alive. The manifest goes last: a break in between fails its check.
    temporary = Path(tempfile.mkdtemp(prefix=".saving-", dir=folder))
    try:
        digests = {}
        for name, frame in tables.items():
            with (temporary / name).open("wb") as file:
                digests[name] = _write_table(frame, file)
        (temporary / MANIFEST).write_bytes(_dump(_make_manifest(digests, content)))
        for name in (*tables, MANIFEST):
            os.replace(temporary / name, folder / name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_folder(folder: Path, names: tuple[str, ...]) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    """Map the tables of a folder into memory, after checking that they are whole.

    folder (Path): A folder written by `save_folder`.
    names (tuple[str, ...]): The file names of its tables.
    RETURNS (tuple[dict[str, pl.DataFrame], dict[str, Any]]): The tables by file name, and the manifest.
    RAISES (ValueError): If a file is missing, damaged or of another format version.
    """

    def map_file(name: str) -> pa.Buffer:
        try:
            return pa.memory_map(str(folder / name)).read_buffer()
        except FileNotFoundError:
            raise ValueError(Errors.E107.format(file=folder / name, reason="the file is missing")) from None
        except (OSError, pa.ArrowException) as error:
            raise ValueError(Errors.E107.format(file=folder / name, reason=error)) from error

    return _load(map_file, names, f"{folder}{os.sep}")


def pack(tables: Tables, content: dict[str, Any]) -> bytes:
    """Put the files that `save_folder` would write into one byte string.

    tables (Tables): The tables by file name.
    content (dict[str, Any]): What to save beside them in the manifest, as plain JSON data.
    RETURNS (bytes): A msgpack dict of the files.
    """
    digests, files = {}, {}
    for name, frame in tables.items():
        sink = io.BytesIO()
        digests[name] = _write_table(frame, sink)
        files[name] = sink.getvalue()
    return srsly.msgpack_dumps({**files, MANIFEST: _dump(_make_manifest(digests, content))})


def unpack(data: bytes, names: tuple[str, ...]) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    """Read back what `pack` made, after checking that it is whole.

    data (bytes): The bytes.
    names (tuple[str, ...]): The names of the tables in them.
    RETURNS (tuple[dict[str, pl.DataFrame], dict[str, Any]]): The tables by file name, and the manifest.
    RAISES (ValueError): If the bytes are damaged or of another format version.
    """
    try:
        # Not srsly.msgpack_loads, which leaves the garbage collector off when the bytes are damaged.
        files = srsly.msgpack.loads(data, raw=False)
    except Exception as error:  # damaged bytes make msgpack raise nearly anything
        raise ValueError(Errors.E107.format(file="bytes", reason=f"not msgpack ({error!r})")) from error

    def find_file(name: str) -> pa.Buffer:
        content = files.get(name) if isinstance(files, dict) else None
        if not isinstance(content, bytes):
            raise ValueError(Errors.E107.format(file=f"bytes: {name}", reason="the file is missing"))
        return pa.py_buffer(content)

    return _load(find_file, names, "bytes: ")


def _make_manifest(digests: dict[str, str], content: dict[str, Any]) -> dict[str, Any]:
    manifest = {"format": FORMAT, "format_version": FORMAT_VERSION, "files": digests, **content}
    return {**manifest, "checksum": _checksum(manifest)}


def _load(
    get_file: Callable[[str], pa.Buffer], names: tuple[str, ...], place: str
) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    manifest = _parse_manifest(get_file(MANIFEST).to_pybytes(), place + MANIFEST)
    tables = {}
    for name in names:
        buffer = get_file(name)
        if hashlib.sha256(buffer).hexdigest() != manifest["files"].get(name):
            reason = f"its sha256 is not the one saved in {MANIFEST}"
            raise ValueError(Errors.E107.format(file=place + name, reason=reason))
        # Not pl.read_ipc: it copies the table into memory, while this keeps it in the mapped file.
        frame = pl.from_arrow(pa.ipc.open_file(buffer).read_all())
        assert isinstance(frame, pl.DataFrame)
        tables[name] = frame
    return tables, manifest


def _parse_manifest(data: bytes, file: str) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
        found = manifest["format_version"]
        checksum = manifest.pop("checksum")
        if manifest["format"] != FORMAT:
            raise ValueError(f"its format is {manifest['format']!r}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"it is not the description of a saved terminology ({error!r})"
        raise ValueError(Errors.E107.format(file=file, reason=reason)) from error
    # The version is looked at before the checksum: another version may compute it in another way.
    if found != FORMAT_VERSION:
        raise ValueError(Errors.E108.format(file=file, found=found, expected=FORMAT_VERSION))
    if checksum != _checksum(manifest):
        raise ValueError(Errors.E107.format(file=file, reason="its checksum does not fit its content"))
    return manifest


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
    schema = pa.schema([(field.name, _view_type(field.type)) for field in table.schema])
    return table.cast(schema)


def _view_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string_view()
    if pa.types.is_large_list(kind):
        return pa.large_list(pa.field("item", _view_type(kind.value_type)))
    return kind


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(_dump(manifest)).hexdigest()


def _dump(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True, indent=2).encode("ascii")


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
