"""Hits and errors, from the predictions of an evaluation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from spacy_sapbert.progress import show_progress

from ...data.task import LinkingTask
from ..folder import PREDICTIONS_FOLDER, SEEN_ENDING, TASKS_FOLDER, Evaluation
from ..predictions import read_predictions
from .error_analysis import ErrorAnalysis, analyse_errors, is_hit
from .measured import gather_measurements


@dataclass(frozen=True)
class Finding:
    """Hits and errors of a system on a task.

    title (str): The name of the system in reports.
    hits (list[bool]): Whether each mention is right at rank 1.
    errors (ErrorAnalysis | None): The errors; None if the task was not kept.
    knows_seen (bool): Whether it is known which concepts have training mentions.
    """

    title: str
    hits: list[bool]
    errors: ErrorAnalysis | None
    knows_seen: bool


def read_findings(folder: str | Path, evaluation: Evaluation) -> dict[tuple[str, str], Finding]:
    """Read the predictions of an evaluation; of runs that differ in their seed, those of the first.

    folder (str | Path): The run's folder: predictions/<key>.jsonl.gz, tasks/<task>.json, and possibly
        tasks/<task>.seen_ids.json, a list of the concepts of training mentions.
    evaluation (Evaluation): The evaluation.
    RETURNS (dict[tuple[str, str], Finding]): By system and task.
    RAISES (ValueError): If predictions or tasks are malformed or don't fit together.
    """
    folder = Path(folder)
    findings: dict[tuple[str, str], Finding] = {}
    tasks = show_progress(list(evaluation.tasks.items()), description="Analysing errors", unit="tasks")
    for name, info in tasks:
        paths: dict[str, tuple[str, Path]] = {}
        for measurement in gather_measurements(evaluation, name):
            first = next(iter(measurement.rows.values()))
            path = folder / PREDICTIONS_FOLDER / f"{first.key}.jsonl.gz"
            if path.is_file():
                paths[measurement.system] = measurement.title, path
        task = _read_task(folder, name) if paths else None
        seen_ids = _read_seen(folder, name)
        for system, (title, path) in paths.items():
            predictions = read_predictions(path)
            hits = [is_hit(prediction, info.level, 1) for prediction in predictions]
            errors = analyse_errors(predictions, task, level=info.level, seen_ids=seen_ids) if task else None
            findings[system, name] = Finding(title, hits, errors, seen_ids is not None)
    return findings


def _read_task(folder: Path, name: str) -> LinkingTask | None:
    path = folder / TASKS_FOLDER / f"{name}.json"
    return LinkingTask.from_disk(path) if path.is_file() else None


def _read_seen(folder: Path, name: str) -> frozenset[str] | None:
    path = folder / TASKS_FOLDER / f"{name}{SEEN_ENDING}"
    return frozenset(json.loads(path.read_text(encoding="utf8"))) if path.is_file() else None
