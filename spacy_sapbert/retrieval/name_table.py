"""The names of a terminology as a table of hashes: small, quick to load, and without the names themselves. A text is a
sequence of hashes, one for each word, by which names are found in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..progress import show_progress
from ..text import CACHED, NUMERALS_AFTER_WORDS, list_marks, normal_words, normalize_name, normalize_writing

if TYPE_CHECKING:
    import polars as pl

# The key of words a, b, c is (a * MULTIPLIER + b) * MULTIPLIER + c, modulo 2^64. Any large odd number does.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Names read between two steps of the progress bar.
CHUNK = 8192
# Invisible format characters belong to the word around them, as marks do.
_INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
_WORD = rf"[^\W_]+(?:[{list_marks()}{_INVISIBLE}]+[^\W_]*)*(?:['’´′＇][sSｓＳ](?![^\W_]))?"
# Signs that make another name: "ER+" and "ER-", "(+)-catechin", "<140", "-5", and the prime of "4'-hydroxy". A dash is
# one before a digit, in brackets, and behind a capital or a digit where no word goes on.
_SIGN = r"[+<>≤≥±]|[-−–](?:(?<=[A-Z0-9].)(?!\w)|(?<!\w.)(?=\d)|(?<=[(\[].)(?=[)\]]))|['’′](?<=\d.)"
_PART = re.compile(f"(?P<word>{_WORD})|{_SIGN}")
# Splits a text into gaps and words or signs.
PART = re.compile(f"({_WORD}|{_SIGN})")
# Where spaCy finds no punctuation behind such characters, it is in the word's token.
INVISIBLE = re.compile(rf"[{_INVISIBLE}]+[^\w\s]*")
# What names are written with or without. Anything else between two words has to be in the name as well.
_WEAK_GAP = re.compile(r"[\s'\-]*")
_BLANK_LINE = re.compile(r"\n\s*\n")
# Where a word has several parts, or there is punctuation: no name starts or ends here.
INSIDE = -1
# Names and mentions of up to so many characters are compared in their own case: "ALL" is not "all".
OWN_CASE_LENGTH = 5


class Matches(NamedTuple):
    """Where names are in a text, in characters, and their entries of the table. They may overlap."""

    starts: np.ndarray
    ends: np.ndarray
    entries: np.ndarray


class NameTable(NamedTuple):
    """The keys of all names and of all their beginnings, sorted: which names are written like a text. With keys of 64
    bits and a million of them, one of 2e13 words of text is taken for a name that it is not."""

    # Distinct keys, ascending; uint64.
    keys: np.ndarray
    # Whether a longer name starts with these words; bool.
    is_prefix: np.ndarray
    # Where the names with these words start in `name_rows`; shape (keys + 1,). Beginnings that are no names have none.
    offsets: np.ndarray
    # Rows of the terminology's names.
    name_rows: np.ndarray

    @classmethod
    def build(cls, names: pl.Series) -> NameTable:
        """Make the table of a terminology's names."""
        return cls(*_arrange(*_list_keys(names, np.arange(len(names)))))

    def edited(self, names: pl.Series, moved: np.ndarray) -> NameTable:
        """Make the table of an edited terminology. Only new names are read."""
        rows = moved[self.name_rows]
        keys = np.repeat(self.keys, self.offsets[1:] - self.offsets[:-1])
        is_new = np.ones(len(names), dtype=bool)
        is_new[rows[rows >= 0]] = False
        new = np.flatnonzero(is_new)
        old = keys[rows >= 0], rows[rows >= 0], self.keys[self.is_prefix]
        return NameTable(*_arrange(*map(np.concatenate, zip(old, _list_keys(names.gather(new), new), strict=True))))

    def find(self, words: Words) -> Matches:
        """Find all names in a text, in the order of their numbers of words."""
        first = np.flatnonzero(words.starts != INSIDE)
        keys = words.hashes[first]
        empty = np.empty(0, dtype=np.int64)
        found = [(empty, empty, empty)]
        length = 1
        while len(first):
            entries = self.look_up(keys)
            is_known = entries >= 0
            first, keys, entries = first[is_known], keys[is_known], entries[is_known]
            last = first + length - 1
            is_name = (self.offsets[entries + 1] > self.offsets[entries]) & (words.ends[last] != INSIDE)
            found.append((words.starts[first[is_name]], words.ends[last[is_name]], entries[is_name]))
            goes_on = self.is_prefix[entries] & (last + 1 < len(words.hashes))
            first = first[goes_on]
            keys = keys[goes_on] * MULTIPLIER + words.hashes[first + length]
            length += 1
        return Matches(*map(np.concatenate, zip(*found, strict=True)))

    def find_whole(self, texts: Iterable[str]) -> np.ndarray:
        """Find the entries of texts as wholes."""
        keys = np.array([_combine(read_hashes(text)) for text in texts], dtype=np.uint64)
        entries = self.look_up(keys)
        # A text without words has the key 0.
        is_name = (entries >= 0) & (keys > 0) & (self.offsets[entries + 1] > self.offsets[entries])
        return np.where(is_name, entries, -1)

    def look_up(self, keys: np.ndarray) -> np.ndarray:
        """Look keys up."""
        if not len(self.keys):
            return np.full(len(keys), -1, dtype=np.int64)
        entries = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[entries] == keys, entries, -1)

    def rows_of(self, entry: int) -> np.ndarray:
        """Return the names of an entry."""
        return self.name_rows[self.offsets[entry] : self.offsets[entry + 1]]

    def mark(self, names: np.ndarray) -> np.ndarray:
        """Mark the entries of which any name is marked."""
        before = np.concatenate([[0], np.cumsum(names[self.name_rows])])
        marked: np.ndarray = before[self.offsets[1:]] > before[self.offsets[:-1]]
        return marked


