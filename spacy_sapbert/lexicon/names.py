"""The names of a terminology as a table of hashes: small, quick to load, and without the names themselves. A mention is
a sequence of hashes, one for each word, by which the names that are written like it are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..forking import CHUNK, read_chunks
from ..progress import show_progress
from ..ragged import TokenLists, find_places, list_owners, number_parts, sum_lists
from ..text import CACHED, NUMERALS_AFTER_WORDS, list_marks, normal_words, normalize_name, normalize_writing
from .languages import ENGLISH, Language

if TYPE_CHECKING:
    import polars as pl

    from ..candidates import Candidates

# The key of words a, b, c is (a * MULTIPLIER + b) * MULTIPLIER + c, modulo 2^64. Any large odd number does.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Invisible format characters belong to the word around them, as marks do.
_INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
# Each Han character and each hiragana is a word: no spaces say where words end.
_ALONE = "\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTER = rf"[^\W_{_ALONE}]"
_WORD = (
    rf"(?:[{_ALONE}]|{_LETTER}+)(?:[{list_marks()}{_INVISIBLE}]+{_LETTER}*)*"
    r"(?:['’´′＇][sSｓＳ](?![^\W_]))?"
)
# Signs that make another name: "ER+" and "ER-", "(+)-catechin", "<140", "-5", and the prime of "4'-hydroxy". A dash is
# one before a digit, in brackets, and behind a capital or a digit where no word goes on, also in the next line.
_SIGN = (
    r"[+<>≤≥±]|[-−–](?:(?<=[A-Z0-9].)(?!\w|[^\S\n]*\n[^\S\n]*[A-Z]{2})|(?<!\w.)(?=\d)|(?<=[(\[].)(?=[)\]]))|"
    r"['’′](?<=\d.)"
)
ALONE = re.compile(f"[{_ALONE}]")
# Splits a text into gaps, and words or signs.
PART = re.compile(f"({_WORD}|{_SIGN})")
# Where spaCy finds no punctuation behind such characters, it is in the word's token.
INVISIBLE = re.compile(rf"[{_INVISIBLE}]+[^\w\s]*")
# What names are written with or without. Anything else between two words has to be in the name as well.
_WEAK_GAP = re.compile(r"[\s'\-]*")
_BLANK_LINE = re.compile(r"\n\s*\n")
# Punctuation behind and before a word, which nothing else depends on.
_BEHIND, _BEFORE = r"([0-9A-Za-z])([,;:)\]]+)( |$)", r"(^| )([(\[]+)([0-9A-Za-z])"
# What is read of a part of a name: the key of its hashes and their number, whether it has words, not just punctuation,
# and whether the parts around it decide as well.
_PART_READ = np.dtype([("key", "u8"), ("n", "i8"), ("has_words", "?"), ("depends", "?")])
# Names and mentions of at most this length are compared in their own case: "ALL" is not "all".
OWN_CASE_LENGTH = 5


class NameTable(NamedTuple):
    """The keys of all names, sorted: which names are written like a text. With keys of 64 bits and a million of them,
    one of 2e13 texts is taken for a name that it is not."""

    # The language that names and texts are read in.
    language: Language
    # Distinct keys, ascending; uint64.
    keys: np.ndarray
    # Where the names with these words start in `name_rows`; shape (keys + 1,).
    offsets: np.ndarray
    # Rows of the terminology's names.
    name_rows: np.ndarray

    @classmethod
    def build(cls, names: pl.Series, language: Language = ENGLISH) -> NameTable:
        """Make the table of a terminology's names."""
        return cls(language, *arrange_by_key(*key_names(names, np.arange(len(names)), language)))

    def edited(self, names: pl.Series, moved: np.ndarray) -> NameTable:
        """Make the table of an edited terminology. Only new names are read."""
        rows = moved[self.name_rows]
        keys = self.keys[list_owners(self.offsets)]
        is_new = np.ones(len(names), dtype=bool)
        is_new[rows[rows >= 0]] = False
        new = np.flatnonzero(is_new)
        old, added = (keys[rows >= 0], rows[rows >= 0]), key_names(names.gather(new), new, self.language)
        return NameTable(self.language, *arrange_by_key(*map(np.concatenate, zip(old, added, strict=True))))

    def find_whole(self, texts: Iterable[str]) -> np.ndarray:
        """Find the entries of texts as wholes."""
        return self.find_keys(list_whole_keys(texts, self.language))

    def find_keys(self, keys: np.ndarray) -> np.ndarray:
        """Find the entries of the keys of whole texts. A text without words has the key 0."""
        return np.where(keys > 0, find_places(self.keys, keys), -1)

    def rows_of(self, entry: int) -> np.ndarray:
        """Return the names of an entry."""
        return self.name_rows[self.offsets[entry] : self.offsets[entry + 1]]


