"""Let file operations below a folder fail, once or from there on, as where a process is killed.

Python announces operations on files as audit events, and a hook that raises prevents the operation. Functions that work
on files without Python, such as those of safetensors, are wrapped.
"""

import os
import pkgutil
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from spacy_sapbert.files import list_files

# What messages say of files and bytes that are damaged, missing or of another kind.
DAMAGE = r"Can't read '|is missing\.|is not the file that was saved|Can't unpack these bytes|has format "
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
    "pyarrow.memory_map",
    "safetensors.torch.save_file",
    "safetensors.torch.load_file",
    "transformers.modeling_utils.safe_save_file",
    "transformers.modeling_utils.safe_open",
    "transformers.tokenization_utils_fast.PreTrainedTokenizerFast._save_pretrained",
    "training.engine.checkpoints.save_file",
    "training.engine.checkpoints.load_file",
)


class Fault(OSError):
    """The injected error."""


class Watch:
    """Counts the operations below a folder, and lets one of them fail, from 0, or all from there on."""

    def __init__(self, folder: Path, at: int | None, lasting: bool, error: type[BaseException]) -> None:
        self.folder, self.at, self.lasting, self.error = str(folder.resolve()), at, lasting, error
        self.n_operations = 0

    def note(self, kind: str, path: Any = None) -> bool:
        """Note an operation if it is below the folder, and tell so. Operations without a path always are."""
        where = "" if path is None else os.path.abspath(os.fsdecode(path))
        if path is not None and not where.startswith(self.folder):
            return False
        number = self.n_operations
        self.n_operations += 1
        if self.at is not None and (number == self.at or self.lasting and number > self.at):
            raise self.error(f"injected at {kind} {where.removeprefix(self.folder)}".rstrip())
        return True


_watches: list[Watch] = []


@contextmanager
def fault_at(
    number: int | None, folder: Path, *, lasting: bool = False, error: type[BaseException] = Fault
) -> Iterator[Watch]:
    """Let one file operation below a folder fail, or all from there on, which leaves what `kill -9` would."""
    watched = Watch(folder, number, lasting, error)
    with ExitStack() as stack:
        for name in NATIVE:
            owner, attribute = name.rsplit(".", 1)
            # A class is found below its module.
            if owner in sys.modules or owner.rpartition(".")[0] in sys.modules:
                stack.enter_context(patch.object(pkgutil.resolve_name(owner), attribute, _wrap(watched, name)))
        _watches.append(watched)
        stack.callback(_watches.remove, watched)
        yield watched


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
        # An operation with two paths counts once.
        if any([watched.note(event, path) for watched in list(_watches)]):
            return


# A hook cannot be removed. Without watches it does nothing.
sys.addaudithook(_hear)


def _wrap(watched: Watch, name: str) -> Callable[..., Any]:
    original = pkgutil.resolve_name(name)

    @wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        paths = [value for value in (*args, *kwargs.values()) if isinstance(value, str | os.PathLike)]
        if name == "os.fsync" or paths:
            watched.note(name.rsplit(".", 1)[1], paths[0] if paths else None)
        return original(*args, **kwargs)

    return wrapped


def count_operations(action: Callable[[], Any], folder: Path) -> int:
    """Call a function, and count the file operations that it does below a folder."""
    with fault_at(None, folder) as watched:
        action()
    return watched.n_operations


def flip_bits(whole: bytes, n: int) -> Iterator[bytes]:
    """Yield copies of bytes, each with one bit turned over."""
    rng = random.Random(0)
    for _ in range(n):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        yield bytes(damaged)


def check_damage(folder: Path, load: Callable[[Path], Any]) -> None:
    """Check that a folder is not loaded if any of its files is cut, has another bit, or is not there."""
    for name in list_files(folder):
        path = folder / name
        original = path.read_bytes()
        for damaged in (b"", original[:-1], *flip_bits(original, 5)) if original else ():
            path.write_bytes(damaged)
            with pytest.raises(OSError, match=f"an index of kind|{DAMAGE}"):
                load(folder)
        path.unlink()
        with pytest.raises(FileNotFoundError, match=f"{name}.*The copy or the download is incomplete; write"):
            load(folder)
        path.write_bytes(original)
    load(folder)


@contextmanager
def limited_files(n_bytes: int) -> Iterator[None]:
    """Let files grow to a size at most, so that writing beyond fails half way, as on a full disk."""
    import resource  # which Windows lacks

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
