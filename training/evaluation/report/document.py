"""What a report is made of, before it is written as Markdown or HTML. All text is plain: neither of the two."""

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
    kind (str): "text"; "number" for what was measured; or "published" for figures that others have published, which
        are to look different.
    """

    title: str
    kind: ColumnKind = "text"


@dataclass(frozen=True)
class Table:
    """A table.

    title (str): What stands above it.
    columns (List[Column]): Its columns.
    rows (List[List[str]]): Its fields.
    caption (List[str]): What has to be known to read it, in paragraphs.
    is_folded (bool): Whether it is to be shown only when it is asked for, where that is possible.
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
    blocks (Sequence[Union[str, Table, Picture]]): Paragraphs, tables and figures.
    sections (Sequence[Section]): The sections in it, which have none in them.
    """

    title: str
    blocks: Sequence[str | Table | Picture] = ()
    sections: Sequence[Section] = ()
