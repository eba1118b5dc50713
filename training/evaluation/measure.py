"""The measurer: systems on tasks. Results are cached under a hash of everything that determines them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import polars as pl

from spacy_sapbert.progress import show_progress

from ..data.run_folder import list_versions, write_json
from .frame import SCHEMA, Figure, write_results
from .predictions import Prediction, write_predictions

# Raise it whenever a system may get other figures on the same task. Cached results are then ignored.
MEASUREMENT = 3
MEASURED_FILE, CACHE_FOLDER, PREDICTIONS_FOLDER = "measured.json", "cache", "predictions"


@dataclass(frozen=True)
class SystemInfo:
    """What reports say about a system."""

    kind: str = ""
    title: str = ""  # Its name in reports.
    description: str = ""
    published: str = ""  # The system of the literature to compare with.
    published_pooling: str = ""  # The pooling of its figures, as the literature's table has it; empty for any.
    group: str = ""  # Systems of one group differ only in their seed, and are averaged.
    seed: int | None = None  # Of its training.
    tasks: Collection[str] = ("*",)  # Patterns of the tasks that it is measured on.


class System:
    """A system to measure. What it can do stands in `gives`; each of these is a method or an attribute of it.

    search: finds names for queries, see `training.data.accuracy.Searcher`.
    encode: encodes strings, see `NameVectors`; with `fingerprint`.
    take: has vectors of concepts, see `ConceptVectors`; with `fingerprint`.
    nlp: a pipeline that links mentions in documents.
    """

    gives: frozenset[str] = frozenset({"search"})
    info = SystemInfo()
    # As in reports: how vectors are compared.
    similarity = ""

    @property
    def identity(self) -> dict[str, Any]:
        """Identify the system: everything that determines its results, except for the task.

        RETURNS (dict[str, Any]): JSON data. Results are cached under a hash of it. `encoder` begins with the
            fingerprint of the encoder, if there is one.
        RAISES (OSError): If a file that the system needs is missing.
        """
        raise NotImplementedError

    def load(self) -> System:
        """Load encoders, vectors and files of the system.

        RETURNS (System): The loaded system.
        RAISES (OSError): If a file that it needs is missing.
        """
        return self

    def bind(self, task: Any) -> System:
        """Prepare the system for a task.

        task (Task): The task.
        RETURNS (System): The system to measure on this task.
        RAISES (OSError): If a file that it needs for the task is missing.
        """
        return self

    def release(self) -> None:
        """Free the memory of encoders and vectors. They are loaded again on demand."""

    def describe_search(self) -> dict[str, Any]:
        """Describe the last search for a report: `search`, such as "exact", and other facts."""
        return {"search": "exact"}


class LazySystem(System):
    """A system that is made when it is first needed."""

    def __init__(self, make: Callable[[], System], gives: Collection[str] = ("search",)) -> None:
        self._make = make
        self._made: System | None = None
        self.gives = frozenset(gives)

    @property
    def identity(self) -> dict[str, Any]:
        """Load the system, and identify it. See `System.identity`."""
        return self.load().identity

    def load(self) -> System:
        """Load the system unless it is loaded. See `System.load`."""
        self._made = self._made or self._make().load()
        return self._made

    def release(self) -> None:
        """Forget the loaded system. See `System.release`."""
        self._made = None


class Measured(NamedTuple):
    """What a measurement has found out."""

    figures: list[Figure]
    details: dict[str, Any] = {}  # JSON data for reports: the search, a curve, a list of errors.
    predictions: Iterable[Prediction] = ()  # Of linked mentions, written to a file of their own.


class Task(Protocol):
    """A task to measure systems on."""

    name: str  # corpus.protocol
    protocol: str
    needs: frozenset[str]  # Of `System.gives`, any of which will do.

    def hash(self) -> str:
        """Hash everything that determines the figures, except for the system.

        RETURNS (str): Equal hashes, equal figures.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Describe the task for reports.

        RETURNS (dict[str, Any]): JSON data for measured.json: `title`, `corpus`, `counts`, and what else there is.
        """
        ...

    def measure(self, system: Any) -> list[Figure] | Measured:
        """Measure a system.

        system (System): The system, loaded and bound to this task.
        RETURNS (list[Figure] | Measured): Its figures, or more.
        RAISES (FileNotFoundError): If a file is missing: the task is then listed as not measured.
        """
        ...


@dataclass(frozen=True)
class Missing:
    """What could not be measured, and why."""

    reason: str
    title: str = ""  # Its name in reports.
    corpus: str = ""
    system: str = ""
    task: str = ""
    obtain: str = ""  # The place to get a corpus.

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.corpus or (f"{self.system} on {self.task}" if self.system else self.task)


@dataclass
class Result:
    """The figures of a system on a task, as the cache keeps them."""

    key: str
    identity: dict[str, Any]
    figures: list[Figure]
    details: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint, or a hash of what identifies the system."""
        encoder = str(self.identity.get("encoder", "")).partition(" ")[0]
        return encoder or hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:32]


def measure(
    systems: Mapping[str, System],
    tasks: Mapping[str, Task],
    output: str | Path | None = None,
    *,
    missing: Collection[Missing] = (),
    config: Mapping[str, Any] | None = None,
    show: Callable[[str, str, Result], None] | None = None,
) -> pl.DataFrame:
    """Measure systems on tasks, and write the frame, predictions and `measured.json`.

    A system is measured on the tasks that its `info.tasks` names, if it gives what they need. With an output, results
    that it has are reused, what is missing is listed, and runs may be killed and resumed, or share a folder.

    systems (Mapping[str, System]): The systems by name.
    tasks (Mapping[str, Task]): The tasks by name.
    output (str | Path | None): The folder to write to; None keeps nothing, and raises an error where a file is missing.
    missing (Collection[Missing]): What is known to be missing, to be listed.
    config (Mapping[str, Any] | None): The caller's settings, to be listed.
    show (Callable | None): Called with the names of system and task and the result, as soon as it is there.
    RETURNS (pl.DataFrame): The frame, see `frame.SCHEMA`.
    RAISES (OSError): If there is no output, and files of a system are missing.
    RAISES (ValueError): If no system suits any task.
    """
    raise NotImplementedError
