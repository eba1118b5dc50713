"""Reports written as Markdown and as HTML, from templates, with names of any length and direction."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, select_autoescape

from ...errors import Errors
from ...markup import escape_markdown, isolate
from .document import ReportSection

TEMPLATES = Path(__file__).with_name("templates")
MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
# Longer cells are cut: some names have thousands of characters.
LONGEST_CELL = 300


def to_markdown(title: str, sections: Sequence[ReportSection], folder: Path) -> str:
    """Write a report as Markdown.

    title (str): Its title.
    sections (Sequence[ReportSection]): Its sections.
    folder (Path): Its folder: the paths of figures are relative to it.
    RETURNS (str): Markdown, with tables as GitHub reads them.
    """
    environment = _make_environment()
    environment.filters["relative"] = lambda path: quote(path.relative_to(folder).as_posix())
    text = environment.get_template("report.md").render(title=title, sections=sections)
    lines = [line.rstrip() for line in text.splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def to_html(title: str, sections: Sequence[ReportSection]) -> str:
    """Write a report as HTML that needs no other file.

    title (str): Its title.
    sections (Sequence[ReportSection]): Its sections.
    RETURNS (str): HTML.
    RAISES (ValueError): If a figure is neither SVG nor PNG.
    """
    return _make_environment().get_template("report.html").render(title=title, sections=sections)


def _make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = {
        "escape_markdown": escape_markdown,
        "isolate": isolate,
        "shorten": shorten,
        "data_url": _make_data_url,
    }
    environment.filters.update(filters)
    return environment


def shorten(text: str, longest: int = LONGEST_CELL) -> str:
    """Shorten a text, and mark that it was cut.

    text (str): Plain text.
    longest (int): Characters that it may have.
    RETURNS (str): The text, or its beginning with an ellipsis.
    """
    return text if len(text) <= longest else f"{text[: longest - 2].rstrip()} …"


def format_rows(header: Sequence[str], rows: Sequence[Sequence[str]], n_text_columns: int | None = None) -> str:
    """Write a table as Markdown.

    header (Sequence[str]): The column headings.
    rows (Sequence[Sequence[str]]): Its cells, which are escaped.
    n_text_columns (int | None): How many columns hold text; the others hold numbers. None if all hold text.
    RETURNS (str): Its lines.
    """
    n_text = len(header) if n_text_columns is None else n_text_columns
    marks = ["---" if number < n_text else "---:" for number in range(len(header))]
    cells = [[escape_markdown(shorten(cell)) for cell in row] for row in (header, *rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (cells[0], marks, *cells[1:]))


def _make_data_url(path: Path) -> str:
    ending = path.suffix.lower()
    if ending not in MEDIA_TYPES:
        raise ValueError(Errors.E784.format(file=path))
    # An SVG is an image like others here: several of them in one page would share the ids in them.
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f"data:{MEDIA_TYPES[ending]};base64,{data}"
