"""The folder of an evaluation: its files, and the schema of each.

metrics.json                    `Evaluation`: systems, tasks, figures, missing corpora and systems
results/<key>.json              `Result`: the figures of a system on a task, under a hash of what determines them
predictions/<key>.jsonl.gz      `Prediction`: the names found for each mention
tasks/<task>.json               `LinkingTask`; and <task>.seen_ids.json, the concepts of training mentions
coder_tasks/<probe>.json        `ProbeResults`: semantic types, relations, rated word pairs
figures/, case_studies.json     pictures and tables, see `illustration`
report.md, report.html          the report of all of these
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from ..data.run_folder import write_text
from ..errors import Errors

METRICS_FILE, CASE_STUDIES_FILE = "metrics.json", "case_studies.json"
RESULTS_FOLDER, PREDICTIONS_FOLDER, TASKS_FOLDER = "results", "predictions", "tasks"
CODER_FOLDER, FIGURES_FOLDER, FIGURES_FILE = "coder_tasks", "figures", "figures.json"
SEEN_ENDING = ".seen_ids.json"
MARKDOWN_FILE, HTML_FILE = "report.md", "report.html"


class Schema(BaseModel):
    """Base class of JSON files."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Model = TypeVar("Model", bound=BaseModel)


class Result(Schema):
    """The figures of a system on a task.

    key (str): A hash of everything that determines the figures.
    identity (dict[str, Any]): The system's identity, see `System.identity`.
    figures (dict[str, Any]): By name, shares from 0 to 1: `acc_at_1` and so on, counts, and what else a task measures.
    search (dict[str, Any]): The search: `similarity`, `search`, and `recall` of the index, or how many queries
        each step of a back-off has `decided`.
    seconds (float): Duration.
    """

    key: str = ""
    identity: dict[str, Any] = Field(default_factory=dict)
    figures: dict[str, Any]
    search: dict[str, Any] = Field(default_factory=dict)
    seconds: float = 0.0


class Row(Result):
    """A result with its names.

    system (str): The system.
    task (str): The task.
    """

    system: str
    task: str


class SystemInfo(Schema):
    """A system, as reports describe it.

    title (str): Its name in reports.
    kind (str): Its kind.
    description (str): A description for reports.
    published (str): The system of the literature to compare with; empty for none.
    published_pooling (str): The pooling of its figures, as the literature's table has it; empty for any.
    group (str): Systems of one group differ only in their seed, and are averaged.
    seed (int | None): The seed of its training.
    fingerprint (str): The encoder's fingerprint; empty if it has none.
    """

    title: str
    kind: str = ""
    description: str = ""
    published: str = ""
    published_pooling: str = ""
    group: str = ""
    seed: int | None = None
    fingerprint: str = ""


class TaskInfo(Schema):
    """A task, as reports describe it.

    corpus (str): The corpus, as the literature's table has it.
    title (str): Its name in reports.
    protocol (str): The protocol.
    is_published (bool): Whether published figures were taken under this protocol.
    is_comparable (bool): Whether the literature has comparable figures at all.
    dictionary (str): A description of the dictionary.
    level (str): What is counted, see `LinkingTask`.
    ranks (list[int]): The ranks to show.
    aggregation (str): The average over mentions, micro or macro.
    abbreviations, composites, augmented (bool): Settings of the protocol.
    mentions, names, unanswerable (int): Counts.
    report (dict[str, Any]): All counts.
    hash (str): That of the task.
    note (str): A remark on its figures, for reports.
    """

    corpus: str
    title: str
    protocol: str
    is_published: bool
    is_comparable: bool = True
    dictionary: str
    level: str
    ranks: list[int]
    aggregation: str
    abbreviations: bool
    composites: bool
    augmented: bool
    mentions: int
    names: int
    unanswerable: int = 0
    report: dict[str, Any] = Field(default_factory=dict)
    hash: str = ""
    note: str = ""


class Missing(Schema):
    """A missing corpus or system.

    title (str): Its name in reports.
    reason (str): Why.
    corpus, system, task (str): Which; empty where it is no such thing.
    obtain (str): The place to get it.
    """

    title: str = ""
    reason: str
    corpus: str = ""
    system: str = ""
    task: str = ""
    obtain: str = ""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.corpus or f"{self.system} on {self.task}"


class Evaluation(Schema):
    """An evaluation: the contents of `metrics.json`."""

    settings: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str]
    seconds: float | None = None
    systems: dict[str, SystemInfo]
    tasks: dict[str, TaskInfo]
    missing: list[Missing]
    rows: list[Row]

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        for number, row in enumerate(self.rows, 1):
            if row.system not in self.systems or row.task not in self.tasks:
                raise ValueError(f"row {number} is of the system {row.system!r} and the task {row.task!r}")
        return self


class ProbeResult(Result):
    """A result with the name of the system."""

    name: str


class ProbeResults(Schema):
    """The latest results of a probe: semantic types, relations or rated word pairs."""

    results: list[ProbeResult] = Field(default_factory=list)
    missing: list[Missing] = Field(default_factory=list)


def write_schema(path: Path, data: BaseModel) -> None:
    """Write a file that is there whole or not at all.

    path (Path): The file; its folder is made if missing.
    data (BaseModel): The data.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(data.model_dump(mode="json"), indent=2, ensure_ascii=False))


def explain_results(path: Path, reason: object) -> str:
    """Say why a file holds no results.

    path (Path): The file.
    reason (object): The fault.
    RETURNS (str): A message.
    """
    return Errors.E747.format(path=path, reason=reason)


def explain_metrics(path: Path, reason: object) -> str:
    """Say why a file holds no metrics. See `explain_results`."""
    return Errors.E781.format(file=path, reason=reason)


def read_schema(model: type[Model], path: Path, explain: Callable[[Path, object], str] = explain_results) -> Model:
    """Read a file of JSON.

    model (type[BaseModel]): Its schema.
    path (Path): The file.
    explain (Callable): Makes the message of an error, of the path and the reason.
    RETURNS (BaseModel): Its contents.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If it holds something else.
    """
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    try:
        # Not pydantic's own reader, whose numbers may differ in the last digit.
        return model.model_validate(json.loads(path.read_text(encoding="utf8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(explain(path, f"{where}: {first['msg']}")) from error
    except ValueError as error:
        raise ValueError(explain(path, error)) from error


def read_evaluation(folder: str | Path) -> Evaluation:
    """Read the results of an evaluation.

    folder (str | Path): Its folder.
    RETURNS (Evaluation): The contents of `metrics.json`.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If it is malformed, or has a row of a system or a task that it does not describe.
    """
    return read_schema(Evaluation, Path(folder) / METRICS_FILE, explain_metrics)
