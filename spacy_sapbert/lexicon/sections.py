"""The sections, lines and sentences of a note. The matcher leaves headings out, short forms are read by their sections,
and what a section is about says something of the mentions in it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import srsly

from . import languages

# Shorter lines are items of a list, and not a text that has been wrapped.
MIN_WIDTH = 40
# The longest heading, in characters, and what is too short for one without a colon.
MOST_HEADING = 60
LEAST_HEADING = 2
# A heading before a colon, or in a line with a text below it; before it a sign of a list, and a number.
_BEFORE = r"[^\w\n]{0,9}(?:\d{1,2}[.)][^\w\n]{0,9})?\b"
_HEADING = re.compile(
    rf"(?:^|(?<=[.;|]\s)){_BEFORE}([^\W\d_][^\n:.;|]{{0,{MOST_HEADING}}}?)(?=[ \t]*:)|"
    rf"^{_BEFORE}(?=[^\W\d_])([^\n:.;|]{{1,{MOST_HEADING}}}?)(?=[ \t]*\r?\n)",
    re.MULTILINE,
)
_JOINTS = re.compile(r"[ /&,]+")
# A line that ends with an answer, such as "Fever: no".
_ANSWERED = re.compile(r"(?:[:|=?]|\s[-–—]|\t)\s*\w+\W*$")
_PART = re.compile(r"\n[^\S\n]*\n|\n(?=[ \t]*[A-Z][\w /&-]{1,40}:)")
# What a section has in the line of its heading, and a line that goes on with a list.
_AFTER_HEADING = re.compile(r"[ \t]*:[ \t]*(?=\S)")
_ITEM = re.compile(r"\s*(?:[-*•–]|\d+[.)])\s")
# Where a sentence may end, and the word before it, of which the last letters are looked at.
_STOP = re.compile(r"([.!?。！？]+)[\"'”’)\]]*(?=\s|$)")
_WORD_BEFORE = re.compile(r"(?:[\w.]*\w)?$")
MOST_BEFORE = 20
_LINE_END = re.compile(r"[ \t]*(?:[\r\n]|$)")


class Section(NamedTuple):
    """A part of a note, from its heading to the next one. Offsets are those of characters."""

    start: int
    heading_end: int
    end: int
    label: str  # what it is about, such as "family_history"; empty for a heading of no known kind


class Sentence(NamedTuple):
    """A sentence or an item of a note."""

    start: int
    end: int
    section: str  # the label of its section


@cache
def _read_headings() -> dict[str, dict[str, str]]:
    """Read what each heading is about, by language."""
    listed = srsly.read_json(Path(__file__).with_name("headings.json"))
    return {
        code: {heading: label for label, headings in of_language.items() for heading in headings}
        for code, of_language in listed.items()
    }


def find_headings(text: str, language: languages.Language) -> Iterator[Section]:
    """Find the headings of a note: those of the list, and words that headings are made of, with no others. In
    "Hypertension: well controlled", there is none. A section ends where the next begins."""
    headings = []
    for match in _HEADING.finditer(text):
        start, end = match.span(1) if match[1] else match.span(2)
        is_line = text[end:].lstrip(" \t")[:1] != ":"
        label = _find_label(text[start:end], language, is_line=is_line)
        if label is not None:
            headings.append((start, end, label))
    ends = [start for start, _, _ in headings[1:]]
    for (start, heading_end, label), end in zip(headings, [*ends, len(text)], strict=False):
        yield Section(start, heading_end, end, label)


def _find_label(heading: str, language: languages.Language, *, is_line: bool) -> str | None:
    """Find what a heading is about; None for what is none."""
    # "PE" alone in a line is a finding.
    if is_line and (len(heading) <= LEAST_HEADING or not heading[0].isupper()):
        return None
    plain = " ".join(heading.lower().split())
    labels = _read_headings().get(language.code, {})
    if plain in labels:
        return labels[plain]
    words = language.headings.split()
    first, *parts = _JOINTS.split(plain)
    if first not in words or not {*parts}.issubset(words + language.heading_joins.split()):
        return None
    return next((label for phrase, label in labels.items() if f" {phrase} " in f" {plain} "), "")


def hide_headings(text: str, sections: Iterable[Section]) -> str:
    """Put blanks in the place of the headings of a note."""
    parts = []
    end = 0
    for section in sections:
        parts += [text[end : section.start], " " * (section.heading_end - section.start)]
        end = section.heading_end
    return "".join([*parts, text[end:]])


def list_part_bounds(text: str, language: languages.Language) -> list[int]:
    """Find where the parts of a note begin and end: at headings in lines of their own, at blank lines, and at lines
    with any word before a colon, which may be a heading that no list has."""
    headings = (
        section.start
        for section in find_headings(text, language)
        if not _AFTER_HEADING.match(text, section.heading_end)
    )
    breaks = (match.end() for match in _PART.finditer(text))
    return sorted({0, *headings, *breaks, len(text)})


def split_sentences(
    text: str,
    language: languages.Language,
    open_ends: Collection[str] = (),
    abbreviations: Collection[str] = (),
    turns: Collection[int] = (),
) -> list[Sentence]:
    """Split a note into sentences. They end at punctuation, at headings, and at line breaks that do more than wrap the
    text.

    text (str): The text.
    language (languages.Language): Its language.
    open_ends (Collection[str]): Further words with which no sentence ends, at the end of a line.
    abbreviations (Collection[str]): Further words before a full stop that ends none.
    turns (Collection[int]): Where speakers begin. A conversation has no headings.
    RETURNS (list[Sentence]): The sentences, in order, each with the label of its section.
    """
    sections = [] if turns else list(find_headings(text, language))
    bounds = {0, len(text), *turns}
    line_ends = list(_find_line_ends(text, {*language.open_ends.split(), *open_ends}))
    bounds.update(line_ends)
    bounds.update(_find_stops(text, language, {*language.abbreviations.split(), *abbreviations}))
    bounds.update(place for section in sections for place in section[:2])
    label = ""
    number = 0
    line_end = len(text)  # where a section in one line ends
    sentences = []
    for start, end in pairwise(sorted(bounds)):
        if start >= line_end and not _ITEM.match(text, start):
            label = ""
        while number < len(sections) and sections[number].start <= start:
            label = sections[number].label
            line_end = _find_line_end(text, sections[number], line_ends)
            number += 1
        if text[start:end].strip():
            sentences.append(Sentence(start, end, label))
    return sentences


def _find_line_end(text: str, section: Section, line_ends: list[int]) -> int:
    """Find where a section ends that begins in the line of its heading; the end of the text for others."""
    begin = _AFTER_HEADING.match(text, section.heading_end)
    if begin is None:
        return len(text)
    place = bisect_left(line_ends, begin.end())
    return line_ends[place] if place < len(line_ends) else len(text)


def _find_stops(text: str, language: languages.Language, abbreviations: Collection[str]) -> Iterator[int]:
    """Find the ends of sentences. A single letter and an abbreviation before a full stop end none."""
    for match in _STOP.finditer(text):
        word = _WORD_BEFORE.search(text[max(match.start() - MOST_BEFORE, 0) : match.start()])
        before = word[0] if word else ""
        is_letter = len(before) == 1 and before.isalpha()
        is_short = is_letter or "." in before or before.lower() in abbreviations
        at_line_end = _LINE_END.match(text, match.end()) is not None
        # "? pneumonia"
        is_doubt = not language.has_spaced_signs and match[1] == "?" and not before and not at_line_end
        if not (is_short and match[1] == "." and not at_line_end) and not is_doubt:
            yield match.end()


def _find_line_ends(text: str, open_ends: Collection[str]) -> Iterator[int]:
    """Find the line breaks that end a sentence: not those behind a comma or a word like "of", and not where the next
    line begins with a small letter or a number that had no room."""
    end = 0
    for has_text, block in groupby(text.split("\n"), key=lambda line: bool(line.strip())):
        lines = list(block)
        width = max(len(line.rstrip()) for line in lines)
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            end += len(line)
            if not (has_text and following and _wraps(line, following, width, open_ends)):
                yield min(end, len(text))
            end += 1


def _wraps(line: str, following: str, width: int, open_ends: Collection[str]) -> bool:
    last = line.split()[-1].lower()
    first = following.split()[0]
    if not first[0].isalnum():
        return False
    is_open = last in open_ends and (first[0].islower() or not _ANSWERED.search(line))
    if last.endswith(",") or is_open:
        return True
    has_room = len(line.rstrip()) < MIN_WIDTH or len(line.rstrip()) + len(first) < width
    # "1." begins an item.
    is_inner = first[0].islower() or (first[0].isdigit() and first[-1] not in ".)")
    return is_inner and not has_room
