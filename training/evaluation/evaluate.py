"""An evaluation: the systems of a config file on all tasks, in a folder for the report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.run_folder import list_versions, write_text
from .folder import (
    METRICS_FILE,
    SEEN_ENDING,
    TASKS_FOLDER,
    Evaluation,
    Missing,
    Result,
    Row,
    SystemInfo,
    TaskInfo,
    write_schema,
)
from .measure import MEASUREMENT, ResultStore, measure
from .systems.folds import check_folds
from .systems.specification import SystemSpecification, make_systems
from .tasks import CorpusTask


def evaluate(
    specifications: Mapping[str, SystemSpecification],
    tasks: Mapping[str, CorpusTask],
    output: str | Path,
    *,
    only: Collection[str] | None = None,
    cache: str | Path | None = None,
    missing: Collection[Missing] = (),
    settings: dict[str, Any] | None = None,
    show: Callable[[Row, TaskInfo], None] | None = None,
) -> Evaluation:
    """Measure systems on tasks, and write predictions, tasks and `metrics.json`.

    specifications (Mapping[str, SystemSpecification]): The systems by name.
    tasks (Mapping[str, CorpusTask]): The tasks by name.
    output (str | Path): The folder to write to. Results that it has already are kept.
    only (Collection[str] | None): The systems to measure; None for all.
    cache (str | Path | None): A folder for vectors of strings.
    missing (Collection[Missing]): Corpora that are missing, for the report.
    settings (dict[str, Any] | None): The caller's settings, for the report.
    show (Callable | None): Called with each result and its task, as soon as it is there.
    RETURNS (Evaluation): The content of `metrics.json`.
    RAISES (ValueError): If a model has learned from the test part of a fold.
    """
    output, begin = Path(output), time.perf_counter()
    chosen = [name for name in specifications if only is None or name in only]
    _refuse_leaks([specifications[name] for name in chosen], specifications, tasks)
    # After an error, the metrics of an earlier run would not match the tasks and predictions.
    (output / METRICS_FILE).unlink(missing_ok=True)
    for task in tasks.values():
        _write_task(output / TASKS_FOLDER, task)
    store = ResultStore(output, with_predictions=True)
    rows: list[Row] = []
    lacking: list[Missing] = list(missing)
    infos = {name: task.describe() for name, task in tasks.items()}
    described: dict[str, SystemInfo] = {}

    def add(name: str, task_name: str, result: Result) -> None:
        rows.append(Row(system=name, task=task_name, **result.model_dump()))
        described[name] = specifications[name].describe(result.identity)
        if show:
            show(rows[-1], infos[task_name])

    for name, system in make_systems(specifications, cache).items():
        specification = specifications[name]
        if name not in chosen:
            continue
        failed: list[Missing] = []
        wanted = {task: tasks[task] for task in tasks if specification.is_for(task)}
        measure({name: system}, wanted, store, missing=failed, show=add)
        lacking += [entry.model_copy(update={"title": specification.title}) for entry in failed]
    evaluation = Evaluation(
        settings={"measurement": MEASUREMENT, **(settings or {})},
        versions=list_versions(),
        seconds=round(time.perf_counter() - begin, 1),
        systems=described,
        tasks=infos,
        missing=lacking,
        rows=rows,
    )
    write_schema(output / METRICS_FILE, evaluation)
    return evaluation


def _refuse_leaks(
    chosen: Sequence[SystemSpecification],
    specifications: Mapping[str, SystemSpecification],
    tasks: Mapping[str, CorpusTask],
) -> None:
    """Look for models that have learned from test mentions before anything is measured, which may take hours."""
    for specification in chosen:
        model = specifications.get(str(specification.options.get("over")), specification).model
        for name, task in tasks.items():
            if model and task.corpus and specification.is_for(name):
                check_folds(model, name.rpartition(".")[0], task.corpus)


def _write_task(folder: Path, task: CorpusTask) -> None:
    """Write a task and its seen concepts, unless the task is there: some have half a million names."""
    path, mark = folder / f"{task.name}.json", folder / f"{task.name}.sha256"
    digest = task.hash()
    if not (path.is_file() and mark.is_file() and mark.read_text() == digest):
        mark.unlink(missing_ok=True)
        # The languages of XL-BEL, and several parts of a corpus, search the same names.
        task.linking.to_disk(path, share_dictionary=True)
        mark.write_text(digest)
    seen_ids, seen_path = task.list_seen_ids(), folder / f"{task.name}{SEEN_ENDING}"
    seen_path.unlink(missing_ok=True)
    if seen_ids is not None:
        write_text(seen_path, json.dumps(seen_ids))
