"""Offsets in code points, which Python and spaCy count in, and in the units of UTF-16, which Java and JavaScript do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from .fields import find_misfit
from .report import ExchangeReport


class Utf16Offsets:
    """Convert offsets of a text.

    text (str): The text. Characters beyond U+FFFF, such as emojis, are two units of UTF-16.
    """

    def __init__(self, text: str) -> None:
        self._units = [0, *accumulate(2 if ord(character) > 0xFFFF else 1 for character in text)]
        self._points = {unit: point for point, unit in enumerate(self._units)}

    def encode(self, offset: int) -> int:
        """Convert code points to units.

        offset (int): The offset in code points.
        RETURNS (int): It in units of UTF-16.
        """
        return self._units[offset]

    def decode(self, offset: int) -> int | None:
        """Convert units to code points.

        offset (int): The offset in units of UTF-16.
        RETURNS (int | None): It in code points; None for one outside of the text, or inside of a character.
        """
        return self._points.get(offset)


def decode_mentions(
    text: str, mentions: Sequence[tuple[int, int, str]], place: str, report: ExchangeReport
) -> list[tuple[int, int]]:
    """Find out what the offsets of a document count, by the mentions that are written beside them.

    text (str): The document's text.
    mentions (Sequence[tuple[int, int, str]]): Start, end and text of each mention.
    place (str): The document, for the report.
    report (ExchangeReport): Counts documents with offsets in units of UTF-16.
    RETURNS (list[tuple[int, int]]): Start and end of each in code points; as they are, unless all mentions fit as units
        of UTF-16 and not all fit as code points.
    """
    as_written = [(start, end) for start, end, _ in mentions]
    if max(text, default="") <= "\uffff" or all(_fits(text, *mention) for mention in mentions):
        return as_written
    offsets = Utf16Offsets(text)
    decoded = [(offsets.decode(start), offsets.decode(end)) for start, end in as_written]
    found = [(start, end) for start, end in decoded if start is not None and end is not None]
    if len(found) < len(mentions):
        return as_written
    if not all(_fits(text, *ends, mention[2]) for ends, mention in zip(found, mentions, strict=True)):
        return as_written
    report.note_odd("documents with offsets in units of UTF-16, which are converted", place)
    return found


def _fits(text: str, start: int, end: int, mention: str) -> bool:
    return find_misfit(text, start, end, mention) is None
