"""What `measure` has left in a folder: runs of one group, which differ in their seed, are one line of a table."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ..evaluation.frame import read_results

MEASURED_FILE = "measured.json"
# A metric and its rank, if it has one.
Metric = tuple[str, int | None]


class Line(NamedTuple):
    """The figures of a system on a task, by seed, or by system if it has none."""

    system: str
    title: str
    published: str
    published_pooling: str
    runs: dict[int | str, dict[Metric, float]]

    @property
    def label(self) -> str:
        """The title, with the number of seeds if there are several."""
        return f"{self.title} ({len(self.runs)} seeds)" if len(self.runs) > 1 else self.title

    def list_values(self, metric: Metric) -> list[float]:
        """List the figure of each seed in per cent; none if a run lacks it."""
        values = [figures.get(metric) for figures in self.runs.values()]
        return [100.0 * value for value in values if value is not None] if None not in values else []


class Results:
    """The results in a folder of `measure`."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.frame = read_results(self.folder)
        path = self.folder / MEASURED_FILE
        try:
            facts = json.loads(path.read_text(encoding="utf8"))
            self.systems: dict[str, dict[str, Any]] = facts["systems"]
            self.tasks: dict[str, dict[str, Any]] = facts["tasks"]
        except (ValueError, KeyError, TypeError) as error:
            raise self._explain(f"it is not what `measure` writes: {error!r}") from error
        self.facts: dict[str, Any] = facts
        for column, described in (("system", self.systems), ("task", self.tasks)):
            if unknown := [name for name in self.frame[column].unique().sort() if name not in described]:
                raise self._explain(f"the frame has the {column} {unknown[0]!r}, which is not described")

    @cached_property
    def lines(self) -> dict[str, list[Line]]:
        """The lines of each task, in the order of the frame."""
        gathered: dict[str, dict[str, Line]] = {task: {} for task in self.tasks}
        owners: dict[tuple[str, str, int | str], str] = {}
        for row in self.frame.iter_rows(named=True):
            name, task = row["system"], row["task"]
            system = self.systems[name]
            group = system.get("group") or name
            line = Line(name, system["title"], system["published"], system["published_pooling"], {})
            line = gathered[task].setdefault(group, line)
            run = name if row["seed"] is None else row["seed"]
            if owners.setdefault((task, group, run), name) != name:
                raise self._explain(f"{name} on {task} has the seed of {owners[task, group, run]}")
            figures, metric = line.runs.setdefault(run, {}), (row["metric"], row["rank"])
            if metric in figures:
                raise self._explain(f"{name} on {task} is there twice")
            figures[metric] = row["value"]
        return {task: list(lines.values()) for task, lines in gathered.items()}

    @cached_property
    def corpora(self) -> dict[str, list[str]]:
        """The linking tasks of each corpus."""
        corpora: dict[str, list[str]] = {}
        for name, task in self.tasks.items():
            if is_linking(task):
                corpora.setdefault(task["corpus"], []).append(name)
        return corpora

    def label_task(self, name: str) -> str:
        """Label a task among those of its corpus: its protocol, or its name if another has the same protocol."""
        same = [self.tasks[other]["protocol"] for other in self.corpora[self.tasks[name]["corpus"]]]
        protocol = self.tasks[name]["protocol"]
        return protocol if same.count(protocol) == 1 else name

    def _explain(self, reason: str) -> ValueError:
        return ValueError(
            f"{self.folder / MEASURED_FILE} can't be reported on: {reason}. It was probably edited, or written by "
            "another version. Measure again into an empty folder."
        )


def is_linking(task: dict[str, Any]) -> bool:
    """Check whether a task counts which names are found for mentions."""
    return bool(task.get("level"))


def list_metrics(task: dict[str, Any]) -> list[Metric]:
    """List the metrics that tables show of a linking task: accuracy at each rank, or precision, recall and F1."""
    if task["level"] == "answer":
        return [("precision", None), ("recall", None), ("f1", None)]
    return [("acc" if task["level"] == "concept" else "row_acc", rank) for rank in task["ranks"]]


def label_metric(metric: Metric) -> str:
    """Write a metric for readers, as the literature does, which is silent about the level: "acc@1", "F1"."""
    name, rank = metric
    name = name.removeprefix("row_").replace("_", " ").replace("f1", "F1").replace("mcsm", "MCSM")
    return name if rank is None else f"{name}@{rank}"
