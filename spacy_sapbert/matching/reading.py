"""Texts and names as arrays of words: what the look-up of bags works on."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..retrieval.name_table import PART
from ..text import CACHED, NUMERALS_AFTER_WORDS, normal_words, normalize_writing

# Words that a name has or has not without meaning another concept.
FUNCTION_WORDS = frozenset("a an the of in on at to for from by due as is are was were be been".split())
FUNCTION_WORDS |= frozenset("nos unspecified other".split())
# Words between two phrases: a name that crosses one has it as well. The first two join what goes with one word.
JOINING_WORDS = frozenset("and or".split())
LINKING_WORDS = frozenset("nor with without".split())
# Behind these, "A" is no article.
_LETTERED = frozenset("type class group grade hepatitis hemophilia haemophilia vitamin".split())
# Where no name goes on, where one goes on that has the same punctuation, and what may be left out.
_END = re.compile(r"[.:;!?](?:\s|$)|[()\[\]{}]|\n\s*\n")
_WEAK = re.compile(r"[\s'’\-‐‑–]*")
_HYPHENS = frozenset("-‐‑")
_JOINING = re.compile(r"\s*[/&]\s*")
END, LINK, HYPHEN, JOIN = 1, 2, 4, 8
CONTENT, FUNCTION, LINKING, JOINING = 0, 1, 2, 3


class Reading(NamedTuple):
    """The content words of a text, one row each."""

    hashes: np.ndarray  # of normal forms; uint64
    starts: np.ndarray  # in characters
    ends: np.ndarray
    segment: np.ndarray  # number of the stretch of text that a name may not leave
    links: np.ndarray  # how many linking words and commas stand before it
    joins: np.ndarray  # how many of these are "and", "or" or a slash
    skipped: np.ndarray  # how many words that are no content stand before it

    def take(self, rows: np.ndarray) -> Reading:
        """Take some rows."""
        return Reading(*(column[rows] for column in self))


def read(text: str, joined: np.ndarray | None = None) -> Reading:
    """Read a text. Two words with a hyphen between them are one if `joined`, sorted hashes, has it."""
    pieces = PART.split(text)
    words, gaps = pieces[1::2], pieces[:-1:2]
    ends = np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))[1::2]
    starts = ends - np.fromiter(map(len, words), np.int64, len(words))
    parts = [*map(_read_word, words)]
    _read_letters(words, parts)
    gap = np.fromiter(map(_read_gap, gaps), np.int64, len(gaps))
    if joined is not None and len(joined):
        _join_hyphens(words, parts, gap, ends, joined)
    lengths = np.fromiter((len(part[0]) for part in parts), np.int64, len(parts))
    hashes = np.array([part[0][0] if part[0] else 0 for part in parts], dtype=np.uint64)
    kind = np.fromiter((part[1] for part in parts), np.int64, len(parts))
    if (lengths > 1).any():
        place = np.repeat(np.arange(len(parts)), lengths)
        hashes = np.array([one for part in parts for one in part[0]], dtype=np.uint64)
        is_first = np.diff(place, prepend=-1) > 0
        starts, ends, kind, gap = starts[place], ends[place], kind[place], np.where(is_first, gap[place], 0)
        lengths = np.ones(len(place), dtype=np.int64)
    segment = np.cumsum(gap & END)
    joins = np.cumsum(((gap & JOIN) > 0) | (kind == JOINING))
    links = np.cumsum(((gap & LINK) > 0) | (kind == LINKING)) + joins
    skipped = np.cumsum(kind != CONTENT)
    return Reading(hashes, starts, ends, segment, links, joins, skipped).take((kind == CONTENT) & (lengths > 0))


@lru_cache(CACHED)
def _read_word(word: str) -> tuple[tuple[int, ...], int]:
    """Hash the normal forms of a word or a sign, and tell what kind it is."""
    lowered = word.lower()
    if lowered in JOINING_WORDS or lowered in LINKING_WORDS:
        return (1,), JOINING if lowered in JOINING_WORDS else LINKING
    if lowered in FUNCTION_WORDS:
        return (1,), FUNCTION
    parts = normal_words(word) or (normalize_writing(word),)
    return tuple(hash_string(part) for part in parts), CONTENT


def _read_letters(words: list[str], parts: list[tuple[tuple[int, ...], int]]) -> None:
    """Read single letters again, which may be numerals or names of types by the word before them."""
    for place, word in enumerate(words):
        if len(word) < 3 and place:
            lowered, before = word.lower(), words[place - 1].lower()
            if lowered in NUMERALS_AFTER_WORDS:
                parts[place] = tuple(map(hash_string, normal_words(word, before))), CONTENT
            elif lowered == "a" and (before in _LETTERED or word == "A"):
                parts[place] = (hash_string("a"),), CONTENT


@lru_cache(CACHED)
def _read_gap(gap: str) -> int:
    if gap == " ":
        return 0
    if _END.search(gap):
        return END
    if gap in _HYPHENS:
        return HYPHEN
    if _JOINING.fullmatch(gap):
        return JOIN
    return 0 if _WEAK.fullmatch(gap) else LINK


@lru_cache(CACHED)
def _hash_joined(first: str, second: str) -> int:
    normal = normal_words(first + second)
    return int(hash_string(normal[0])) if len(normal) == 1 and len(first) > 1 and len(second) > 2 else 0


def _join_hyphens(
    words: list[str], parts: list[tuple[tuple[int, ...], int]], gap: np.ndarray, ends: np.ndarray, joined: np.ndarray
) -> None:
    for place in np.flatnonzero(gap == HYPHEN).tolist():
        key = _hash_joined(words[place - 1], words[place])
        if not place or not key or not parts[place - 1][0]:
            continue
        found = min(int(np.searchsorted(joined, np.uint64(key))), len(joined) - 1)
        if int(joined[found]) == key:
            parts[place - 1], parts[place] = ((key,), CONTENT), ((), CONTENT)
            ends[place - 1] = ends[place]