def _combine(hashes: Iterable[int]) -> int:
    key = 0
    for word in hashes:
        key = (key * int(MULTIPLIER) + word) % (1 << 64)
    return key


def list_whole_keys(texts: Iterable[str], language: Language) -> np.ndarray:
    """Make the keys of texts as wholes."""
    if language.endings:
        texts = map(language.to_singular, texts)
    is_english = language.is_english
    return np.array([_combine(read_hashes(text, is_english=is_english)) for text in texts], dtype=np.uint64)


def key_names(names: pl.Series, rows: np.ndarray, language: Language = ENGLISH) -> tuple[np.ndarray, np.ndarray]:
    """List the keys of names that have words, and their rows. Millions of names have few parts between spaces, which
    are read once. Only where parts depend on one another, the name is read as a whole."""
    spaced = names.str.replace_all(_BEHIND, "$1 $2$3").str.replace_all(_BEFORE, "$1$2 $3")
    parts, numbers = number_parts(spaced.str.split(" "))
    texts = chain.from_iterable(read_chunks(parts))
    shown = show_progress(texts, total=len(parts), description="Reading the writing of names", unit="words")
    singular = map(language.to_singular, shown) if language.endings else shown
    read = map(partial(_read_part, is_english=language.is_english), singular)
    of_parts = np.fromiter(read, dtype=_PART_READ, count=len(parts))
    keys, is_whole = np.empty(len(names), dtype=np.uint64), np.empty(len(names), dtype=bool)
    for start, block in zip(range(0, len(names), CHUNK), numbers.split(CHUNK), strict=True):
        keys[start : start + CHUNK], is_whole[start : start + CHUNK] = _join_parts(of_parts, block)
    whole = np.flatnonzero(is_whole)
    keys[whole] = list_whole_keys(chain.from_iterable(read_chunks(names.gather(whole))), language)
    return keys[keys > 0], rows[keys > 0]


def _read_part(part: str, *, is_english: bool) -> tuple[int, int, bool, bool]:
    # Most have nothing but letters, and are no numerals.
    if len(part) > 2 and part.isascii() and part.isalpha():
        hashes = _hash_word(part, "", is_english)
        return _combine(hashes), len(hashes), True, False
    alone, between = (read_hashes(text, is_english=is_english) for text in (part, f"type {part} type"))
    between, pieces = between[1:-1], PART.split(part)
    # Numerals are read otherwise behind this word, and punctuation and white space go on in the next part.
    depends = part.split() != [part] or alone and (alone != between or pieces[0] or pieces[-1])
    return _combine(between), len(between), bool(alone), bool(depends)


