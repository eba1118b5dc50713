"""Short names: acronyms, which consist of the initials of a name, and their case."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..columns import ColumnReader
from ..ragged import take_lists
from ..text import CACHED, normalize_writing
from .languages import ENGLISH

if TYPE_CHECKING:
    from ..terminology.table import Terminology

SHORT_LENGTHS = range(2, 11)
# Names and mentions of at most this length are compared in their own case: "ALL" is not "all".
OWN_CASE_LENGTH = 5
# Words that a short form may leave out.
SMALL_WORDS = frozenset(ENGLISH.unsaid.split())
# Symbols of genes, substances and loci, which words in capitals are not: with a digit or without a vowel.
_SYMBOL = re.compile(r"(?=.*[0-9])|(?i:[^aeiouy]*)$")
_SMALL_SYMBOL = re.compile(r"(?i)(?=.*[0-9])(?=.*[a-z])[^aeiouy]+")
# Concepts whose names are read at once.
_CHUNK = 8192


def is_short_form(text: str) -> bool:
    """Return whether a mention is written like a short form, and so can be one for `is_initialism`."""
    return len(text) in SHORT_LENGTHS and bool(_get_letters(text))


def is_initialism(short: str, name: str) -> bool:
    """Return whether a short form consists of initials of a name: "AMI" of "acute myocardial infarction".

    Each word of the name gives its first letter or digit, except small words such as "of", which need not. Words may
    give more letters, in their order, if initials are the majority: "GERD" of "gastroesophageal reflux disease". A
    single word gives its initial and two or more consonants: "HTN" of "hypertension". What stands behind a comma may
    come first: "PD" of "Disease, Parkinson".

    short (str): A mention. Only those of 2 to 10 characters, with at least two capitals, digits and punctuation, and
        perhaps an "s" for the plural, are short forms.
    name (str): A name of a concept.
    RETURNS (bool): Whether the short form fits the name.
    """
    letters = _get_letters(short)
    if not letters:
        return False
    head, comma, rest = name.partition(", ")
    return _fits(letters, _get_words(name)) or (bool(comma) and _fits(letters, _get_words(f"{rest} {head}")))


@lru_cache(CACHED)
def _get_letters(short: str) -> str:
    """Return the letters and digits of a short form, in small letters; none of other strings."""
    letters = short.removesuffix("s") if len(short) in SHORT_LENGTHS else ""
    if sum(map(str.isupper, letters)) < 2 or any(letter.islower() or letter.isspace() for letter in letters):
        return ""
    return "".join(filter(str.isalnum, letters)).lower()


@lru_cache(CACHED)
def _get_words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.lower().replace("'s", "").replace("’s", ""))


def _fits(letters: str, words: Sequence[str]) -> bool:
    n_words = sum(word not in SMALL_WORDS for word in words)
    # A short form that stands for itself says nothing.
    if not words or n_words > len(letters) or letters in words:
        return False
    if len(words) == 1:
        if len(letters) < 3 or any(letter in "aeiouy" for letter in letters[1:]):
            return False
    elif 2 * len(words) <= len(letters):
        return False
    # How many letters the words so far may give.
    counts = {0}
    for word in words:
        after = {end for start in counts for end in _give(letters, start, word)}
        counts = after | counts if word in SMALL_WORDS else after
    return len(letters) in counts


def _give(letters: str, start: int, word: str) -> Iterator[int]:
    """Yield how many letters there are when a word has given its first one, and further ones."""
    at = 0
    for end in range(start, len(letters)):
        at = word.find(letters[end], at) + 1
        if not at or (end == start and at != 1):
            return
        yield end + 1


def find_acronyms(terminology: Terminology, concepts: np.ndarray) -> np.ndarray:
    """List the rows of names of some concepts, ascending, that are initials of another name of theirs in any case, or
    symbols in capitals, with a digit or without a vowel."""
    texts = ColumnReader(terminology.names["name"])
    rows: list[int] = []
    for start in range(0, len(concepts), _CHUNK):
        part = concepts[start : start + _CHUNK]
        of_part, offsets = take_lists(terminology.name_offsets, part)
        names = texts.list(of_part)
        for begin, end in pairwise(offsets.tolist()):
            of_concept = names[begin:end]
            short = [place for place in range(begin, end) if _abbreviates(names[place], of_concept)]
            rows += of_part[short].tolist()
    return np.array(rows, dtype=np.int64)


def _abbreviates(name: str, names: Sequence[str]) -> bool:
    if len(name) not in SHORT_LENGTHS or not name.replace(" ", "").isascii():
        return False
    first, *others = name.split(" ")
    if all(map(str.isdigit, others)) and _is_symbol(name, first):
        return True
    capitals = name.upper()
    return any(len(other) > len(name) + 1 and is_initialism(capitals, other) for other in names)


def _is_symbol(name: str, first: str) -> bool:
    return bool((is_short_form(first) and _SYMBOL.match(name)) or _SMALL_SYMBOL.fullmatch(name))


@lru_cache(CACHED)
def has_short_form(text: str) -> bool:
    """Check if a word of a mention is written like a short form."""
    return any(map(is_short_form, text.split()))


def has_letters_of(text: str, name: str) -> bool:
    """Check if a word of a mention has the letters and digits of an acronym: "eIF-5A" is EIF5A."""
    return _join_letters(name) in map(_join_letters, text.split())


@lru_cache(CACHED)
def _join_letters(word: str) -> str:
    return "".join(filter(str.isalnum, word)).lower()


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
