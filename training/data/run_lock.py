"""The lock of a run's folder: two runs in one folder would mix their checkpoints and metrics."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import Errors

LOCK_FILE, OWNER_FILE = ".run.lock", ".run.pid"


@contextmanager
def lock_run(path: Path) -> Iterator[None]:
    """Lock the folder of a run. The system drops the lock of a killed process.

    path (Path): The run's folder, which is made.
    RAISES (RuntimeError): If another run has locked it.
    """
    path.mkdir(parents=True, exist_ok=True)
    owner = path / OWNER_FILE
    try:
        lock = FileLock(path / LOCK_FILE, timeout=0).acquire()
    except Timeout as error:
        raise RuntimeError(Errors.E637.format(path=path, pid=_read_owner(owner))) from error
    with lock:
        owner.write_text(str(os.getpid()), encoding="utf8")
        try:
            yield
        finally:
            # While it is held: whoever waits for it notices that the file is gone, and makes another.
            with suppress(OSError):
                owner.unlink()
                (path / LOCK_FILE).unlink()


def _read_owner(path: Path) -> str:
    try:
        return path.read_text(encoding="utf8") or "unknown"
    except OSError:
        return "unknown"
