"""Tables of significance tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from ...data.headlines import name_metric
from ..folder import Evaluation, TaskInfo
from .document import Column, Table
from .measured import Measurement, gather_measurements, label_tasks
from .significance import compare_hits, compare_means, compare_seeds, compare_with_figure
from .tables import cite, find_published, name_system

CAPTION = [
    "All tests are two-sided, of acc@1 at the level of the table above, and not corrected for their number. "
    "Differences are in percentage points.",
    "A published figure counts as exact. McNemar's test takes mentions as independent, though many are repeated, and "
    "compares each system with the best of those whose predictions were kept; of several seeds the first. Its "
    "differences are over all mentions, also where the table averages over folds.",
]
COLUMNS = [
    Column("Protocol"),
    Column("System"),
    Column("Compared with"),
    Column("Difference", "number"),
    Column("Test"),
]


def make_comparison_table(
    evaluation: Evaluation, tasks: Sequence[str], hits: Mapping[tuple[str, str], Sequence[bool]]
) -> Table | None:
    """Make the table of the tests of a corpus.

    evaluation (Evaluation): The evaluation.
    tasks (Sequence[str]): The tasks of the corpus.
    hits (Mapping[tuple[str, str], Sequence[bool]]): Whether each mention is right, by system and task.
    RETURNS (Table | None): A line for each test; None if there is nothing to test.
    """
    rows: list[list[str]] = []
    labels = label_tasks(evaluation, tasks)
    for name in tasks:
        task = evaluation.tasks[name]
        measurements = gather_measurements(evaluation, name)
        tests = [*_compare_runs(measurements, task), *_compare_predictions(measurements, name, hits)]
        rows += [[labels[name], *fields] for fields in tests]
    if not rows:
        return None
    title = evaluation.tasks[tasks[0]].title
    return Table(f"{title}: significance", COLUMNS, rows, CAPTION)


def _compare_runs(measurements: Sequence[Measurement], task: TaskInfo) -> Iterator[list[str]]:
    metric = name_metric(1, task.level)
    for measurement in measurements:
        values, figure = measurement.get_values(metric), find_published(measurement, task).get("acc_at_1")
        if figure and len(values) > 1:
            result = compare_with_figure(values, figure.value)
            other = f"{figure.system}, {figure.printed} ({cite(figure)})"
            yield [_name(measurement), other, f"{fmean(values) - figure.value:+.1f}", str(result)]
    for first, second in combinations(measurements, 2):
        values, others = first.get_values(metric), second.get_values(metric)
        if min(len(values), len(others)) < 2 or _get_search(first) != _get_search(second):
            continue
        if set(first.rows) == set(second.rows):
            # Runs of one seed share what the seed draws.
            in_order = [100.0 * second.rows[seed].figures[metric] for seed in first.rows]
            result = compare_seeds(values, in_order)
        else:
            result = compare_means(values, others)
        yield [_name(first), _name(second), f"{fmean(values) - fmean(others):+.1f}", str(result)]


def _compare_predictions(
    measurements: Sequence[Measurement], task: str, hits: Mapping[tuple[str, str], Sequence[bool]]
) -> Iterator[list[str]]:
    kept = {measurement.system: measurement.title for measurement in measurements if (measurement.system, task) in hits}
    if len(kept) < 2:
        return
    best = max(kept, key=lambda system: fmean(hits[system, task]))
    for system in kept:
        if system != best:
            mine, others = hits[system, task], hits[best, task]
            gain = 100.0 * (fmean(mine) - fmean(others))
            yield [kept[system], kept[best], f"{gain:+.1f}", str(compare_hits(mine, others))]


def _name(measurement: Measurement) -> str:
    return ", ".join(part for part in (name_system(measurement), *_get_search(measurement)) if part)


def _get_search(measurement: Measurement) -> tuple[str, str]:
    return measurement.similarity, measurement.search
