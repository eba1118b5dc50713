"""Reports as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from .document import Picture, Section, Table

# Within words an underscore means nothing.
_MARKUP = re.compile(r"[\\`*\[\]<>|&$~]|(?<!\w)_|_(?!\w)")


def to_markdown(title: str, sections: Sequence[Section], folder: Path) -> str:
    """Write a report as Markdown.

    title (str): Its title.
    sections (Sequence[Section]): Its sections.
    folder (Path): Where it will be, to which the paths of figures are relative.
    RETURNS (str): Markdown, with tables as GitHub reads them.
    """
    lines = [f"# {escape(title)}", ""]
    for section in sections:
        lines += _write_section(section, "##", folder)
    return "\n".join(lines).rstrip() + "\n"


def escape(text: str) -> str:
    """Escape what is markup in Markdown, and make one line of it.

    text (str): Plain text.
    RETURNS (str): Markdown.
    """
    return _MARKUP.sub(lambda match: "\\" + match[0], " ".join(text.split()))


def _write_section(section: Section, marks: str, folder: Path) -> list[str]:
    lines = [f"{marks} {escape(section.title)}", ""]
    for block in section.blocks:
        if isinstance(block, Table):
            lines += _write_table(block)
        elif isinstance(block, Picture):
            path = quote(block.path.relative_to(folder).as_posix())
            lines += [f"![{escape(block.title)}]({path})", "", f"*{escape(block.title)}.* {escape(block.caption)}", ""]
        else:
            lines += [escape(block), ""]
    for inner in section.sections:
        lines += _write_section(inner, marks + "#", folder)
    return lines


def _write_table(table: Table) -> list[str]:
    lines = [f"**{escape(table.title)}**", ""]
    if table.caption:
        lines += [*(f"- {escape(paragraph)}" for paragraph in table.caption), ""]
    titles = [_emphasise(escape(column.title), column.kind == "published") for column in table.columns]
    lines += [
        f"| {' | '.join(titles)} |",
        f"| {' | '.join('---' if column.kind == 'text' else '---:' for column in table.columns)} |",
    ]
    lines += [f"| {' | '.join(escape(value) for value in row)} |" for row in table.rows]
    return [*lines, ""]


def _emphasise(text: str, is_emphasised: bool) -> str:
    return f"*{text}*" if is_emphasised else text