def _join_parts(of_parts: np.ndarray, numbers: TokenLists) -> tuple[np.ndarray, np.ndarray]:
    """Make the keys of names from those of their parts, and whether each name has to be read as a whole."""
    key, n, has_words, depends = (of_parts[field][numbers.ids] for field in _PART_READ.names or ())
    # Punctuation of two parts is one.
    depends[1:] |= ~has_words[1:] & ~has_words[:-1]
    # It does not count at the ends of a name.
    firsts, lasts = numbers.offsets[:-1], numbers.offsets[1:] - 1
    n[firsts] *= has_words[firsts]
    n[lasts] *= has_words[lasts]
    ends = np.cumsum(n)
    n_after = np.repeat(ends[lasts], numbers.lengths) - ends
    powers = np.cumprod(np.append(np.uint64(1), np.full(n_after.max(initial=0), MULTIPLIER)))
    values = key * powers[n_after] * (n > 0)
    return sum_lists(values.view(np.int64), numbers.offsets).view(np.uint64), sum_lists(depends, numbers.offsets) > 0


def arrange_by_key(keys: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the arrays of a table from keys of names, and the names' rows."""
    order = np.lexsort((rows, keys))
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - np.uint64(1)))
    return keys[starts], np.append(starts, len(keys)).astype(np.uint32), rows[order].astype(np.uint32)


def read_hashes(text: str, *, is_english: bool = True) -> list[int]:
    """Split a text into words and hash their normal forms. Case, number, possessive and British spelling make no
    difference, nor do hyphens between words, decomposed letters and invisible characters. Other punctuation counts, and
    so do signs: "asthma, bronchitis" is not "asthma bronchitis", and "ER+" is not "ER". Where words are not English,
    number and spelling count."""
    # Most names have nothing but words, which are quicker to read.
    if text.isascii() and text.replace(" ", "").isalpha():
        words = text.split()
        pairs = zip(["", *words], words, strict=False)
        return [part for before, word in pairs for part in _hash_plain(word, before, is_english)]
    pieces = PART.split(text)
    hashes: list[int] = []
    before = ""
    for gap, word in zip(pieces[::2], pieces[1::2], strict=False):
        # Nearly all gaps are single spaces.
        if hashes and gap != " " and (punctuation := _hash_gap(gap)):
            hashes.append(punctuation)
        is_word = word[0].isalnum()
        hashes += _hash_plain(word, before, is_english) if is_word else (hash_string(normalize_writing(word)),)
        before = word
    return hashes


def _hash_plain(word: str, before: str, is_english: bool) -> tuple[int, ...]:
    # The word before decides about a few numerals only.
    if len(word) > 2:
        return _hash_word(word, "", is_english)
    plain = word if word.isascii() else normalize_writing(word)
    return _hash_word(word, before if plain.lower() in NUMERALS_AFTER_WORDS else "", is_english)


@lru_cache(CACHED)
def _hash_word(word: str, before: str, is_english: bool) -> tuple[int, ...]:
    return tuple(hash_string(part) for part in normal_words(word, before, is_english=is_english))


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


def is_other_case(text: str, name: str) -> bool:
    """Check if a short mention has the letters of an acronym, or its first ones, but not the capitals: "was" is not
    "WAS", nor "Hb" "H-B". A mention in capitals may be any word of a text in capitals."""
    if max(len(text), len(name)) > OWN_CASE_LENGTH or text == text.upper():
        return False
    of_name = own_case_forms(name)
    if "" in of_name or not of_name.isdisjoint(own_case_forms(text)):
        return False
    letters = "".join(filter(str.isalnum, normalize_writing(text))).lower()
    return any(form.lower().startswith(letters) for form in of_name)


def find_other_case(found: Candidates, list_names: Callable[[np.ndarray], list[str]]) -> np.ndarray:
    """Find the mentions whose nearest name is an acronym in another case, which most encoders do not see. `list_names`
    lists the names of candidates by their rows."""
    nearest = {
        number: forms[found.form[rows.start]]
        for number, (forms, rows) in enumerate(zip(found.forms, found.slices, strict=True))
        if rows.start < rows.stop
    }
    short = [number for number, form in nearest.items() if len(form) <= OWN_CASE_LENGTH]
    names = list_names(found.offsets[short])
    is_found = np.zeros(len(found), dtype=bool)
    is_found[short] = [is_other_case(nearest[number], name) for number, name in zip(short, names, strict=True)]
    return is_found
