"""Tables of accuracies: one line per system, with the protocol of each figure in the heading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from ...data.headlines import ANSWER, CONCEPT, ROW, label_figure, list_metrics
from ..folder import Evaluation, TaskInfo
from ..linking.accuracy import ANY_TIED
from .document import Column, Table
from .literature import METRICS, PublishedFigure, published_value, read_sources
from .measured import Measurement, gather_measurements, label_tasks
from .values import NOTHING, format_values

# A corpus with fewer mentions under a protocol of its own, by which others have published figures as well.
REFINED = "refined"
LEVELS = {
    ROW: "acc@k counts a mention as right if one of the first k names is one of a right concept",
    CONCEPT: "acc@k counts a mention as right if one of the first k distinct concepts is right",
    ANSWER: "the first name found for a mention is its one answer; precision is the share of answers that are right, "
    "recall the share of mentions with a right one",
}
TIES = (
    "Per cent. Names of equal score stand in the order of the dictionary; “any tied” is what acc@1 would be at best in "
    "another order. Behind ± stands the standard deviation over seeds."
)


def make_accuracy_table(evaluation: Evaluation, tasks: Sequence[str]) -> Table:
    """Make the table of a corpus.

    evaluation (Evaluation): The evaluation.
    tasks (Sequence[str]): The tasks of the corpus, one for each protocol.
    RETURNS (Table): A line for each system, similarity and search. A published figure stands beside a measured one only
        if both are of one protocol, with its citation.
    """
    labels = label_tasks(evaluation, tasks)
    lines: dict[tuple[str, str, str], list[str]] = {}
    columns = [Column("System"), Column("Similarity"), Column("Search")]
    for name in tasks:
        task = evaluation.tasks[name]
        measurements = gather_measurements(evaluation, name)
        cited = {place: find_published(measurement, task) for place, measurement in enumerate(measurements)}
        has_published = any(cited.values())
        added = _name_columns(labels[name], task, has_published)
        for fields in lines.values():
            fields += [NOTHING] * len(added)
        for place, measurement in enumerate(measurements):
            key = (name_system(measurement), measurement.similarity or NOTHING, measurement.search or NOTHING)
            fields = lines.setdefault(key, [NOTHING] * (len(columns) - 3 + len(added)))
            fields[-len(added) :] = _fill(measurement, task, cited[place], has_published)
        columns += added
    rows = [[*key, *fields] for key, fields in lines.items()]
    title = evaluation.tasks[tasks[0]].title
    caption = [TIES, *(f"{labels[name]}: {describe_task(evaluation.tasks[name])}" for name in tasks)]
    caption += [remark for name in tasks for remark in _describe_searches(evaluation, name, labels[name])]
    return Table(f"{title}: accuracy", columns, rows, caption)


def find_published(measurement: Measurement, task: TaskInfo) -> dict[str, PublishedFigure]:
    """Find the published figures of a system under the same protocol.

    measurement (Measurement): The system's results.
    task (TaskInfo): The task.
    RETURNS (dict[str, PublishedFigure]): By metric, without regard to the level; none if the protocol is another.
    """
    is_refined = task.protocol == REFINED and task.is_comparable
    if not measurement.published or not (task.is_published or is_refined):
        return {}
    corpus = f"{task.corpus}_{REFINED}" if is_refined else task.corpus
    metrics = [metric for metric in map(_find_cited, list_metrics(task.level, task.ranks)) if metric in METRICS]
    name, pooling = measurement.published, measurement.published_pooling
    found = {metric: published_value(name, corpus, metric, pooling=pooling) for metric in metrics}
    return {metric: figure for metric, figure in found.items() if figure}


def name_system(measurement: Measurement) -> str:
    """Name a system for a table.

    measurement (Measurement): The system's results.
    RETURNS (str): Its title, with the number of seeds if there are several.
    """
    n = len(measurement.rows)
    return f"{measurement.title} ({n} seeds)" if n > 1 else measurement.title


def describe_task(task: TaskInfo) -> str:
    """Describe the protocol of a task in one paragraph.

    task (TaskInfo): The task.
    RETURNS (str): Mentions, dictionary, what is done to both, level and average.
    """
    parts = [
        f"{task.mentions:,} mentions, of which the dictionary cannot answer {task.unanswerable:,}",
        f"dictionary: {task.dictionary}, {task.names:,} names, "
        f"{'with' if task.augmented else 'without'} the mentions of the training and development parts",
        f"abbreviations {'spelled out' if task.abbreviations else 'as they stand'}",
        f"mentions of several concepts {'looked up part by part' if task.composites else 'looked up whole'}",
        LEVELS[task.level],
        f"average: {task.aggregation}",
    ]
    if task.hash:
        parts.append(f"task {task.hash[:12]}")
    return f"{'; '.join(parts)}." + (f" {task.note.rstrip('.')}." if task.note else "")


def _describe_searches(evaluation: Evaluation, task: str, label: str) -> list[str]:
    """Say what approximate search has missed, and what look-up has answered before a system was asked."""
    remarks = []
    for row in evaluation.rows:
        if row.task != task:
            continue
        title, search = evaluation.systems[row.system].title, row.search
        if search.get("recall"):
            remarks.append(
                f"{label}, {title}: the index finds the nearest name of {100 * search['recall']:.1f} per cent."
            )
        if search.get("decided"):
            counts = ", ".join(f"{n:,} by the {what}" for what, n in search["decided"].items())
            remarks.append(f"{label}, {title}: distinct queries are answered: {counts}.")
    return remarks


def cite(figure: PublishedFigure) -> str:
    """Cite the table of a published figure.

    figure (PublishedFigure): The figure.
    RETURNS (str): Authors, year and table.
    """
    return f"{read_sources()[figure.source].short}, {figure.where}"


def _find_cited(metric: str) -> str:
    """Find the name that a figure has in the literature's table, which is silent about the level."""
    return metric.removeprefix("row_")


def _name_columns(label: str, task: TaskInfo, has_published: bool) -> list[Column]:
    names = [label_figure(_find_cited(metric)) for metric in list_metrics(task.level, task.ranks)]
    columns = [Column(f"{label}: {name}", "number") for name in names]
    columns.append(Column(f"{label}: acc@1, any tied", "number"))
    if has_published:
        cited = "/".join(names)
        columns += [Column(f"{label}: literature, {cited}", "published"), Column(f"{label}: difference", "number")]
    return columns


def _fill(
    measurement: Measurement, task: TaskInfo, figures: Mapping[str, PublishedFigure], has_published: bool
) -> list[str]:
    values = {metric: measurement.get_values(metric) for metric in list_metrics(task.level, task.ranks)}
    fields = [format_values(of_metric) for of_metric in values.values()]
    fields.append(format_values(measurement.get_values(ANY_TIED)))
    if not has_published:
        return fields
    if not figures:
        return [*fields, NOTHING, NOTHING]
    cited = [figures.get(_find_cited(metric)) for metric in values]
    printed = "/".join(figure.printed if figure else NOTHING for figure in cited)
    places = "; ".join(dict.fromkeys(cite(figure) for figure in figures.values()))
    gains = [
        f"{fmean(of_metric) - figure.value:+.1f}" if figure and of_metric else NOTHING
        for of_metric, figure in zip(values.values(), cited, strict=True)
    ]
    return [*fields, f"{printed} ({measurement.published}; {places})", "/".join(gains)]
