"""Tables in Markdown, and text in Markdown and HTML, with the direction of its letters kept to itself."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from markupsafe import Markup, escape

# Text that runs from right to left, and marks that turn the direction.
_TURNING = {"R", "AL", "AN", "RLE", "RLO", "LRE", "LRO", "RLI", "LRI", "FSI"}
_ISOLATES = re.compile("[\u2066-\u2069]")
FIRST_STRONG, POP = "\u2068", "\u2069"
# The text of a cell without a value.
NOTHING = "–"
# Longer cells are cut: some names have thousands of characters.
LONGEST_CELL = 300
# Within words an underscore means nothing.
_MARKUP = re.compile(r"[\\`*\[\]<>|&$~]|(?<!\w)_|_(?!\w)")


def escape_markdown(text: str) -> str:
    """Escape the markup of Markdown, on one line, and keep the direction of its letters to itself."""
    escaped = _MARKUP.sub(lambda match: "\\" + match[0], " ".join(_ISOLATES.sub("", text).split()))
    return f"{FIRST_STRONG}{escaped}{POP}" if _turns(text) else escaped


def isolate(text: str) -> Markup:
    """Escape the markup of HTML, and keep the direction of its letters to itself."""
    return Markup("<bdi>{}</bdi>").format(_ISOLATES.sub("", text)) if _turns(text) else escape(text)


def cut_text(text: str, longest: int = LONGEST_CELL) -> str:
    """Shorten a text, and mark that it was cut."""
    return text if len(text) <= longest else f"{text[: longest - 2].rstrip()} …"


def format_rows(header: Sequence[str], rows: Sequence[Sequence[str]], n_text_columns: int | None = None) -> str:
    """Write a table as Markdown. Cells are escaped; columns after the first n hold numbers."""
    n_text = len(header) if n_text_columns is None else n_text_columns
    marks = ["---" if number < n_text else "---:" for number in range(len(header))]
    cells = [[escape_markdown(cut_text(cell)) for cell in row] for row in (header, *rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (cells[0], marks, *cells[1:]))


def list_counts(counts: Mapping[str, int]) -> str:
    """List counts with their names: "2 documents, 5 mentions"."""
    return ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in counts.items())


def format_values(values: Sequence[float], sign: str = " ± ") -> str:
    """Write the mean of seeds with one decimal, and behind the sign the standard deviation if there are several."""
    if not values:
        return NOTHING
    return f"{fmean(values):.1f}" + (f"{sign}{stdev(values):.1f}" if len(values) > 1 else "")


def _turns(text: str) -> bool:
    return any(unicodedata.bidirectional(letter) in _TURNING for letter in text)
