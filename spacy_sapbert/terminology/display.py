"""How concepts and terminologies look in a notebook and in a terminal: in short, and as plain text."""

from collections.abc import Iterable, Sequence
from html import escape

from ..text import normalize_name

# Values of a row, and letters of a value.
MAX_VALUES = 10
MAX_LENGTH = 400
Row = tuple[str, str]


def shorten_value(text: str) -> str:
    """Write a text in one line, without what steers a terminal. It comes from a file."""
    text = normalize_name(text)
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."


def join_values(values: Sequence[str]) -> str:
    """Write the first values in one line, and how many more there are."""
    parts = [shorten_value(value) for value in values[:MAX_VALUES]]
    if len(values) > MAX_VALUES:
        parts.append(f"and {len(values) - MAX_VALUES:,} more")
    return "; ".join(parts)


def write_rows(title: str, rows: Sequence[Row]) -> str:
    """Write a title and rows of two columns as lines."""
    width = max((len(key) for key, _ in rows), default=0)
    return "\n".join([title, *(f"{key:{width}}  {value}" for key, value in rows)])


def write_html(title: str, rows: Iterable[Row]) -> str:
    """Write a title and rows of two columns as a table in HTML."""
    # Jupyter aligns cells to the right.
    left = 'style="text-align: left"'
    lines = [f'<tr><th colspan="2" {left}>{escape(title)}</th></tr>']
    lines += [f"<tr><th {left}>{escape(key)}</th><td {left}>{escape(value)}</td></tr>" for key, value in rows]
    return f"<table>{''.join(lines)}</table>"
