"""Escape text for Markdown and HTML, with the direction of its letters kept to itself."""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup, escape

# Text that runs from right to left, and marks that turn the direction.
_TURNING = {"R", "AL", "AN", "RLE", "RLO", "LRE", "LRO", "RLI", "LRI", "FSI"}
_ISOLATES = re.compile("[\u2066-\u2069]")
FIRST_STRONG, POP = "\u2068", "\u2069"
# Within words an underscore means nothing.
_MARKUP = re.compile(r"[\\`*\[\]<>|&$~]|(?<!\w)_|_(?!\w)")


def escape_markdown(text: str) -> str:
    """Escape what is markup in Markdown, on one line, and keep the direction of its letters to itself.

    text (str): Plain text.
    RETURNS (str): Markdown.
    """
    escaped = _MARKUP.sub(lambda match: "\\" + match[0], " ".join(_ISOLATES.sub("", text).split()))
    return f"{FIRST_STRONG}{escaped}{POP}" if _turns(text) else escaped


def isolate(text: str) -> Markup:
    """Escape what is markup in HTML, and keep the direction of its letters to itself.

    text (str): Plain text.
    RETURNS (Markup): HTML.
    """
    return Markup("<bdi>{}</bdi>").format(_ISOLATES.sub("", text)) if _turns(text) else escape(text)


def _turns(text: str) -> bool:
    return any(unicodedata.bidirectional(letter) in _TURNING for letter in text)
