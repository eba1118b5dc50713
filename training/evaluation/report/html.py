"""Reports as one file of HTML, with the figures in it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ...errors import Errors
from .document import Picture, Section, Table

MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
STYLE = Path(__file__).with_name("report.css")


def to_html(title: str, sections: Sequence[Section]) -> str:
    """Write a report as HTML that needs no other file.

    title (str): Its title.
    sections (Sequence[Section]): Its sections.
    RETURNS (str): HTML.
    RAISES (ValueError): If a figure is neither SVG nor PNG.
    """
    contents, parts = [], []
    for number, section in enumerate(sections, 1):
        place = f"section-{number}"
        inner = [
            f'<li><a href="#{place}-{count}">{_escape(sub.title)}</a></li>' for count, sub in _count(section.sections)
        ]
        listed = f"<ul>{''.join(inner)}</ul>" if inner else ""
        contents.append(f'<li><a href="#{place}">{_escape(section.title)}</a>{listed}</li>')
        parts.append(_write_section(section, "h2", place))
        parts += [_write_section(sub, "h3", f"{place}-{count}") for count, sub in _count(section.sections)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escape(title)}</title>\n<style>\n{STYLE.read_text(encoding='utf8')}</style>\n</head>\n<body>\n"
        f'<header><h1>{_escape(title)}</h1></header>\n<nav aria-label="Contents"><ol>{"".join(contents)}</ol></nav>\n'
        f"<main>\n{''.join(parts)}</main>\n</body>\n</html>\n"
    )


def _count(sections: Sequence[Section]) -> list[tuple[int, Section]]:
    return list(enumerate(sections, 1))


def _escape(text: str) -> str:
    return escape(text, quote=True)


def _write_section(section: Section, heading: str, place: str) -> str:
    blocks = "".join(_write_block(block) for block in section.blocks)
    return f'<{heading} id="{place}">{_escape(section.title)}</{heading}>\n{blocks}'


def _write_block(block: str | Table | Picture) -> str:
    if isinstance(block, Table):
        return _write_table(block)
    if isinstance(block, Picture):
        return _write_picture(block)
    return f"<p>{_escape(block)}</p>\n"


def _write_table(table: Table) -> str:
    caption = "".join(f"<li>{_escape(paragraph)}</li>" for paragraph in table.caption)
    notes = f"<ul>{caption}</ul>" if caption else ""
    head = "".join(f'<th scope="col" class="{column.kind}">{_escape(column.title)}</th>' for column in table.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td class="{column.kind}">{_escape(value)}</td>' for column, value in zip(table.columns, row, strict=True)
        )
        + "</tr>\n"
        for row in table.rows
    )
    body = (
        f'<div class="scroll" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n'
        "</table></div>\n"
    )
    if table.is_folded:
        return f"<details><summary>{_escape(table.title)}</summary>\n{notes}{body}</details>\n"
    return f"<figure><figcaption><strong>{_escape(table.title)}</strong>{notes}</figcaption>\n{body}</figure>\n"


def _write_picture(picture: Picture) -> str:
    ending = picture.path.suffix.lower()
    if ending not in MEDIA_TYPES:
        raise ValueError(Errors.E784.format(file=picture.path))
    # An SVG is an image like others here: several of them in one page would share the ids in them.
    data = base64.b64encode(picture.path.read_bytes()).decode("ascii")
    return (
        f'<figure><img src="data:{MEDIA_TYPES[ending]};base64,{data}" alt="{_escape(picture.title)}">\n'
        f"<figcaption><strong>{_escape(picture.title)}</strong> {_escape(picture.caption)}</figcaption></figure>\n"
    )
