"""The lock of a run's folder: two runs in one folder would mix their checkpoints and metrics."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import Timeout

from spacy_sapbert.files import lock_folder

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
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_folder(path, LOCK_FILE, timeout=0))
        except Timeout as error:
            raise RuntimeError(Errors.E637.format(path=path, pid=_read_owner(owner))) from error
        owner.write_text(str(os.getpid()), encoding="utf8")
        try:
            yield
        finally:
            with suppress(OSError):
                owner.unlink()


def _read_owner(path: Path) -> str:
    try:
        return path.read_text(encoding="utf8") or "unknown"
    except OSError:
        return "unknown"
