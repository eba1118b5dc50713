"""Files of saved pipelines: manifests with hashes, packed folders, and folders written all or nothing."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, BinaryIO, TypeVar, cast
from uuid import uuid4

import numpy as np
import srsly

from .errors import Errors
from .replacing import delete_folder, finish_replacing, lock_folder, make_saving_folder, replace_parts

_CHUNK = 1 << 20
T = TypeVar("T")


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces.

    path (Path): The file.
    RETURNS (str): The digest, hexadecimal.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file_:
        while chunk := file_.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def list_files(folder: Path) -> list[str]:
    """List the files below a folder.

    folder (Path): The folder.
    RETURNS (list[str]): Relative POSIX paths, sorted.
    """
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def write_manifest(
    path: Path,
    version: int,
    data: dict[str, Any],
    *,
    below: bool = True,
    hashes: Mapping[str, str] | None = None,
) -> None:
    """Write a manifest: data, the hashes of the files beside it, and a checksum of both.

    path (Path): The manifest, in a folder whose other files are complete.
    version (int): Format version of the folder.
    data (dict[str, Any]): JSON data.
    below (bool): List the files in folders below as well. False for folders that have manifests of their own, so that
        nothing large is hashed twice.
    hashes (Mapping[str, str] | None): The SHA-256 of files that were hashed while they were written.
    """
    known = hashes or {}
    names = [name for name in list_files(path.parent) if name != path.name and (below or "/" not in name)]
    files = {name: known.get(name) or hash_file(path.parent / name) for name in names}
    manifest = {**data, "format": version, "files": files}
    # Not srsly's JSON, which reads some floats back as their neighbours and so fails the checksum.
    text = json.dumps({**manifest, "checksum": _checksum(manifest)}, indent=2, ensure_ascii=False)
    path.write_text(text, encoding="utf8")


def read_manifest(path: Path, version: int, *, used: Iterable[str] = (), check_files: bool = True) -> dict[str, Any]:
    """Read a manifest and check the files that it lists. A killed save of the folder is finished before.

    path (Path): The manifest.
    version (int): Format version that the caller understands.
    used (Iterable[str]): The files that the caller reads, which the manifest has to list: names, and patterns ("*.npy")
        for those that need not be there.
    check_files (bool): False checks the manifest only.
    RETURNS (dict[str, Any]): The data.
    RAISES (OSError): If the manifest or a file is missing, damaged or of another version, or if the manifest lists
        paths outside of its folder, or not all files that the caller reads.
    """
    finish_replacing(path.parent)
    if not path.is_file():
        raise FileNotFoundError(Errors.E503.format(path=path))
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        found, checksum = manifest["format"], manifest.pop("checksum")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OSError(Errors.E501.format(path=path, reason=repr(error))) from error
    # The version first, because other versions may compute the checksum differently.
    if found != version:
        raise OSError(Errors.E502.format(path=path, found=found, expected=version))
    if checksum != _checksum(manifest):
        raise OSError(Errors.E504.format(path=path))
    names = _check_names(path, manifest)
    if check_files:
        _check_used(path, names, used)
        _check_files(path.parent, manifest["files"])
    return manifest


def _check_names(path: Path, manifest: dict[str, Any]) -> set[str]:
    """Return the names of the listed files. All have to lie in the folder of the manifest."""
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise OSError(Errors.E501.format(path=path, reason="it has no list of files"))
    for name in files:
        # A Windows path knows both kinds of slashes, and drives, whatever the system.
        parts = PureWindowsPath(name)
        if not name or "\0" in name or parts.anchor or ".." in parts.parts:
            raise OSError(Errors.E501.format(path=path, reason=f"it lists {name!r}, which is no path in its folder"))
    return set(files)


def _check_used(path: Path, listed: set[str], used: Iterable[str]) -> None:
    for pattern in used:
        files = (file.relative_to(path.parent).as_posix() for file in path.parent.glob(pattern))
        found = set(files) if "*" in pattern else {pattern}
        for name in sorted(found - listed - {path.name}):
            raise OSError(Errors.E501.format(path=path, reason=f"it does not list {name!r}, which would be read"))


def _check_files(folder: Path, hashes: dict[str, str]) -> None:
    paths = [folder / name for name in hashes]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(Errors.E503.format(path=path))
    # Hashing releases the interpreter's lock. Files of a linker over millions of names have gigabytes.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for path, found, expected in zip(paths, pool.map(hash_file, paths), hashes.values(), strict=True):
            if found != expected:
                raise OSError(Errors.E504.format(path=path))


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def save_array(file: BinaryIO, array: np.ndarray) -> None:
    """Save an array in NumPy's format, or raise.

    Given a file of the system, `np.save` writes with C's buffers, and does not notice that the last few kilobytes of an
    array cannot be written because the disk is full.

    file (BinaryIO): The file, open for writing.
    array (ndarray): The array.
    RAISES (OSError): If it cannot be written.
    """
    np.save(cast(Any, SimpleNamespace(write=file.write)), array)


def pack_folder(folder: Path) -> bytes:
    """Pack the files below a folder into bytes.

    folder (Path): The folder.
    RETURNS (bytes): A msgpack map from relative path to content.
    """
    packed: bytes = srsly.msgpack_dumps({name: (folder / name).read_bytes() for name in list_files(folder)})
    return packed


def unpack_folder(data: bytes, folder: Path) -> None:
    """Unpack the files that `pack_folder` packed.

    data (bytes): The bytes that `pack_folder` returned.
    folder (Path): The folder to write to.
    RAISES (ValueError): If the bytes are damaged, or hold a path that leads out of the folder.
    """
    try:
        # Not srsly.msgpack_loads, which leaves the garbage collector switched off when the bytes are damaged.
        files = srsly.msgpack.loads(data, raw=False)
    except Exception as error:  # damaged bytes make msgpack raise nearly anything
        raise ValueError(Errors.E505.format(reason=error)) from error
    if not isinstance(files, dict):
        raise ValueError(Errors.E505.format(reason=f"they hold a {type(files).__name__}, not files"))
    root = folder.resolve()
    for name, content in files.items():
        if not isinstance(name, str) or "\0" in name or not isinstance(content, bytes):
            raise ValueError(Errors.E505.format(reason=f"they hold something under {name!r} that is not a file"))
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise ValueError(Errors.E505.format(reason=f"they hold the path {name!r}"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def pack_with(write: Callable[[Path], Any]) -> bytes:
    """Pack the folder that a function writes.

    write (Callable[[Path], Any]): Writes files to a folder.
    RETURNS (bytes): The packed folder.
    """
    with TemporaryDirectory() as folder:
        write(Path(folder))
        return pack_folder(Path(folder))


def unpack_with(read: Callable[[Path], T], data: bytes) -> T:
    """Unpack a folder for a function that reads it.

    read (Callable[[Path], T]): Reads the folder, which is deleted afterwards.
    data (bytes): What `pack_with` returned.
    RETURNS (T): What the function returns.
    RAISES (ValueError): If the bytes are damaged.
    """
    with TemporaryDirectory() as folder:
        unpack_folder(data, Path(folder))
        return read(Path(folder))


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """Write a file atomically.

    path (Path): The file.
    YIELDS (Path): The temporary file. On success, it is moved into place; after an error, it is removed.
    """
    # Another run may write there at the same time.
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def fill_folder(path: Path, *, last: str = "", remove: Iterable[str] = ()) -> Iterator[Path]:
    """Provide a temporary folder, and move its content to the final folder when the block ends without an error.

    If anything fails, the final folder stays as it was. If the process is killed, the next one that reads a manifest
    there or fills the folder again finishes the move, or drops what is incomplete. Others that fill the same folder
    wait. Other files in the final folder stay, because they may be the user's own. Saving over a folder that is
    memory-mapped is safe: the old files live on until the last map is closed.

    path (Path): The final folder.
    last (str): The file to move last: a manifest, whose hashes then reveal a crash during the move.
    remove (Iterable[str]): Files and folders to remove from the final folder, unless they are replaced.
    RAISES (FileExistsError): If the path is that of a file.
    RAISES (NotADirectoryError): If the path leads through a file.
    YIELDS (Path): The temporary folder, inside of the final folder.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        reason = "where a file is in the way"
        raise type(error)(Errors.E442.format(what="The folder to write to", path=str(path), reason=reason)) from error
    with lock_folder(path):
        temporary = make_saving_folder(path)
        try:
            yield temporary
            replace_parts(path, temporary, last=last, remove=remove)
        finally:
            delete_folder(temporary)
