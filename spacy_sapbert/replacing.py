"""Replace parts of a folder all or nothing, whatever error or kill comes in between.

A save writes its parts to `.saving-ID` inside of the folder. Renaming that to `.saved` decides the save: until then,
the old parts count, and afterwards whoever opens the folder next can finish. The old parts are moved to `.replaced-ID`,
the new ones into the folder, and `.saved` is renamed back. The old parts are deleted last.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from filelock import FileLock

SAVED = ".saved"
LOCK = ".saving.lock"
# Inside of `.saved`: the names of the parts that the save removes.
REMOVED = ".removed.json"
# Strict, because matching folders are deleted.
_LEFTOVER = re.compile(r"\.(saving|replaced)-[0-9a-f]{32}")


@contextmanager
def lock_folder(path: Path, name: str = LOCK, *, timeout: float = -1) -> Iterator[None]:
    """Let one thread of one process at a time write to a folder. The system drops the lock of a killed process.

    path (Path): The folder, which exists.
    name (str): The lock's file.
    timeout (float): Seconds to wait for the lock; negative to wait for as long as it takes.
    RAISES (filelock.Timeout): If the lock is still held by another then.
    """
    with FileLock(path / name, timeout=timeout):
        try:
            yield
        finally:
            # While it is held: whoever waits notices that the file is gone, and makes another (since filelock 3.21).
            with suppress(OSError):
                (path / name).unlink()


def make_saving_folder(path: Path) -> Path:
    """Make the folder that a save writes its parts to.

    path (Path): The final folder.
    RETURNS (Path): A new folder inside of the final folder.
    """
    # Not tempfile.mkdtemp, whose folders only their owner can read: a pipeline is there to be shared.
    temporary = path / f".saving-{uuid4().hex}"
    temporary.mkdir()
    return temporary


def replace_parts(path: Path, temporary: Path, *, last: str = "", remove: Iterable[str] = ()) -> None:
    """Move new parts to their final folder in place of the old ones. If anything fails, the old ones are put back.

    Parts that are symbolic links are replaced as others are; what they point to is not touched.

    path (Path): The final folder, locked by the caller.
    temporary (Path): The folder that `make_saving_folder` made, with the new parts.
    last (str): The part to move last.
    remove (Iterable[str]): Parts of the final folder to remove, unless they are replaced.
    """
    names = sorted(os.listdir(temporary), key=lambda name: (name == last, name))
    gone = sorted(set(remove).difference(names))
    if gone:
        (temporary / REMOVED).write_text(json.dumps(gone), encoding="utf8")
    _finish_killed(path)
    _move_parts(path, temporary, names, gone)
    _remove_leftovers(path)


def finish_replacing(path: Path) -> None:
    """Finish a save that was killed while it moved its parts, if there is one and the folder may be written.

    path (Path): The folder. Where it may not be written, `find_part` finds the new parts all the same.
    """
    if (path / SAVED).is_dir():
        with suppress(OSError), lock_folder(path):
            _finish_killed(path)
            _remove_leftovers(path)


def find_part(path: Path, name: str) -> Path:
    """Find a part of a folder, even if a killed save has not moved it there yet.

    path (Path): The folder.
    name (str): The part's name.
    RETURNS (Path): Where it is, or would be.
    """
    waiting = path / SAVED / name
    return waiting if waiting.exists() else path / name


def identify_save(path: Path, last: str) -> tuple[object, ...]:
    """Identify the save that a folder's parts are from, to notice that another one replaces them.

    path (Path): The folder.
    last (str): The part that saves move last.
    RETURNS (tuple[object, ...]): Another value after each save, and while parts are moved.
    """
    part = find_part(path, last)
    found = part.stat() if part.exists() else None
    return (path / SAVED).is_dir(), None if found is None else (found.st_ino, found.st_mtime_ns)


def delete_folder(path: Path) -> None:
    """Delete a folder as far as that is possible.

    path (Path): The folder.
    """
    with suppress(OSError):
        shutil.rmtree(path, ignore_errors=True)


def _finish_killed(path: Path) -> None:
    saved = path / SAVED
    if saved.is_dir():
        names = sorted(set(os.listdir(saved)) - {REMOVED})
        gone = json.loads((saved / REMOVED).read_text(encoding="utf8")) if (saved / REMOVED).exists() else []
        _move_parts(path, None, names, gone)


def _move_parts(path: Path, temporary: Path | None, names: list[str], gone: list[str]) -> None:
    """Move old parts aside and new ones in, from a temporary folder or, if it is None, from a save that was killed."""
    saved, old = path / SAVED, path / f".replaced-{uuid4().hex}"
    moves: list[tuple[Path, Path]] = []

    def move(source: Path, target: Path) -> None:
        # Noted first, because an interrupt can come right after the move.
        moves.append((source, target))
        os.replace(source, target)

    try:
        old.mkdir()
        if temporary is not None:
            os.rename(temporary, saved)
        for name in [*gone, *names]:
            if os.path.lexists(path / name):
                move(path / name, old / name)
            if name not in gone:
                move(saved / name, path / name)
        os.rename(saved, temporary or path / f".saving-{uuid4().hex}")
    except BaseException:
        # Without `.saved`, either nothing has been moved yet, or everything has.
        if saved.is_dir():
            for source, target in reversed(moves):
                if os.path.lexists(target) and not os.path.lexists(source):
                    os.replace(target, source)
            if temporary is not None:
                os.rename(saved, temporary)
        with suppress(OSError):
            old.rmdir()
        raise


def _remove_leftovers(path: Path) -> None:
    """Delete old parts, and what killed saves have left, as far as that is possible: the new parts are in place."""
    with suppress(OSError):
        for name in os.listdir(path):
            if _LEFTOVER.fullmatch(name):
                delete_folder(path / name)
