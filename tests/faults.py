"""Inject faults: any file operation of Python below a folder can be made to fail.

Python reports each file operation to its audit hooks before it does it, and an exception of a hook takes its place. So
nothing has to be patched, and operations of any library count if they go through Python: `open`, `os`, `pathlib`,
`shutil`, `np.save`. Those of compiled libraries that open files themselves (safetensors, tokenizers, ScaNN) do not.

    for number in range(len(list_operations(lambda: nlp.to_disk(folder), folder))):
        with suppress(Fault), fault_at(number, folder):
            nlp.to_disk(folder)
        spacy.load(folder)
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# The events that change files: where the paths stand among their arguments, and the descriptors of the paths' folders.
CHANGES = {
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.chmod": ((0, 2),),
    "os.utime": ((0, 3),),
}
# The events that only look.
LOOKS = ("os.listdir", "os.scandir")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Fault(OSError):
    """The injected error."""


class _Injector:
    """What the audit hook does at present: it counts the operations below a folder, and lets some of them fail.

    folder (Path): The folder.
    reads (bool): Count operations that only read as well.
    fails (Callable[[int], bool]): Tells for the number of an operation whether it fails.
    error (type[BaseException]): The error to raise.
    """

    def __init__(
        self, folder: Path, reads: bool, fails: Callable[[int], bool], error: type[BaseException] = Fault
    ) -> None:
        self.folder, self.reads, self.fails, self.error = os.path.realpath(folder), reads, fails, error
        self.operations: list[str] = []

    def notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count an event, and fail if it is its turn."""
        for path, descriptor in self._list_paths(event, arguments):
            if self._is_below(path, descriptor):
                self.operations.append(f"{event} {path}")
                if self.fails(len(self.operations) - 1):
                    raise self.error(f"injected at {self.operations[-1]}")
                return

    def _list_paths(self, event: str, arguments: tuple[Any, ...]) -> list[tuple[Any, int]]:
        if event == "open":
            is_counted = self.reads or bool((arguments[2] or 0) & WRITING)
            return [(arguments[0], -1)] if is_counted else []
        if event in CHANGES:
            return [(arguments[path], arguments[descriptor]) for path, descriptor in CHANGES[event]]
        return [(arguments[0], -1)] if self.reads and event in LOOKS else []

    def _is_below(self, path: Any, descriptor: int) -> bool:
        if path is None or isinstance(path, int):
            return False
        path = os.fsdecode(path)
        if not os.path.isabs(path) and descriptor >= 0:
            # `shutil.rmtree` names files relative to the descriptor of their folder.
            path = os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), path)
        # The folder only is resolved, because a link itself may be moved or deleted.
        parent, name = os.path.split(os.path.abspath(path))
        path = os.path.join(os.path.realpath(parent), name)
        return path == self.folder or path.startswith(self.folder + os.sep)


_active: _Injector | None = None
_is_installed = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _active is not None:
        _active.notice(event, arguments)


@contextmanager
def _inject(injector: _Injector) -> Iterator[list[str]]:
    global _active, _is_installed
    if not _is_installed:
        # A hook stays for as long as the process lives.
        sys.addaudithook(_hook)
        _is_installed = True
    assert _active is None, "faults can't be nested"
    _active = injector
    try:
        yield injector.operations
    finally:
        _active = None


def list_operations(action: Callable[[], Any], folder: Path, *, reads: bool = False) -> list[str]:
    """Call a function, and list the file operations that it does below a folder.

    action (Callable[[], Any]): The function.
    folder (Path): The folder.
    reads (bool): List opening files for reading, and listing folders, as well.
    RETURNS (list[str]): The operations, in order.
    """
    with _inject(_Injector(folder, reads, lambda number: False)) as operations:
        action()
    return operations


@contextmanager
def fault_at(
    number: int,
    folder: Path,
    *,
    reads: bool = False,
    lasting: bool = False,
    error: type[BaseException] = Fault,
) -> Iterator[None]:
    """Let one file operation below a folder fail.

    number (int): The operation, counted from 0 as `list_operations` does.
    folder (Path): The folder.
    reads (bool): Count operations that only read as well.
    lasting (bool): Let all later operations fail too. What is on disk is then what `kill -9` would have left there.
    error (type[BaseException]): The error to raise.
    YIELDS (None): While the fault waits.
    """

    def fails(at: int) -> bool:
        return at >= number if lasting else at == number

    with _inject(_Injector(folder, reads, fails, error)):
        yield
