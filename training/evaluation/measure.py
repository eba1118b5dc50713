"""The measurer: systems on tasks. Results are cached under a hash of everything that determines them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.progress import show_phase, show_progress

from ..data.headlines import CONCEPT
from ..data.task import LinkingTask
from .folder import PREDICTIONS_FOLDER, RESULTS_FOLDER, Missing, Result, read_schema, write_schema
from .linking.accuracy import find, judge, summarise
from .linking.searcher import Searcher
from .predictions import make_predictions, write_predictions
from .systems.base import System
from .systems.encoder import EncoderSystem
from .systems.folds import BoundFoldSystems
from .tasks import HELD_OUT, CorpusTask

# Raise it whenever a system may get other figures on the same task. Cached results are then ignored.
MEASUREMENT = 2


class ProbeTask(Protocol):
    """A task that compares the vectors themselves, instead of linking."""

    def hash(self) -> str:
        """Hash everything that determines the figures, except for the system.

        RETURNS (str): Equal hashes, equal figures.
        """
        ...

    def measure(self, system: Any) -> dict[str, Any]:
        """Measure a system.

        system (VectorSource): The source of vectors for names or concepts.
        RETURNS (dict[str, Any]): Figures, as JSON data.
        """
        ...


Task = LinkingTask | CorpusTask | ProbeTask


class ResultStore:
    """Results in a folder, by key. Runs may be killed and resumed, or write to one folder at the same time.

    folder (str | Path): The folder; made if missing.
    with_predictions (bool): Also keep the predictions of linking systems.
    """

    def __init__(self, folder: str | Path, *, with_predictions: bool = False) -> None:
        self.folder = Path(folder)
        self.with_predictions = with_predictions

    def find(self, key: str, task: Task) -> Result | None:
        """Find a result.

        key (str): Its key.
        task (Task): Its task.
        RETURNS (Result | None): The result; None if it has to be measured.
        RAISES (ValueError): If its file is damaged.
        """
        path = self._name_result(key)
        lacks_predictions = self._keeps_predictions_of(task) and not self.name_predictions(key).is_file()
        return None if lacks_predictions or not path.is_file() else read_schema(Result, path)

    def keep(self, result: Result) -> None:
        """Keep a result.

        result (Result): The result. Its predictions must be written before, because a result without them is ignored.
        """
        write_schema(self._name_result(result.key), result)

    def name_predictions(self, key: str) -> Path:
        """Name the file of predictions.

        key (str): The key of their result.
        RETURNS (Path): The file, whether it is there or not.
        """
        return self.folder / PREDICTIONS_FOLDER / f"{key}.jsonl.gz"

    def _keeps_predictions_of(self, task: Task) -> bool:
        return self.with_predictions and isinstance(task, LinkingTask | CorpusTask)

    def _name_result(self, key: str) -> Path:
        return self.folder / RESULTS_FOLDER / f"{key}.json"


Results = dict[str, dict[str, Result]]


def measure(
    systems: Mapping[str, System],
    tasks: Mapping[str, Task],
    store: ResultStore | None = None,
    *,
    missing: list[Missing] | None = None,
    show: Callable[[str, str, Result], None] | None = None,
) -> Results:
    """Measure systems on tasks. Results in the store are reused.

    systems (Mapping[str, System]): The systems by name.
    tasks (Mapping[str, Task]): The tasks by name.
    store (ResultStore | None): Keeps results; None measures all.
    missing (list[Missing] | None): Systems whose files are missing are added to it. None raises an error instead.
    show (Callable | None): Called with the names of system and task and the result, as soon as it is there.
    RETURNS (dict[str, dict[str, Result]]): Results by system and task.
    RAISES (OSError): If files of a system are missing.
    """
    results: Results = {}
    total = len(systems) * len(tasks)
    with show_progress(total=total, description="Measuring", unit="tasks") as progress:
        for name, system in systems.items():
            results[name] = {}
            for task_name, task in tasks.items():
                progress.note(now=f"{name} on {task_name}")
                try:
                    result = results[name][task_name] = _measure(system, _as_corpus_task(task_name, task), store)
                except FileNotFoundError as error:
                    if missing is None:
                        raise
                    missing.append(Missing(system=name, task=task_name, reason=str(error)))
                else:
                    if show:
                        show(name, task_name, result)
                progress.update()
            system.release()
    return results


def measure_encoder(
    encoder: EncoderShim, tasks: Mapping[str, Task], store: ResultStore | None = None
) -> dict[str, dict[str, Any]]:
    """Measure an encoder by cosines.

    encoder (EncoderShim): The encoder.
    tasks (Mapping[str, Task]): The tasks by name.
    store (ResultStore | None): As for `measure`.
    RETURNS (dict[str, dict[str, Any]]): Figures by task.
    """
    (results,) = measure({encoder.fingerprint[:12]: EncoderSystem(encoder)}, tasks, store).values()
    return {name: result.figures for name, result in results.items()}


def measure_held_out(encoder: EncoderShim, task: LinkingTask) -> dict[str, Any]:
    """Measure the accuracy of an encoder.

    encoder (EncoderShim): The encoder.
    task (LinkingTask): Queries and dictionary.
    RETURNS (dict[str, Any]): Figures, see `summarise`.
    """
    return measure_encoder(encoder, {HELD_OUT: task})[HELD_OUT]


def measure_linking(system: Searcher, task: LinkingTask) -> dict[str, Any]:
    """Measure the accuracy of a system, without storing the result.

    system (Searcher): The system.
    task (LinkingTask): Queries and dictionary.
    RETURNS (dict[str, Any]): Figures, see `summarise`.
    """
    return summarise(task, judge(task, find(system, task)))


def _as_corpus_task(name: str, task: Task) -> CorpusTask | ProbeTask:
    return CorpusTask(f"{name}.{HELD_OUT}", HELD_OUT, None, task) if isinstance(task, LinkingTask) else task


def _measure(system: System, task: CorpusTask | ProbeTask, store: ResultStore | None) -> Result:
    bound = system.load()
    if isinstance(task, CorpusTask):
        bound = bound.bind(task)
    identity = bound.identity
    ranks = task.linking.ranks if isinstance(task, CorpusTask) else []
    parts = json.dumps([MEASUREMENT, identity, task.hash(), ranks, *_name_level(task)], sort_keys=True)
    key = hashlib.sha256(parts.encode()).hexdigest()[:32]
    if store and (kept := store.find(key, task)):
        return kept
    begin = time.perf_counter()
    if isinstance(task, CorpusTask):
        figures, search = _link(bound, task, key, store)
    else:
        figures, search = task.measure(bound), {}
    seconds = round(time.perf_counter() - begin, 2)
    result = Result(key=key, identity=identity, figures=figures, search=search, seconds=seconds)
    if store:
        store.keep(result)
    return result


def _name_level(task: CorpusTask | ProbeTask) -> list[str]:
    """Name what a task is about, unless it is concepts: results of earlier versions stay valid."""
    return [task.linking.level] if isinstance(task, CorpusTask) and task.linking.level != CONCEPT else []


def _link(
    system: System, task: CorpusTask, key: str, store: ResultStore | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    with show_phase(f"Searching {len(task.linking.names):,} names for {task.name}"):
        if isinstance(system, BoundFoldSystems):
            found = system.find(task.linking)
        else:
            found = find(cast(Searcher, system), task.linking)
    hits = judge(task.linking, found)
    if store and store.with_predictions:
        write_predictions(store.name_predictions(key), make_predictions(task.linking, found, hits))
    return summarise(task.linking, hits), {"similarity": system.similarity, **system.describe_search()}