def _combine(hashes: Iterable[int]) -> int:
    key = 0
    for word in hashes:
        key = (key * int(MULTIPLIER) + word) % (1 << 64)
    return key


def _list_keys(names: pl.Series, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List the keys of names that have words, their rows, and the keys of their beginnings."""
    parts, lengths = [np.empty(0, dtype=np.uint64)], np.zeros(len(names), dtype=np.int64)
    with show_progress(total=len(names), description="Reading the writing of names", unit="names") as progress:
        for start in range(0, len(names), CHUNK):
            chunk = [read_hashes(name) for name in names[start : start + CHUNK].to_list()]
            lengths[start : start + len(chunk)] = [len(hashes) for hashes in chunk]
            parts.append(np.array([word for hashes in chunk for word in hashes], dtype=np.uint64))
            progress.update(len(chunk))
    hashes = np.concatenate(parts)
    starts = np.cumsum(lengths) - lengths
    going_on = np.flatnonzero(lengths)
    keys = np.zeros(len(going_on), dtype=np.uint64)
    of_prefixes, of_names, name_rows = [keys[:0]], [keys[:0]], [going_on[:0]]
    length = 0
    while len(going_on):
        keys = keys * MULTIPLIER + hashes[starts[going_on] + length]
        length += 1
        is_whole = lengths[going_on] == length
        of_names.append(keys[is_whole])
        name_rows.append(rows[going_on[is_whole]])
        going_on, keys = going_on[~is_whole], keys[~is_whole]
        of_prefixes.append(keys)
    return np.concatenate(of_names), np.concatenate(name_rows), np.concatenate(of_prefixes)


def _arrange(
    whole: np.ndarray, rows: np.ndarray, prefixes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Make the arrays of a table from keys of names, the names' rows, and keys of beginnings."""
    distinct = np.unique(np.concatenate([whole, prefixes]))
    is_prefix = np.zeros(len(distinct), dtype=bool)
    is_prefix[np.searchsorted(distinct, prefixes)] = True
    entries = np.searchsorted(distinct, whole)
    order = np.lexsort((rows, entries))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(entries, minlength=len(distinct)))])
    return distinct, is_prefix, offsets.astype(np.uint32), rows[order].astype(np.uint32)


class Words(NamedTuple):
    """The words of a text, and the punctuation between them: the hash of each, and where it starts and ends in the
    text, or `INSIDE`."""

    hashes: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def read_words(text: str) -> Words:
    """Split a text into words and hash their normal forms. Case, number, possessive and British spelling make no
    difference, nor do hyphens between words, decomposed letters and invisible characters. Other punctuation counts, and
    so do signs: "asthma, bronchitis" is not "asthma bronchitis", and "ER+" is not "ER"."""
    return Words(*(np.array(rows, dtype=kind) for rows, kind in zip(_split(text), ("u8", "i8", "i8"), strict=True)))


def read_hashes(text: str) -> list[int]:
    """Hash the words of a text, and the punctuation between them, as `read_words` does."""
    # Most names have nothing but words, which are quicker to read.
    if text.isascii() and text.replace(" ", "").isalpha():
        words = text.split()
        return [part for before, word in zip(["", *words], words, strict=False) for part in _hash_plain(word, before)]
    return _split(text)[0]


def _split(text: str) -> tuple[list[int], list[int], list[int]]:
    hashes: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    end, before = 0, ""
    for found in _PART.finditer(text):
        start, stop = found.span()
        # Nearly all gaps are single spaces.
        if hashes and (start != end + 1 or text[end] != " "):
            punctuation = _hash_gap(text[end:start])
            if punctuation:
                hashes.append(punctuation)
                starts.append(INSIDE)
                ends.append(INSIDE)
        word = found[0]
        parts = _hash_plain(word, before) if found["word"] is not None else (_hash_sign(word),)
        inside = [INSIDE] * (len(parts) - 1)
        hashes += parts
        starts += [start, *inside] if parts else ()
        ends += [*inside, stop] if parts else ()
        end, before = stop, word
    return hashes, starts, ends


def _hash_plain(word: str, before: str) -> tuple[int, ...]:
    # The word before decides about a few numerals only.
    if len(word) > 2:
        return _hash_word(word, "")
    plain = word if word.isascii() else normalize_writing(word)
    return _hash_word(word, before if plain.lower() in NUMERALS_AFTER_WORDS else "")


@lru_cache(CACHED)
def _hash_word(word: str, before: str) -> tuple[int, ...]:
    return tuple(hash_string(part) for part in normal_words(word, before))


@lru_cache(CACHED)
def _hash_sign(sign: str) -> int:
    return int(hash_string(normalize_writing(sign)))


@lru_cache(CACHED)
def _hash_gap(gap: str) -> int:
    """Hash the punctuation between two words; 0 if there is none that counts."""
    if _BLANK_LINE.search(gap):
        return int(hash_string("\n\n"))
    gap = normalize_writing(normalize_name(gap))
    return 0 if _WEAK_GAP.fullmatch(gap) else int(hash_string("".join(gap.split())))


@lru_cache(CACHED)
def own_case_forms(text: str) -> frozenset[str]:
    """Return the forms of a short name or mention by which both can be compared in their own case. An ordinary word, of
    small letters but for the first, has one form for all: its normal form decides. A plural's "s" makes no difference
    for others ("MRIs")."""
    form = "".join(filter(str.isalnum, normalize_writing(text)))
    return frozenset({form, form.removesuffix("s")} if form[1:] != form[1:].lower() else {""})
