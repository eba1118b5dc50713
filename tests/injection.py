"""Faults at file operations, injected by the project `reliability`, which the tests of the wheel do not have."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "projects" / "reliability" / "scripts" / "faults.py"
if not SCRIPT.is_file():
    pytest.skip("the project `reliability` is not there", allow_module_level=True)
_spec = importlib.util.spec_from_file_location("reliability_faults", SCRIPT)
faults = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(faults)


class Fault(OSError):
    """The injected error."""


def count_operations(action: Callable[[], Any], folder: Path) -> int:
    """Call a function, and count the file operations that it does below a folder."""
    with faults.watch(folder) as watched:
        action()
    return len(watched.operations)


@contextmanager
def fault_at(number: int, folder: Path, *, lasting: bool = False, error: type[BaseException] = Fault) -> Iterator[None]:
    """Let one file operation below a folder fail, or all from there on, which leaves what `kill -9` would."""

    def fail(operation: str) -> None:
        if lasting:
            watched.at += 1
        raise error(f"injected at {operation}")

    with faults.watch(folder, number, fail) as watched:
        yield
