"""The measurer: systems on tasks. Results are cached under a hash of everything that determines them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter

from spacy_sapbert.progress import show_progress

from ..data.accuracy import Figure
from ..data.frame import SCHEMA, write_results
from ..data.run_folder import list_versions, write_json
from .predictions import write_predictions
from .settings import Missing, System, Task, hash_json

# Raise it whenever a system may get other figures on the same task. Cached results are then ignored.
MEASUREMENT = 3
# The facts about systems that reports show.
ABOUT_SYSTEMS = ["kind", "title", "description", "published", "published_pooling", "group", "seed", "tasks"]
ABOUT_SYSTEMS += ["identity", "fingerprint"]
MEASURED_FILE = "measured.json"
CACHE_FOLDER = "cache"
PREDICTIONS_FOLDER = "predictions"


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
        return encoder or hash_json(self.identity)[:32]


RESULTS = TypeAdapter(Result)


def measure(
    systems: Mapping[str, System],
    tasks: Mapping[str, Task],
    output: str | Path,
    *,
    missing: list[Missing] | None = None,
    config: Mapping[str, Any] | None = None,
    show: Callable[[str, str, Result], None] | None = None,
) -> pl.DataFrame:
    """Measure systems on tasks, and write the frame, predictions and `measured.json`.

    A system is measured on its `tasks`, if it gives what they need. Results that the output has are reused, what is
    missing is listed, and runs may be killed and resumed, or share a folder.

    systems (Mapping[str, System]): The systems by name.
    tasks (Mapping[str, Task]): The tasks by name.
    output (str | Path): The folder to write to.
    missing (list[Missing] | None): What is known to be missing, to be listed; what else is found is added.
    config (Mapping[str, Any] | None): The caller's settings, to be listed.
    show (Callable | None): Called with the names of system and task and the result, as soon as it is there.
    RETURNS (pl.DataFrame): The frame, see `frame.SCHEMA`.
    """
    pairs = {name: [task for task in tasks if fits(system, tasks[task])] for name, system in systems.items()}
    if not any(pairs.values()):
        raise ValueError(
            f"None of the systems ({', '.join(systems) or 'there is none'}) can be measured on any of the tasks "
            f"({', '.join(tasks) or 'there is none'}): see `kind` and `tasks` of the systems, and what is missing."
        )
    folder = Path(output)
    begin = time.perf_counter()
    # After an error, the list of an earlier run would not match the tasks and predictions.
    (folder / MEASURED_FILE).unlink(missing_ok=True)
    lacking = [] if missing is None else missing
    results = _measure_pairs(pairs, systems, tasks, folder, lacking, show)
    rows = [
        (name, task, tasks[task].protocol, *figure, systems[name].seed, result.fingerprint)
        for (name, task), result in results.items()
        for figure in result.figures
    ]
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    write_results(frame, folder)
    described = {}
    for (name, _), result in results.items():
        about = systems[name].to_dict() | {"identity": result.identity, "fingerprint": result.fingerprint}
        described[name] = {key: about[key] for key in ABOUT_SYSTEMS} | {"title": systems[name].title or name}
    measured = {
        "config": dict(config or {}),
        "versions": list_versions(),
        "seconds": round(time.perf_counter() - begin, 1),
        "systems": described,
        "tasks": {name: {"protocol": task.protocol, **task.describe()} for name, task in tasks.items()},
        "missing": [asdict(entry) for entry in lacking],
        "results": [
            {"system": name, "task": task, "key": result.key, "seconds": result.seconds, "details": result.details}
            for (name, task), result in results.items()
        ],
    }
    write_json(folder / MEASURED_FILE, measured)
    return frame


def _measure_pairs(
    pairs: Mapping[str, Sequence[str]],
    systems: Mapping[str, System],
    tasks: Mapping[str, Task],
    folder: Path,
    lacking: list[Missing],
    show: Callable[[str, str, Result], None] | None,
) -> dict[tuple[str, str], Result]:
    """Measure each system on its tasks. Pairs whose files are missing are added to `lacking`."""
    results: dict[tuple[str, str], Result] = {}
    with show_progress(total=sum(map(len, pairs.values())), description="Measuring", unit="tasks") as progress:
        for name, its_tasks in pairs.items():
            for task in its_tasks:
                progress.note(now=f"{name} on {task}")
                try:
                    result = results[name, task] = _measure(systems[name], tasks[task], folder)
                except FileNotFoundError as error:
                    title = systems[name].title or name
                    lacking.append(Missing(reason=str(error), title=title, system=name, task=task))
                else:
                    if show:
                        show(name, task, result)
                progress.update()
            systems[name].release()
    return results


def fits(system: System, task: Task) -> bool:
    """Check whether a system is to be measured on a task, and can be."""
    return any(fnmatchcase(task.name, pattern) for pattern in system.tasks) and bool(system.gives & task.needs)


def _measure(system: System, task: Task, folder: Path) -> Result:
    bound = system.bind(task)
    identity = bound.identity
    key = hash_json([MEASUREMENT, identity, task.hash()])[:32]
    path = folder / CACHE_FOLDER / f"{key}.json"
    predictions = folder / PREDICTIONS_FOLDER / f"{key}.jsonl.gz"
    if path.is_file():
        try:
            results = RESULTS.validate_python(json.loads(path.read_text(encoding="utf8")))
        except ValueError as error:
            raise ValueError(f"{path} holds no result: {error}. Remove the file to measure it again.") from error
        if predictions.is_file() or not results.has_predictions:
            return results
    begin = time.perf_counter()
    measured = task.measure(bound)
    seconds = round(time.perf_counter() - begin, 2)
    # Before the result: one that is there has its predictions.
    if measured.predictions:
        write_predictions(predictions, measured.predictions)
    result = Result(key, identity, measured.figures, measured.details, seconds, bool(measured.predictions))
    write_json(path, asdict(result))
    return result
