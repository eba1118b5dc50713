"""From texts to sequences of hashes, one for each word, by which names are found in them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..text import CACHED, NUMERALS_AFTER_WORDS, list_marks, normal_words, normalize_name, normalize_writing

# Invisible format characters belong to the word around them, as marks do.
_INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
_WORD = rf"[^\W_]+(?:[{list_marks()}{_INVISIBLE}]+[^\W_]*)*(?:['’´′＇][sSｓＳ](?![^\W_]))?"
# Signs that make another name: "ER+" and "ER-", "(+)-catechin", "<140", "-5", and the prime of "4'-hydroxy". A dash is
# one before a digit, in brackets, and behind a capital or a digit where no word goes on.
_SIGN = r"[+<>≤≥±]|[-−–](?:(?<=[A-Z0-9].)(?!\w)|(?<!\w.)(?=\d)|(?<=[(\[].)(?=[)\]]))|['’′](?<=\d.)"
_PART = re.compile(f"(?P<word>{_WORD})|{_SIGN}")
# Where spaCy finds no punctuation behind such characters, it is in the word's token.
INVISIBLE = re.compile(rf"[{_INVISIBLE}]+[^\w\s]*")
# What names are written with or without. Anything else between two words has to be in the name as well.
_WEAK_GAP = re.compile(r"[\s'\-]*")
_BLANK_LINE = re.compile(r"\n\s*\n")
# Where a word has several parts, or there is punctuation: no name starts or ends here.
INSIDE = -1
# Names and mentions of up to so many characters are compared in their own case: "ALL" is not "all".
OWN_CASE_LENGTH = 5


class Words(NamedTuple):
    """The words of a text, and the punctuation between them.

    hashes (ndarray): The hash of each; uint64.
    starts (ndarray): Where it starts in the text, or `INSIDE`; int64.
    ends (ndarray): Where it ends, or `INSIDE`; int64.
    """

    hashes: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def read_words(text: str) -> Words:
    """Split a text into words and hash their normal forms.

    Case, number, possessive and British spelling make no difference, nor do hyphens between words, decomposed letters
    and invisible characters. Other punctuation counts, and so do signs: "asthma, bronchitis" is not "asthma
    bronchitis", and "ER+" is not "ER".

    text (str): A document or a name.
    RETURNS (Words): The words.
    """
    return Words(*(np.array(rows, dtype=kind) for rows, kind in zip(_split(text), ("u8", "i8", "i8"), strict=True)))


def read_hashes(text: str) -> list[int]:
    """Hash the words of a text, and the punctuation between them, as `read_words` does.

    text (str): A name or a mention.
    RETURNS (list[int]): The hashes; two strings with the same ones are written alike.
    """
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
    """Return the forms of a short name or mention by which both can be compared in their own case.

    An ordinary word, of small letters but for the first, has one form for all: its normal form decides. A plural's "s"
    makes no difference for others ("MRIs").

    text (str): The name or the mention.
    RETURNS (frozenset[str]): Its forms, of letters and digits alone; two are alike if they share one.
    """
    form = "".join(filter(str.isalnum, normalize_writing(text)))
    return frozenset({form, form.removesuffix("s")} if form[1:] != form[1:].lower() else {""})
