"""Files of saved pipelines: manifests with hashes, packed folders, and folders and files written all or nothing.

A save writes its parts to `.saving-ID` inside the folder. Renaming that to `.saved` decides the save: until then,
the old parts count, and afterwards whoever reads the folder next can finish. The old parts are moved to `.replaced-ID`,
the new ones into the folder, and `.saved` is renamed back. The old parts are deleted last.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast
from uuid import uuid4

import srsly
import xxhash
from pydantic import TypeAdapter, ValidationError

from .errors import DAMAGED, IS_FOLDER, MISSING, NO_FILE, NOT_BYTES, OTHER_VERSION, USE_OTHER_VERSION

CHANGED = (
    "'{path}' is not the file that was saved: it is truncated, damaged or from another run. What is made with it "
    "could be wrong, so it is not loaded. Write it again (save the pipeline, or run the command that made it), or"
    " reinstall its package."
)
FOREIGN = (
    "'{path}' is where an interrupted save leaves its files, but {found}, which no save of this folder leaves. Going "
    "on could move or delete your own files, so nothing is read or written. Take the folder from a source that you "
    "trust, or delete '{path}' if you know that the rest is whole."
)

SAVED = ".saved"
LOCK = ".saving.lock"
# Inside of `.saved`: the names of the parts that the save removes.
REMOVED = ".removed.json"
# Strict, because matching folders are deleted.
_LEFTOVER = re.compile(r"\.(saving|replaced)-[0-9a-f]{32}")
# Names of such folders and of what is in them, however a system writes them.
_RECOVERY = re.compile(r"\.(sav|replaced|removed)", re.IGNORECASE)
CHUNK = 1 << 20
T = TypeVar("T")


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal: what a file is known by elsewhere."""
    return _hash(path, hashlib.sha256())


def checksum_file(path: Path) -> str:
    """Return the XXH3 of a file (128 bits), hexadecimal. It notices damage five times as fast as SHA-256."""
    return _hash(path, xxhash.xxh3_128())


def _hash(path: Path, digest: Any) -> str:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    value: str = digest.hexdigest()
    return value


def list_files(folder: Path) -> list[str]:
    """List the files below a folder: relative POSIX paths, sorted."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def write_manifest(path: Path, version: int, data: dict[str, Any], *, below: bool = True) -> None:
    """Write a manifest: data, the format's version, the checksums of the files beside it, and one of all that. Folders
    with manifests of their own are checked by these (`below`)."""
    files = {}
    for name in list_files(path.parent):
        if name != path.name and (below or "/" not in name):
            files[name] = checksum_file(path.parent / name)
    manifest = {**data, "format": version, "files": files}
    manifest["checksum"] = _checksum(manifest)
    # Not srsly's JSON, which reads some floats back as their neighbours and so fails the checksum.
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    path.write_text(text, encoding="utf8")


class OtherFormatError(OSError):
    """A folder was saved by a version with another format."""


def read_manifest(
    path: Path,
    version: int,
    kind: type[T] = dict[str, Any],  # type: ignore[assignment]  # the kind of those that nobody has described
    *,
    parts: Iterable[str] = (),
    used: Iterable[str] = (),
    check_files: bool = True,
) -> T:
    """Read a manifest and check the files that it lists, or raise an OSError that says what is wrong. It has to be of a
    kind, a TypedDict, and to list the files that the caller uses: names, and patterns ("*.npy") for those that need not
    be there. A killed save of the folder is finished before; beside the manifest it may have left `parts`."""
    finish_replacing(path.parent, [path.name, *parts])
    if not path.is_file():
        raise FileNotFoundError(MISSING.format(path=path))
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        checksum = manifest.pop("checksum")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OSError(DAMAGED.format(path=path, reason=repr(error))) from error
    # The version first, because other versions may compute the checksum differently.
    own = manifest.get("format")
    if own not in (version, None):
        raise OtherFormatError(
            f"'{path}' has format {own}, this version of spacy-sapbert reads format {version}, so another version has "
            f"saved it. {USE_OTHER_VERSION}"
        )
    if checksum != _checksum(manifest):
        raise OSError(CHANGED.format(path=path))
    files = manifest.get("files")
    if own is None or not isinstance(files, dict):
        missing = "format" if own is None else "list of files"
        raise OSError(OTHER_VERSION.format(path=path, reason=f"it has no {missing}"))
    for name in itertools.filterfalse(is_inside, files):
        raise OSError(DAMAGED.format(path=path, reason=f"it lists {name!r}, which is not a path in its folder"))
    try:
        _make_checker(cast(Any, kind)).validate_python(manifest, strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise OSError(OTHER_VERSION.format(path=path, reason=f"{where}: {problem['msg']}")) from error
    if check_files:
        _check_files(path, files, [*used])
    return cast(T, manifest)


@cache
def _make_checker(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def is_inside(name: object) -> bool:
    """Return whether a name that stands in a file is the path of something in that file's folder, and of nothing that
    a save there would leave to be finished."""
    # A Windows path knows both kinds of slashes, and drives, on any system.
    return isinstance(name, str) and all(
        part not in ("", "..") and "\0" not in part and PureWindowsPath(part).name == part and not _RECOVERY.match(part)
        for part in name.split("/")
    )


def check_listed(path: Path, files: Collection[str], names: Iterable[str]) -> None:
    """Refuse a manifest that does not list what this version saves with it."""
    for name in sorted(set(names).difference(files)):
        raise FileNotFoundError(OTHER_VERSION.format(path=path, reason=f"it does not list {name!r}"))


def _check_files(path: Path, checksums: dict[str, str], used: Collection[str]) -> None:
    folder = path.parent
    patterns = {name for name in used if "*" in name}
    check_listed(path, checksums, set(used) - patterns)
    for pattern in patterns:
        names = {file.relative_to(folder).as_posix() for file in folder.glob(pattern)}
        for name in sorted(names - set(checksums) - {path.name}):
            raise OSError(DAMAGED.format(path=path, reason=f"it does not list {name!r}, which would be read"))
    files = [folder / name for name in checksums]
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(MISSING.format(path=file))
    # A linker over millions of names has gigabytes of files, and hashing releases the interpreter's lock.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for file, digest, expected in zip(files, pool.map(checksum_file, files), checksums.values(), strict=True):
            if digest != expected:
                raise OSError(CHANGED.format(path=file))


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def unpack_folder(data: bytes, folder: Path) -> None:
    """Unpack what `pack_with` packed. Damaged bytes, and paths that lead out of the folder, are a ValueError."""
    try:
        # Not srsly.msgpack_loads, which leaves the garbage collector switched off when the bytes are damaged.
        files = srsly.msgpack.loads(data, raw=False)
    except Exception as error:  # damaged bytes make msgpack raise nearly anything
        raise ValueError(NOT_BYTES.format(reason=error)) from error
    if not isinstance(files, dict):
        raise ValueError(NOT_BYTES.format(reason=f"they hold a {type(files).__name__}, not files"))
    for name, content in files.items():
        if not is_inside(name) or not isinstance(content, bytes):
            raise ValueError(
                NOT_BYTES.format(reason=f"they hold something under {name!r} that is not a file of a folder")
            )
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def pack_with(write: Callable[[Path], Any]) -> bytes:
    """Pack the folder that a function writes into bytes: a msgpack map from relative path to content."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with _named_errors(folder):
            write(folder)
        return cast(bytes, srsly.msgpack_dumps({file: (folder / file).read_bytes() for file in list_files(folder)}))


