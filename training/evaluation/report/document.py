"""The parts of a report. All text is plain: templates turn it into Markdown and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ColumnKind = Literal["text", "number", "published"]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    title (str): What stands above it.
    kind (str): "text"; "number" for measured figures; or "published" for figures of the literature, which look
        different.
    """

    title: str
    kind: ColumnKind = "text"


@dataclass(frozen=True)
class Table:
    """A table.

    title (str): What stands above it.
    columns (list[Column]): Its columns.
    rows (list[list[str]]): Its fields.
    caption (list[str]): What has to be known to read it, in paragraphs.
    is_folded (bool): Whether it is shown only when it is asked for, where that is possible.
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
    title (str): What stands above it.
    caption (str): What it shows.
    """

    path: Path
    title: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A part of a report.

    title (str): What stands above it.
    blocks (Sequence[str | Table | Picture]): Paragraphs, tables and figures.
    sections (Sequence[Section]): The sections in it, which have none in them.
    is_folded (bool): Whether it is shown only when it is asked for, where that is possible.
    """

    title: str
    blocks: Sequence[str | Table | Picture] = ()
    sections: Sequence[Section] = ()
    is_folded: bool = False
