"""The results in a folder of `measure`. Runs of one group, which differ only in their seed, are one line of a table."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from ..data.accuracy import label_figure
from ..data.frame import read_results
from ..data.task import CONCEPT
from ..evaluation.measure import MEASURED_FILE, PREDICTIONS_FOLDER

FACTS = ("config", "versions", "seconds", "systems", "tasks", "results", "missing")
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
        """List the figure of each seed in per cent; none if a run lacks it, or if it is not defined."""
        values = [figures.get(metric, math.nan) for figures in self.runs.values()]
        return [] if any(map(math.isnan, values)) else [100.0 * value for value in values]


class Results:
    """The results in a folder of `measure`: the lines of each task, and facts about systems, tasks and run."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        frame = read_results(self.folder)
        try:
            facts = json.loads((self.folder / MEASURED_FILE).read_text(encoding="utf8"))
            self.facts: dict[str, Any] = {key: facts[key] for key in FACTS}
            self.systems: dict[str, dict[str, Any]] = facts["systems"]
            self.tasks: dict[str, dict[str, Any]] = facts["tasks"]
            self.measured = {(entry["system"], entry["task"]): entry for entry in facts["results"]}
            self.lines = {task: list(lines.values()) for task, lines in self._gather(frame).items()}
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self.folder / MEASURED_FILE} can't be reported on: {error!r}. It was probably edited, or written by "
                "another version. Measure again into an empty folder."
            ) from error
        # The linking tasks of each corpus.
        self.corpora: dict[str, list[str]] = {}
        for name, about in self.tasks.items():
            if about.get("level"):
                self.corpora.setdefault(about["corpus"], []).append(name)

    def _gather(self, frame: pl.DataFrame) -> dict[str, dict[str, Line]]:
        gathered: dict[str, dict[str, Line]] = {task: {} for task in self.tasks}
        for row in frame.iter_rows(named=True):
            name = row["system"]
            system = self.systems[name]
            run = name if row["seed"] is None else row["seed"]
            line = Line(name, system["title"] or name, system["published"], system["published_pooling"], {})
            line = gathered[row["task"]].setdefault(system["group"] or name, line)
            line.runs.setdefault(run, {})[row["metric"], row["rank"]] = row["value"]
        return gathered

    def label_task(self, name: str) -> str:
        """Label a task among the tasks of its corpus: its protocol, or its name if another has the same protocol."""
        task = self.tasks[name]
        same = [self.tasks[other]["protocol"] for other in self.corpora[task["corpus"]]]
        return task["protocol"] if same.count(task["protocol"]) == 1 else name

    def get_details(self, system: str, task: str) -> dict[str, Any]:
        """Get what a measurement found besides its figures."""
        return self.measured.get((system, task), {}).get("details", {})

    def find_predictions(self, system: str, task: str) -> Path | None:
        """Find the file of predictions; None if they were not kept."""
        key = self.measured.get((system, task), {}).get("key")
        path = self.folder / PREDICTIONS_FOLDER / f"{key}.jsonl.gz"
        return path if path.is_file() else None


def take_metric(task: dict[str, Any], rank: int = 1) -> Metric:
    """Return the main metric of a linking task, at a rank."""
    return ("acc" if task["level"] == CONCEPT else "row_acc"), rank


def label_metric(metric: Metric) -> str:
    """Write a metric as the literature does, without its level: "acc@1", "F1"."""
    return label_figure(metric[0].removeprefix("row_"), metric[1]).replace("_", " ")
