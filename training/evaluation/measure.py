"""The measurer: systems on tasks. Results are cached under a hash of everything that determines them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import polars as pl

from spacy_sapbert.progress import show_progress
from spacy_sapbert.settings import Settings, Strings

from ..data.accuracy import NearestNames, Searcher, find
from ..data.run_folder import list_versions, write_json
from ..data.task import LinkingTask
from .frame import SCHEMA, Figure, write_results
from .predictions import Prediction, write_predictions

# Raise it whenever a system may get other figures on the same task. Cached results are then ignored.
MEASUREMENT = 3
MEASURED_FILE, CACHE_FOLDER, PREDICTIONS_FOLDER = "measured.json", "cache", "predictions"


class SystemInfo(Settings):
    """What reports say about a system."""

    kind: str = ""
    title: str = ""  # Its name in reports.
    description: str = ""
    published: str = ""  # The system of the literature to compare with.
    published_pooling: str = ""  # The pooling of its figures, as the literature's table has it; empty for any.
    group: str = ""  # Systems of one group differ only in their seed, and are averaged.
    seed: int | None = None  # Of its training.
    tasks: Strings = ("*",)  # Patterns of the tasks that it is measured on.


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
        """Everything that determines the results but for the task, as JSON data: they are cached under a hash of it.

        `encoder` begins with the fingerprint of the encoder, if there is one. An OSError says that a file is missing.
        """
        raise NotImplementedError

    def load(self) -> System:
        """Load encoders, vectors and files, and return the loaded system. An OSError says that one is missing."""
        return self

    def bind(self, task: Any) -> System:
        """Return the system to measure on a task. An OSError says that a file is missing."""
        return self

    def find(self, task: LinkingTask) -> NearestNames:
        """Search the queries of a linking task."""
        return find(cast(Searcher, self), task)

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

    @property
    def name(self) -> str:
        """Its name in results: corpus.protocol."""
        ...

    @property
    def protocol(self) -> str:
        """Its protocol."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """What it asks a system for: entries of `System.gives`, any of which will do."""
        ...

    def hash(self) -> str:
        """Hash everything that determines the figures, except for the system."""
        ...

    def describe(self) -> dict[str, Any]:
        """Describe the task for reports, as JSON data: `title`, `corpus`, `counts`, and what else there is."""
        ...

    def measure(self, system: Any) -> list[Figure] | Measured:
        """Measure a system that is loaded and bound to this task. If a file is missing, a FileNotFoundError says so,
        and the task is listed as not measured.
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
    has_predictions: bool = False

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
    missing: list[Missing] | None = None,
    config: Mapping[str, Any] | None = None,
    kinds: Mapping[str, str] | None = None,
    show: Callable[[str, str, Result], None] | None = None,
) -> pl.DataFrame:
    """Measure systems on tasks, and write the frame, predictions and `measured.json`.

    A system is measured on the tasks that its `info.tasks` names, if it gives what they need. With an output, results
    that it has are reused, what is missing is listed, and runs may be killed and resumed, or share a folder.

    systems (Mapping[str, System]): The systems by name.
    tasks (Mapping[str, Task]): The tasks by name.
    output (str | Path | None): The folder to write to; None keeps nothing, and raises an error where a file is missing.
    missing (list[Missing] | None): What is known to be missing, to be listed; what else is found is added.
    config, kinds (Mapping[str, Any] | None): The caller's settings and the kinds of tasks, to be listed.
    show (Callable | None): Called with the names of system and task and the result, as soon as it is there.
    RETURNS (pl.DataFrame): The frame, see `frame.SCHEMA`.
    """
    pairs = [
        (name, task_name)
        for name, system in systems.items()
        for task_name, task in tasks.items()
        if any(fnmatchcase(task_name, pattern) for pattern in system.info.tasks) and system.gives & task.needs
    ]
    if not pairs:
        raise ValueError(
            f"None of the systems ({', '.join(systems) or 'there is none'}) can be measured on any of the tasks "
            f"({', '.join(tasks) or 'there is none'}): see `kind` and `tasks` of the systems, and what is missing."
        )
    folder, begin = None if output is None else Path(output), time.perf_counter()
    if folder:
        # After an error, the list of an earlier run would not match the tasks and predictions.
        (folder / MEASURED_FILE).unlink(missing_ok=True)
    results: dict[tuple[str, str], Result] = {}
    lacking = [] if missing is None else missing
    with show_progress(total=len(pairs), description="Measuring", unit="tasks") as progress:
        for number, (name, task_name) in enumerate(pairs):
            progress.note(now=f"{name} on {task_name}")
            try:
                result = results[name, task_name] = _measure(systems[name], tasks[task_name], folder)
            except FileNotFoundError as error:
                if folder is None:
                    raise
                title = systems[name].info.title or name
                lacking.append(Missing(reason=str(error), title=title, system=name, task=task_name))
            else:
                if show:
                    show(name, task_name, result)
            progress.update()
            if number + 1 == len(pairs) or pairs[number + 1][0] != name:
                systems[name].release()
    frame = _make_frame(systems, tasks, results)
    if folder:
        write_results(frame, folder)
        seconds = round(time.perf_counter() - begin, 1)
        measured = {"config": dict(config or {}), "versions": list_versions(), "seconds": seconds}
        write_json(folder / MEASURED_FILE, measured | _describe(systems, tasks, results, lacking, kinds or {}))
    return frame


