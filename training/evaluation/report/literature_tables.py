"""Tables of published figures, apart from what was measured here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_lowercase
from typing import TypeVar

from .document import Column, ReportSection, Table
from .literature import PublishedFigure, read_literature, read_sources
from .values import NOTHING

T = TypeVar("T")


def make_literature_section() -> ReportSection:
    """Put all published figures together.

    RETURNS (ReportSection): A section of each source, with a table for each of its tables.
    """
    figures, sections = read_literature(), []
    for source in read_sources().values():
        blocks = [
            _make_table(
                table, title, [figure for figure in figures if (figure.source, figure.table) == (source.name, table)]
            )
            for table, title in source.tables.items()
        ]
        sections.append(ReportSection(source.short, [f"{source.citation} {source.url}", *blocks]))
    text = "These figures are copied from the literature, as they are printed there. None was measured here."
    return ReportSection("Published figures", [text], sections, is_folded=True)


def _make_table(table: str, title: str, figures: Sequence[PublishedFigure]) -> Table:
    corpora, metrics = _collect(figure.corpus for figure in figures), _collect(figure.metric for figure in figures)
    notes = dict(zip(_collect(figure.note for figure in figures if figure.note), ascii_lowercase, strict=False))
    values = {
        (_get_row(figure), figure.corpus, figure.metric): figure.printed
        + (f" [{notes[figure.note]}]" if figure.note else "")
        for figure in figures
    }
    rows = []
    for row in _collect(map(_get_row, figures)):
        cells = [[values.get((row, corpus, metric), NOTHING) for metric in metrics] for corpus in corpora]
        rows.append([*row, *(NOTHING if set(cell) == {NOTHING} else "/".join(cell) for cell in cells)])
    columns = [Column("System"), Column("Pooling"), Column("Trained on the corpus")]
    columns += [Column(corpus, "published") for corpus in corpora]
    unit = "" if metrics == ["mcsm"] else ", per cent"
    caption = [f"{title} Figures: {'/'.join(metrics)}{unit}.", *(f"[{mark}] {note}" for note, mark in notes.items())]
    return Table(figures[0].where, columns, rows, caption)


def _get_row(figure: PublishedFigure) -> tuple[str, str, str]:
    return figure.system, figure.pooling or NOTHING, "yes" if figure.supervised else "no"


def _collect(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))
