"""Texts and names as arrays of content words, which bags are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..text import (
    CACHED,
    NUMERALS_AFTER_WORDS,
    normal_words,
    normalize_name,
    normalize_writing,
    strip_accents,
    write_plainly,
)
from .languages import CONTENT, ENGLISH, JOINING, LINKING, Language, Word, get_reader
from .names import PART

# Behind these, in any language, "A" is no article.
_LETTERED = frozenset(
    "type class group grade hepatitis hemophilia haemophilia vitamin tipo clase grupo grado vitamina hemofilia groupe "
    "classe hépatite hémophilie vitamine gruppo epatite emofilia hepatite typ gruppe klasse groep".split()
)
# What stands between two words: the end of what a name may cover, what the name has as well, and what joins.
END, LINK, HYPHEN, JOIN, BRACKET = 1, 2, 4, 8, 16
_END = re.compile(r"[.:;!?]\s|[。！？；：؟۔।]|[{}\t]|\n\s*\n|\n\s*[-*•–]")
_BRACKET = re.compile(r"[()\[\]]")
# A bracket counts for more links than a text has commas, so that only a name with a bracket goes on behind one.
BRACKETED = 1 << 32
_ORDINAL = re.compile(r"\d{1,2}")
_WEAK = re.compile(r"[\s'’\-‐‑–]*")
# A word may be cut at the end of a line.
_HYPHEN = re.compile(r"[-‐‑](?:[^\S\n]*\n\s*)?")
# Characters of a line that ends where the next one begins, and not before.
_WRAPPED = 50
_JOINING = re.compile(r"\s*[/&]\s*")


class Reading(NamedTuple):
    """The content words of a text, one row each. The last four columns only grow: where two words have the same number,
    there is nothing of the kind between them."""

    hashes: np.ndarray  # of normal forms; uint64
    starts: np.ndarray  # in characters
    ends: np.ndarray
    segment: np.ndarray  # ends of sentences
    links: np.ndarray  # commas, "with", joins, and brackets, which count as `BRACKETED` each
    joins: np.ndarray  # "and", "or", slashes
    skipped: np.ndarray  # words without content


def read(text: str, vocabulary: np.ndarray | None = None, language: Language = ENGLISH) -> Reading:
    """Read a text. Two words with a hyphen between them are one word if `vocabulary`, sorted hashes, has that."""
    text = write_plainly(text)
    pieces = PART.split(text)
    words, gaps = pieces[1::2], pieces[:-1:2]
    ends = np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))[1::2]
    starts = ends - np.fromiter(map(len, words), np.int64, len(words))
    parts = [*map(get_reader(language), words)]
    _read_letters(words, gaps, parts, language)
    gap = np.fromiter(map(_read_gap, gaps), np.int64, len(gaps))
    gap[_find_new_lines(text, words, gaps, starts)] |= END
    if language.dotted_ordinals:
        # The full stop of "2. Zehe" ends nothing.
        dotted = (place for place, between in enumerate(gaps) if between == ". ")
        gap[[place for place in dotted if _ORDINAL.fullmatch(words[place - 1])]] = 0
    if vocabulary is not None and len(vocabulary):
        _join_hyphens(words, parts, gap, ends, vocabulary, language)
    place = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    hashes = np.array([one for part in parts for one in part[0]], dtype=np.uint64)
    kind = np.array([part[1] for part in parts], dtype=np.int64)
    joins = np.cumsum(((gap & JOIN) > 0) | (kind == JOINING))
    links = np.cumsum(((gap & LINK) > 0) | (kind == LINKING)) + joins + BRACKETED * np.cumsum((gap & BRACKET) > 0)
    columns = starts, ends, np.cumsum(gap & END), links, joins, np.cumsum(kind != CONTENT)
    place = place[kind[place] == CONTENT] if len(place) else place
    return Reading(hashes, *(column[place] for column in columns))


def read_many(
    texts: Sequence[str], vocabulary: np.ndarray | None = None, language: Language = ENGLISH
) -> tuple[np.ndarray, np.ndarray]:
    """Read texts, each by itself: the hashes of their words, and the place of the text that each word is of."""
    # Each in a paragraph of its own.
    first = np.cumsum([0, *(len(text) + 2 for text in texts)])
    reading = read("\n\n".join(texts), vocabulary, language)
    return reading.hashes, np.searchsorted(first, reading.starts, side="right") - 1


def _find_new_lines(text: str, words: list[str], gaps: list[str], starts: np.ndarray) -> list[int]:
    """Find the lines that start with a capital. They are items of a list more probably than the same sentence, unless
    the line before is as long as lines may be, or ends in a hyphen."""
    found = []
    # A blank line is an end anyway.
    new = (place for place, between in enumerate(gaps) if "\n" in between and "\n\n" not in between)
    for place in new:
        between = gaps[place]
        if words[place][0].isupper() and not _HYPHEN.fullmatch(between):
            end = int(starts[place]) - len(between) + between.index("\n")
            if end - text.rfind("\n", 0, end) <= _WRAPPED:
                found.append(place)
    return found


def _plain(text: str) -> str:
    return text if text.isascii() else normalize_writing(normalize_name(text))


def _read_letters(words: list[str], gaps: list[str], parts: list[Word], language: Language) -> None:
    """Read short words again that are numerals or names of types behind others: "factor V", "type A"; and leave out the
    "s" of "Crohn 's", as texts have it that are split into words."""
    for place in [place for place, word in enumerate(words) if len(word) < 3]:
        if language.is_english and words[place] in ("s", "S") and gaps[place] in (" '", " ’"):
            parts[place] = (), CONTENT
            continue
        # Not across a blank line, because many texts are read as one.
        is_first = place == 0 or "\n\n" in gaps[place]
        before = "" if is_first else words[place - 1]
        # In a text in capitals, other languages have more words of one letter than names have letters.
        is_capitals = not language.is_english and len(before) > 1 and before.isupper()
        small, before = strip_accents(_plain(words[place]).lower()), before.lower()
        normal = normal_words(words[place], before) if small in NUMERALS_AFTER_WORDS else (small,)
        if small not in language.word_kinds:
            is_name = small in NUMERALS_AFTER_WORDS
        else:
            is_letter = before in _LETTERED or (words[place].isupper() and not is_capitals)
            is_name = normal != (small,) or (len(small) == 1 and is_letter)
        if is_name:
            parts[place] = tuple(map(hash_string, normal)), CONTENT


@lru_cache(CACHED)
def _read_gap(gap: str) -> int:
    if gap == " ":
        return 0
    if not gap.isascii() and not _END.search(gap):
        gap = _plain(gap)
    if _END.search(gap):
        return END
    if _BRACKET.search(gap):
        return BRACKET
    if _HYPHEN.fullmatch(gap):
        return HYPHEN
    if _JOINING.fullmatch(gap):
        return JOIN
    return 0 if _WEAK.fullmatch(gap) else LINK


def _join_hyphens(
    words: list[str], parts: list[Word], gap: np.ndarray, ends: np.ndarray, vocabulary: np.ndarray, language: Language
) -> None:
    for place in np.flatnonzero(gap == HYPHEN).tolist():
        key = _hash_joined(language, words[place - 1], words[place]) if place else 0
        found = min(int(np.searchsorted(vocabulary, np.uint64(key))), len(vocabulary) - 1)
        if key and int(vocabulary[found]) == key and parts[place - 1][0]:
            parts[place - 1], parts[place] = ((key,), CONTENT), ((), CONTENT)
            ends[place - 1] = ends[place]


@lru_cache(CACHED)
def _hash_joined(language: Language, first: str, second: str) -> int:
    hashes = get_reader(language)(first + second)[0] if len(first) > 1 and len(second) > 2 else ()
    return hashes[0] if len(hashes) == 1 else 0
