"""The parts of a report. All text is plain: templates format it as Markdown and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ColumnKind = Literal["text", "number", "published"]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    title (str): The heading.
    kind (str): "text"; "number" for measured figures; or "published" for figures of the literature, which look
        different.
    """

    title: str
    kind: ColumnKind = "text"


@dataclass(frozen=True)
class Table:
    """A table.

    title (str): The heading.
    columns (list[Column]): Its columns.
    rows (list[list[str]]): Its fields.
    caption (list[str]): The caption, in paragraphs.
    is_folded (bool): Whether it is collapsed, in formats that support it.
    """

    title: str
    columns: list[Column]
    rows: list[list[str]]
    caption: list[str] = field(default_factory=list)
    is_folded: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure.

    path (Path): Its file: .svg or .png.
    title (str): The heading.
    caption (str): The caption.
    """

    path: Path
    title: str
    caption: str


@dataclass(frozen=True)
class ReportSection:
    """A part of a report.

    title (str): The heading.
    blocks (Sequence[str | Table | Picture]): Paragraphs, tables and figures.
    sections (Sequence[ReportSection]): The sections in it, which have none in them.
    is_folded (bool): Whether it is collapsed, in formats that support it.
    """

    title: str
    blocks: Sequence[str | Table | Picture] = ()
    sections: Sequence[ReportSection] = ()
    is_folded: bool = False
