"""The report of documents that pipelines have linked: a table, errors with their sentences, and pictures."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...data.run_folder import write_text, write_whole
from ...figures.confidence import draw_confidence
from ..folder import Result
from ..report.literature import read_literature, read_sources
from ..report.values import NOTHING
from ..report.writing import format_rows
from .task import PROTOCOL

MARKDOWN = "documents.md"
# Columns of the table, with the figures in each: shares in per cent, but for the calibration error and the area.
COLUMNS: dict[str, tuple[str, ...]] = {
    "acc@1": ("acc_at_1",),
    "acc@5": ("acc_at_5",),
    "right, NIL included": ("right",),
    "NIL P/R/F1": ("nil_p", "nil_r", "nil_f"),
    "ECE": ("ece",),
    "AUROC": ("auroc",),
    "coverage at precision 95": ("coverage_at_precision_95",),
}
PLAIN = ("ece", "auroc")

Results = Mapping[str, Mapping[str, Result]]


def write_report(results: Results, output: str | Path) -> str:
    """Write the table of all documents, the errors of each pipeline, and a picture for each set of documents.

    results (Mapping[str, Mapping[str, Result]]): Results by pipeline and documents.
    output (str | Path): The folder.
    RETURNS (str): The table, Markdown.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    tasks = list(dict.fromkeys(task for of_tasks in results.values() for task in of_tasks))
    sections = []
    for task in tasks:
        figures = {name: of_tasks[task].figures for name, of_tasks in results.items()}
        for name, values in figures.items():
            write_errors(output / f"errors-{_name_file(task)}-{_name_file(name)}.tsv", values["errors"])
        picture = output / f"confidence-{_name_file(task)}.svg"
        caption = draw_confidence(figures, picture)
        sections.append(f"## {task}\n\n{format_table(task, figures)}\n![{caption}]({picture.name})\n\n{caption}\n")
    text = "# Gold mentions of whole documents\n\n" + "\n".join(sections)
    write_text(output / MARKDOWN, text)
    return text


def format_table(task: str, figures: Mapping[str, Mapping[str, Any]]) -> str:
    """Write a table of pipelines on the same documents, and published figures of the same protocol below.

    task (str): The documents; published figures are those of the corpus of this name.
    figures (Mapping[str, Mapping[str, Any]]): Figures by pipeline.
    RETURNS (str): Markdown.
    """
    rows = [
        [name, f"{values['mentions']:,}", *(_format(values, wanted) for wanted in COLUMNS.values())]
        for name, values in figures.items()
    ]
    corpus, sources = f"{task}.{PROTOCOL}", read_sources()
    published: dict[str, dict[str, str]] = {}
    for figure in read_literature():
        if figure.corpus == corpus:
            name = f"{figure.system} ({sources[figure.source].short}, published)"
            published.setdefault(name, {})[figure.metric] = figure.printed
    rows += [
        [name, NOTHING, *("/".join(values.get(metric, NOTHING) for metric in wanted) for wanted in COLUMNS.values())]
        for name, values in published.items()
    ]
    rows = [[re.sub(rf"^{NOTHING}(/{NOTHING})+$", NOTHING, cell) for cell in row] for row in rows]
    return format_rows(["", "mentions", *COLUMNS], rows, n_text_columns=1)


def _format(values: Mapping[str, Any], wanted: Sequence[str]) -> str:
    found = [(name, values.get(name)) for name in wanted]
    return "/".join(
        NOTHING if value is None else f"{value:.3f}" if name in PLAIN else f"{100 * value:.1f}" for name, value in found
    )


def write_errors(path: Path, errors: Sequence[Mapping[str, Any]]) -> None:
    """Write wrong decisions with their sentences, one a line, with tabs between fields.

    path (Path): The file.
    errors (Sequence[Mapping[str, Any]]): What `describe_error` returns, for each.
    """
    columns = list(errors[0]) if errors else ["kind"]
    with write_whole(path) as temporary, temporary.open("w", encoding="utf8", newline="") as file:
        writer = csv.DictWriter(file, columns, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(errors)


def _name_file(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_") or "_"