def _measure(system: System, task: Task, folder: Path | None) -> Result:
    bound = system.load().bind(task)
    identity = bound.identity
    parts = json.dumps([MEASUREMENT, identity, task.hash()], sort_keys=True)
    key = hashlib.sha256(parts.encode()).hexdigest()[:32]
    path = folder and folder / CACHE_FOLDER / f"{key}.json"
    predictions = folder and folder / PREDICTIONS_FOLDER / f"{key}.jsonl.gz"
    if path and predictions and path.is_file():
        kept = _read_result(path)
        if predictions.is_file() or not kept.has_predictions:
            return kept
    begin = time.perf_counter()
    measured = task.measure(bound)
    measured = measured if isinstance(measured, Measured) else Measured(measured)
    seconds = round(time.perf_counter() - begin, 2)
    result = Result(key, identity, measured.figures, measured.details, seconds)
    if path and predictions:
        # Before the result: one that is there has its predictions.
        result.has_predictions = write_predictions(predictions, measured.predictions)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(result))
    return result


def _read_result(path: Path) -> Result:
    try:
        result = Result(**json.loads(path.read_text(encoding="utf8")))
        result.figures = [Figure(*values) for values in result.figures]
        if not all(isinstance(figure.metric, str) and isinstance(figure.value, float) for figure in result.figures):
            raise ValueError("its figures are no numbers")
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} holds no result: {error}. Remove the file to measure it anew.") from error
    return result


def _make_frame(
    systems: Mapping[str, System], tasks: Mapping[str, Task], results: Mapping[tuple[str, str], Result]
) -> pl.DataFrame:
    rows = [
        (name, task, tasks[task].protocol, *figure, systems[name].info.seed, result.fingerprint)
        for (name, task), result in results.items()
        for figure in result.figures
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _describe(
    systems: Mapping[str, System],
    tasks: Mapping[str, Task],
    results: Mapping[tuple[str, str], Result],
    missing: Collection[Missing],
    kinds: Mapping[str, str],
) -> dict[str, Any]:
    described = {}
    for (name, _), result in results.items():
        info = systems[name].info.to_dict()
        described[name] = info | {"identity": result.identity, "fingerprint": result.fingerprint}
        described[name]["title"] = info["title"] or name
    return {
        "systems": described,
        "tasks": {
            name: {"kind": kinds.get(name, ""), "protocol": task.protocol, **task.describe()}
            for name, task in tasks.items()
        },
        "missing": [asdict(entry) for entry in missing],
        "results": [
            {"system": name, "task": task, "key": result.key, "seconds": result.seconds, "details": result.details}
            for (name, task), result in results.items()
        ],
    }
