"""The interface of systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tasks import CorpusTask


class System:
    """A system to measure. Linking systems also have `search`, see `Searcher`."""

    # As in reports: how vectors are compared.
    similarity = ""

    @property
    def identity(self) -> dict[str, Any]:
        """Identify the system: everything that determines its results, except for the task.

        RETURNS (dict[str, Any]): JSON data. Results are cached under a hash of it.
        RAISES (OSError): If a file that the system needs is missing.
        """
        raise NotImplementedError

    def load(self) -> System:
        """Load encoders, vectors and files of the system.

        RETURNS (System): The loaded system.
        RAISES (OSError): If a file that it needs is missing.
        """
        return self

    def bind(self, task: CorpusTask) -> System:
        """Prepare the system for a task.

        task (CorpusTask): The task.
        RETURNS (System): The system to measure on this task.
        RAISES (OSError): If a file that it needs for the task is missing.
        """
        return self

    def release(self) -> None:
        """Free the memory of encoders and vectors. They are loaded again on demand."""

    def describe_search(self) -> dict[str, Any]:
        """Describe the last search for a report.

        RETURNS (dict[str, Any]): `search`, such as "exact", and other facts.
        """
        return {"search": "exact"}


class LazySystem(System):
    """A system that is loaded when it is first needed.

    make (Callable): Makes the system.
    """

    def __init__(self, make: Callable[[], System]) -> None:
        self._make = make
        self._made: System | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Load the system, and identify it. See `System.identity`."""
        return self.load().identity

    def load(self) -> System:
        """Load the system unless it is loaded. See `System.load`."""
        self._made = self._made or self._make()
        return self._made

    def release(self) -> None:
        """Forget the loaded system. See `System.release`."""
        self._made = None