def unpack_with(read: Callable[[Path], T], data: bytes) -> T:
    """Unpack a folder for a function that reads it. The folder is deleted afterwards."""
    with TemporaryDirectory() as folder:
        unpack_folder(data, Path(folder))
        try:
            return read(Path(folder))
        except FileNotFoundError as error:  # such as the bytes of another component
            raise ValueError(NOT_BYTES.format(reason=error)) from error


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Let a failed write be an OSError that names the path. Python's does not name it, and libraries in Rust, such as
    safetensors and polars, raise errors of their own."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = error.filename or str(path)
            raise
        if match := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(match[1]), os.strerror(int(match[1])), str(path)) from error
        raise


def _share(file: Path, mode: int) -> None:
    """Let others read a file if they may read new ones. safetensors makes files that only their owner can read."""
    if stat.S_IMODE(file.stat().st_mode) != mode:
        file.chmod(mode)


def check_is_file(path: Path) -> None:
    """Refuse a path of a folder, or of nothing."""
    if path.is_dir():
        raise IsADirectoryError(IS_FOLDER.format(path=path))
    if not path.is_file():
        raise FileNotFoundError(NO_FILE.format(file=path, cwd=Path.cwd()))


def find_stamp(path: Path) -> tuple[int, ...]:
    """Find what changes with a file; empty if there is none."""
    if not path.is_file():
        return ()
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """Give a temporary file to write, and move it into place when the block ends without an error. Folders are made."""
    if path.is_dir():
        raise IsADirectoryError(IS_FOLDER.format(path=path))
    # Another run may write there at the same time.
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with _named_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch()
            mode = stat.S_IMODE((path if path.exists() else temporary).stat().st_mode)
            yield temporary
        _share(temporary, mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def lock_folder(path: Path, name: str = LOCK, *, timeout: float = -1) -> Iterator[None]:
    """Let one thread of one process at a time write to a folder, or raise a `filelock.Timeout`. The system drops the
    lock of a killed process."""
    # Not at the top, because spaCy imports this module whenever it makes a pipeline.
    from filelock import FileLock

    with FileLock(path / name, timeout=timeout):
        try:
            yield
        finally:
            # While it is held: whoever waits notices that the file is gone, and makes another (since filelock 3.21).
            with suppress(OSError):
                (path / name).unlink()


@contextmanager
def fill_folder(path: Path, *, last: str = "", remove: Iterable[str] = (), parts: Iterable[str] = ()) -> Iterator[Path]:
    """Provide a temporary folder, and move its content to the final folder when the block ends without an error.

    If anything fails, the final folder stays as it was. If the process is killed, the next one that reads a manifest
    there or fills the folder again finishes the move, or drops what is incomplete. Others that fill the same folder
    wait. `last` is moved last, and what `remove` names is removed if it is not replaced. Other files stay, because they
    may be the user's own; so does what symbolic links point to. Memory maps of old files live on. `parts` are names and
    patterns of what other saves write here.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        reason = "where a file is in the way"
        raise type(error)(
            f"The folder to write to is {str(path)!r}, {reason}. Give the path of a folder, which is made if it "
            "is missing."
        ) from error
    # Not tempfile.mkdtemp, whose folders only their owner can read: a pipeline is there to be shared.
    temporary = path / f".saving-{uuid4().hex}"
    saved = path / SAVED
    with _named_errors(path), lock_folder(path):
        temporary.mkdir()
        try:
            yield temporary
            names = sorted(os.listdir(temporary), key=lambda name: (name == last, name))
            removed = sorted(set(remove).difference(names))
            (temporary / REMOVED).write_text(json.dumps(removed), encoding="utf8")
            mode = stat.S_IMODE((temporary / REMOVED).stat().st_mode)
            for file in list_files(temporary):
                _share(temporary / file, mode)
            if saved.is_dir():
                _move_parts(path, *_read_waiting(path, [*names, *removed, *parts]))
            os.rename(temporary, saved)
            _move_parts(path, removed, names)
        except BaseException:
            if saved.is_dir() and not temporary.exists():
                os.rename(saved, temporary)
            raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        _remove_leftovers(path)


def finish_replacing(path: Path, parts: Collection[str]) -> None:
    """Finish a save that was killed while it moved its parts, if there is one and the folder may be written. `parts`
    are names and patterns of what saves write here; a folder from elsewhere that holds anything else is an OSError."""
    if (path / SAVED).is_dir():
        # Another reader may be first.
        with suppress(FileNotFoundError):
            _read_waiting(path, parts)
        with suppress(OSError), lock_folder(path):
            if (path / SAVED).is_dir():
                _move_parts(path, *_read_waiting(path, parts))
            _remove_leftovers(path)


def find_part(path: Path, name: str) -> Path:
    """Find a part of a folder, even if a killed save has not moved it there yet and the folder may not be written."""
    waiting = path / SAVED / name
    return waiting if waiting.exists() else path / name


def _read_waiting(path: Path, parts: Collection[str]) -> tuple[list[str], list[str]]:
    """Read which parts a decided save removes, and which it brings."""
    saved = path / SAVED
    names = sorted(os.listdir(saved))
    for file in (saved, *(saved / name for name in names)):
        if file.is_symlink():
            raise OSError(FOREIGN.format(path=saved, found=f"'{file}' is a link"))
    try:
        gone = json.loads((saved / REMOVED).read_bytes())
    except (ValueError, RecursionError):
        gone = REMOVED
    names.remove(REMOVED)
    for name in (*gone, *names) if isinstance(gone, list) else (gone,):
        is_known = is_inside(name) and any(name == part or fnmatchcase(name, part) for part in parts)
        if not is_known or "/" in name:
            raise OSError(FOREIGN.format(path=saved, found=f"it has {name!r}"))
    return gone, names


def _move_parts(path: Path, gone: Iterable[str], names: Iterable[str]) -> None:
    """Move old parts aside and the decided ones in, in their order. If that fails, all are put back."""
    saved = path / SAVED
    old = path / f".replaced-{uuid4().hex}"
    moves = [(path / name, old / name) for name in gone]
    for name in names:
        moves += [(path / name, old / name), (saved / name, path / name)]
    try:
        old.mkdir()
        for source, target in moves:
            if os.path.lexists(source):
                os.replace(source, target)
        os.rename(saved, path / f".saving-{uuid4().hex}")
    except BaseException:
        # Without `.saved`, everything has been moved.
        if saved.is_dir():
            for source, target in reversed(moves):
                if os.path.lexists(target) and not os.path.lexists(source):
                    os.replace(target, source)
        with suppress(OSError):
            old.rmdir()
        raise


def _remove_leftovers(path: Path) -> None:
    """Delete old parts, and what killed saves have left, as far as that is possible: the new parts are in place."""
    with suppress(OSError):
        for name in os.listdir(path):
            if _LEFTOVER.fullmatch(name):
                shutil.rmtree(path / name, ignore_errors=True)
