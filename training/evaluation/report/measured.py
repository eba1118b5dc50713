"""What a run has measured, as it lies in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import Errors

METRICS_FILE = "metrics.json"
NEEDED = ("versions", "systems", "tasks", "missing", "rows")


@dataclass(frozen=True)
class Measurement:
    """What was measured of a system for a task; of several runs that differ in their seed, all together.

    system (str): The id of the first run.
    title (str): What the system is called.
    published (Optional[str]): What it is called where it has published figures.
    similarity (str): The similarity, such as "cosine".
    search (str): The search, such as "exact".
    scores (Dict[Any, Dict[str, Any]]): Scores, as shares, by seed.
    """

    system: str
    title: str
    published: str | None
    similarity: str
    search: str
    scores: dict[Any, dict[str, Any]]

    def get_values(self, metric: str) -> list[float]:
        """Get the score of each seed.

        metric (str): The metric.
        RETURNS (List[float]): Per cent; none if a run lacks the metric.
        """
        values = [row.get(metric) for row in self.scores.values()]
        return [100.0 * value for value in values if value is not None] if None not in values else []


def read_metrics(folder: str | Path) -> dict[str, Any]:
    """Read what a run has measured.

    folder (str | Path): The run's folder.
    RETURNS (dict): What is in metrics.json.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If it is of another form, or has a row of a system or a task that it doesn't describe.
    """
    path = Path(folder) / METRICS_FILE
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    try:
        metrics = json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise ValueError(Errors.E781.format(file=path, reason=error)) from error
    reason = _find_fault(metrics)
    if reason:
        raise ValueError(Errors.E781.format(file=path, reason=reason))
    return metrics


def _find_fault(metrics: Any) -> str:
    if not isinstance(metrics, dict):
        return "it is no object"
    lacking = [key for key in NEEDED if key not in metrics]
    if lacking:
        return f"it lacks {', '.join(lacking)}"
    for number, row in enumerate(metrics["rows"], 1):
        if row.get("system") not in metrics["systems"] or row.get("task") not in metrics["tasks"]:
            return f"row {number} is of the system {row.get('system')!r} and the task {row.get('task')!r}"
    return ""


def gather_measurements(metrics: Mapping[str, Any], task: str) -> list[Measurement]:
    """Gather what was measured for a task: runs that differ in their seed together.

    metrics (Mapping[str, Any]): As `read_metrics` gives it.
    task (str): The task.
    RETURNS (List[Measurement]): In the order of the rows.
    RAISES (ValueError): If two runs can't be told apart.
    """
    gathered: dict[tuple[str, str, str], Measurement] = {}
    for row in metrics["rows"]:
        if row["task"] != task:
            continue
        system = metrics["systems"][row["system"]]
        similarity, search = row.get("similarity") or "", row.get("search") or ""
        first = Measurement(row["system"], system["title"], system.get("published"), similarity, search, {})
        measurement = gathered.setdefault((system.get("group") or row["system"], similarity, search), first)
        run = row["system"] if system.get("seed") is None else system["seed"]
        if run in measurement.scores:
            reason = f"{row['system']} on {task} is there twice, or has the seed of another run"
            raise ValueError(Errors.E781.format(file=METRICS_FILE, reason=reason))
        measurement.scores[run] = row
    return list(gathered.values())


def label_tasks(metrics: Mapping[str, Any], tasks: Sequence[str]) -> dict[str, str]:
    """Label the tasks of a corpus.

    metrics (Mapping[str, Any]): As `read_metrics` gives it.
    tasks (Sequence[str]): The tasks.
    RETURNS (Dict[str, str]): For each its protocol, or its name if another has the same protocol.
    """
    protocols = [metrics["tasks"][name]["protocol"] for name in tasks]
    return {
        name: protocol if protocols.count(protocol) == 1 else name
        for name, protocol in zip(tasks, protocols, strict=True)
    }


def name_corpora(metrics: Mapping[str, Any]) -> dict[str, list[str]]:
    """Name the tasks of each corpus.

    metrics (Mapping[str, Any]): As `read_metrics` gives it.
    RETURNS (Dict[str, List[str]]): The tasks by corpus, in the order of the tasks.
    """
    corpora: dict[str, list[str]] = {}
    for name, task in metrics["tasks"].items():
        corpora.setdefault(task["corpus"], []).append(name)
    return corpora
