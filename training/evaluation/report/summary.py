"""The summary of a report: one picture and one table of systems by corpora."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from ...data.headlines import name_metric
from ...figures.pictures import COLOURS, MARKERS, house_style, save_picture
from ..folder import FIGURES_FOLDER, Evaluation
from .document import Column, Picture, ReportSection, Table
from .measured import gather_measurements
from .values import NOTHING, format_values
from .writing import shorten

PICTURE_FILE = "systems.svg"
LONGEST_LABEL = 40
WIDTH, ROW_HEIGHT, MARGIN, LEGEND_HEIGHT = 7.0, 0.3, 0.7, 0.2

# Accuracies of the seeds of a system, in percent, by system and corpus.
Summary = dict[str, dict[str, list[float]]]


def make_summary_section(evaluation: Evaluation, corpora: Mapping[str, Sequence[str]], folder: Path) -> ReportSection:
    """Draw and list how often each system is right at rank 1 on each corpus.

    evaluation (Evaluation): The evaluation.
    corpora (Mapping[str, Sequence[str]]): The tasks of each corpus.
    folder (Path): The folder of the evaluation, which gets the picture.
    RETURNS (ReportSection): The picture and the table.
    """
    chosen = [_choose_task(evaluation, tasks) for tasks in corpora.values()]
    titles = {name: f"{evaluation.tasks[name].title}, {evaluation.tasks[name].protocol}" for name in chosen}
    found: Summary = {}
    for name in chosen:
        metric = name_metric(1, evaluation.tasks[name].level)
        for measurement in gather_measurements(evaluation, name):
            label = ", ".join(part for part in (measurement.title, _name_search(measurement.similarity)) if part)
            found.setdefault(label, {})[name] = measurement.get_values(metric)
    rows = [
        [system, *(format_values(scores.get(name, [])) if name in scores else NOTHING for name in chosen)]
        for system, scores in found.items()
    ]
    caption = [
        "Mentions that are right at rank 1, in percent; behind ± the standard deviation over seeds. Each column is one "
        "corpus under the protocol of its published figures, or under its first one. All figures follow below."
    ]
    columns = [Column("System"), *(Column(title, "number") for title in titles.values())]
    table = Table("Systems by corpora: acc@1", columns, rows, caption)
    if not any(values for scores in found.values() for values in scores.values()):
        return ReportSection("Systems by corpora", [table])
    path = folder / FIGURES_FOLDER / PICTURE_FILE
    _draw(found, titles, path)
    text = "One line for each corpus, one mark for each system: mentions that are right at rank 1, in percent."
    return ReportSection("Systems by corpora", [Picture(path, "Systems by corpora", text), table])


def _choose_task(evaluation: Evaluation, tasks: Sequence[str]) -> str:
    """Choose the task that others have published figures of, or the first one that was measured."""
    measured = [name for name in tasks if any(row.task == name for row in evaluation.rows)] or list(tasks)
    return next((name for name in measured if evaluation.tasks[name].is_published), measured[0])


def _name_search(similarity: str) -> str:
    return "" if similarity in ("", "cosine") else similarity


def _draw(found: Summary, titles: Mapping[str, str], path: Path) -> None:
    with house_style("Systems by corpora"):
        # Not pyplot, which keeps figures and needs a display.
        from matplotlib.figure import Figure

        figure = Figure(
            figsize=(WIDTH, MARGIN + ROW_HEIGHT * len(titles) + LEGEND_HEIGHT * (len(found) + 1) // 2),
            layout="constrained",
        )
        axes = figure.subplots()
        place = {name: -number for number, name in enumerate(titles)}
        for number, (system, scores) in enumerate(found.items()):
            points = [(fmean(values), place[name]) for name, values in scores.items() if values]
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number // len(COLOURS) % len(MARKERS)]
            label = shorten(system, LONGEST_LABEL)
            axes.plot([x for x, _ in points], [y for _, y in points], marker, color=colour, markersize=6, label=label)
        axes.set_yticks(list(place.values()), [shorten(title, LONGEST_LABEL) for title in titles.values()])
        axes.set_ylim(-len(titles) + 0.5, 0.5)
        axes.grid(axis="y", linewidth=0.4, alpha=0.5)
        axes.set_xlabel("Right at rank 1 (%)")
        figure.legend(loc="outside upper left", ncols=2)
        save_picture(figure, path)
