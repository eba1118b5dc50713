"""Count the file operations below a folder, and make one of them fail or end the process.

Python announces operations on files as audit events, and a hook that raises prevents the operation. Functions that work
on files without Python, such as those of safetensors, are wrapped.
"""

from __future__ import annotations

import errno
import os
import pkgutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Audit events, with the position of their paths. Removing a tree opens folders by descriptor, which cannot be told.
EVENTS = {
    **dict.fromkeys(("open", "os.mkdir", "os.remove", "os.rmdir", "os.listdir", "os.scandir", "os.chmod"), (0,)),
    **dict.fromkeys(("os.rename", "os.link", "os.symlink"), (0, 1)),
}
# Where an event names the folder that its path is relative to.
FOLDERS = {"os.mkdir": 2, "os.remove": 1, "os.rmdir": 1, "os.rename": 2}
# Where modules are imported that use them. `os.fsync` has no path, and counts wherever the file is.
NATIVE = (
    "os.fsync",
    "safetensors.torch.save_file",
    "safetensors.torch.load_file",
    "transformers.modeling_utils.safe_save_file",
    "transformers.modeling_utils.safe_open",
    "transformers.tokenization_utils_fast.PreTrainedTokenizerFast._save_pretrained",
    "training.engine.checkpoint.save_file",
    "training.engine.checkpoint.load_file",
)
_watches: list[Watch] = []
_is_installed = False


class Watch:
    """What happens below a folder.

    folder (Path): The folder.
    at (int | None): The number of the operation at which to act, from 0.
    act (Callable[[str], None] | None): Called with that operation before it takes place. It may raise.
    """

    def __init__(self, folder: Path, at: int | None = None, act: Callable[[str], None] | None = None) -> None:
        self.folder = str(folder.resolve())
        self.at = at
        self.act = act
        self.operations: list[str] = []

    def note(self, kind: str, path: Any = None) -> None:
        """Note an operation, and act if it is the one.

        kind (str): The kind of operation.
        path (Any): Its path; operations elsewhere are ignored. None for operations that have none.
        """
        where = ""
        if path is not None:
            where = os.path.abspath(os.fsdecode(path))
            if not where.startswith(self.folder):
                return
        self.operations.append(f"{kind} {where.removeprefix(self.folder)}".rstrip())
        if self.at == len(self.operations) - 1 and self.act is not None:
            self.act(self.operations[-1])

    @property
    def has_acted(self) -> bool:
        """Tell whether the operation was reached.

        RETURNS (bool): False if there were fewer operations.
        """
        return self.at is not None and len(self.operations) > self.at


@contextmanager
def watch(folder: Path, at: int | None = None, act: Callable[[str], None] | None = None) -> Iterator[Watch]:
    """Watch a folder while the block runs.

    folder (Path): The folder.
    at (int | None): The number of the operation at which to act, from 0; None only counts.
    act (Callable[[str], None] | None): Called before that operation.
    YIELDS (Watch): The operations so far.
    """
    global _is_installed
    if not _is_installed:
        # A hook cannot be removed. Without watches it does nothing.
        sys.addaudithook(_hear)
        _is_installed = True
    watched = Watch(folder, at, act)
    with ExitStack() as stack:
        for name in NATIVE:
            owner, attribute = name.rsplit(".", 1)
            # A class is found below its module.
            if owner in sys.modules or owner.rpartition(".")[0] in sys.modules:
                stack.enter_context(patch.object(pkgutil.resolve_name(owner), attribute, _wrap(watched, name)))
        _watches.append(watched)
        stack.callback(_watches.remove, watched)
        yield watched


def fail_with(code: int) -> Callable[[str], None]:
    """Make a function that raises an `OSError`.

    code (int): Such as `errno.ENOSPC`.
    RETURNS (Callable[[str], None]): For `watch`.
    """

    def act(operation: str) -> None:
        raise OSError(code, os.strerror(code), operation)

    return act


def kill(operation: str) -> None:
    """End this process as `kill -9` does.

    operation (str): Not used.
    """
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def limit_file_size(n_bytes: int) -> Iterator[None]:
    """Let files grow to a size at most while the block runs, so that writing beyond fails half way.

    n_bytes (int): The size.
    """
    # Windows has no such limit.
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watches or event not in EVENTS:
        return
    for place in EVENTS[event]:
        path = arguments[place]
        if not isinstance(path, str | bytes | os.PathLike):
            return
        folder = arguments[FOLDERS[event]] if event in FOLDERS else -1
        if isinstance(folder, int) and folder >= 0:
            # Only Linux names the folder of a descriptor; elsewhere, removals inside of trees are not counted.
            if not os.path.isdir("/proc/self/fd"):
                return
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))
        for watched in list(_watches):
            count = len(watched.operations)
            watched.note(event, path)
            if len(watched.operations) > count:
                # An operation with two paths counts once.
                return


def _wrap(watched: Watch, name: str) -> Callable[..., Any]:
    original = pkgutil.resolve_name(name)

    @wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        paths = [value for value in (*args, *kwargs.values()) if isinstance(value, str | os.PathLike)]
        if name == "os.fsync" or paths:
            watched.note(name.rsplit(".", 1)[1], paths[0] if paths else None)
        return original(*args, **kwargs)

    return wrapped


# For those who choose a code by name.
CODES = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO}
