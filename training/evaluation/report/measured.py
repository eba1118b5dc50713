"""Results of systems, with runs grouped over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import Errors
from ..folder import METRICS_FILE, Evaluation, Row


@dataclass(frozen=True)
class Measurement:
    """The results of a system on a task, of all its seeds.

    system (str): The id of the first run.
    title (str): The name of the system.
    published (str): The system of the literature to compare with; empty for none.
    published_pooling (str): The pooling of its figures, as the literature's table has it; empty for any.
    similarity (str): The similarity, such as "cosine".
    search (str): The search, such as "exact".
    rows (dict[int | str, Row]): Results by seed, or by system if it has none.
    """

    system: str
    title: str
    published: str
    published_pooling: str
    similarity: str
    search: str
    rows: dict[int | str, Row]

    def get_values(self, metric: str) -> list[float]:
        """Get the score of each seed.

        metric (str): The metric.
        RETURNS (list[float]): Percent; none if a run lacks the metric.
        """
        values = [row.figures.get(metric) for row in self.rows.values()]
        return [100.0 * value for value in values if value is not None] if None not in values else []


def gather_measurements(evaluation: Evaluation, task: str) -> list[Measurement]:
    """Collect the results of a task, with runs grouped over seeds.

    evaluation (Evaluation): The evaluation.
    task (str): The task.
    RETURNS (list[Measurement]): In the order of the rows.
    RAISES (ValueError): If two runs cannot be distinguished.
    """
    gathered: dict[tuple[str, str, str], Measurement] = {}
    for row in evaluation.rows:
        if row.task != task:
            continue
        system = evaluation.systems[row.system]
        search = row.search.get("similarity") or "", row.search.get("search") or ""
        first = Measurement(row.system, system.title, system.published, system.published_pooling, *search, {})
        measurement = gathered.setdefault((system.group or row.system, *search), first)
        run = row.system if system.seed is None else system.seed
        if run in measurement.rows:
            reason = f"{row.system} on {task} is there twice, or has the seed of another run"
            raise ValueError(Errors.E781.format(file=METRICS_FILE, reason=reason))
        measurement.rows[run] = row
    return list(gathered.values())


def label_tasks(evaluation: Evaluation, tasks: Sequence[str]) -> dict[str, str]:
    """Label the tasks of a corpus.

    evaluation (Evaluation): The evaluation.
    tasks (Sequence[str]): The tasks.
    RETURNS (dict[str, str]): For each its protocol, or its name if another has the same protocol.
    """
    protocols = [evaluation.tasks[name].protocol for name in tasks]
    return {
        name: protocol if protocols.count(protocol) == 1 else name
        for name, protocol in zip(tasks, protocols, strict=True)
    }


def name_corpora(evaluation: Evaluation) -> dict[str, list[str]]:
    """Name the tasks of each corpus.

    evaluation (Evaluation): The evaluation.
    RETURNS (dict[str, list[str]]): The tasks by corpus, in the order of the tasks.
    """
    corpora: dict[str, list[str]] = {}
    for name, task in evaluation.tasks.items():
        corpora.setdefault(task.corpus, []).append(name)
    return corpora
