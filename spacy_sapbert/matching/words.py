"""From texts to sequences of hashes, one for each word, by which names are found in them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..normalization import normalize_writing
from ..spelling import CACHED, NUMERALS_AFTER_WORDS, normal_words

_WORD = re.compile(r"[^\W_]+(?:['’]s(?![^\W_]))?")
# What names are written with or without. Anything else between two words has to be in the name as well.
_WEAK_GAP = re.compile(r"[\s'’\-‐‑‒–—−]*")
_BLANK_LINE = re.compile(r"\n\s*\n")
# Where a word has several parts, or there is punctuation: no name starts or ends here.
INSIDE = -1


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

    Case, number, possessive and British spelling make no difference, nor do hyphens between words. Other punctuation
    counts: "asthma, bronchitis" is not "asthma bronchitis".

    text (str): A document or a name.
    RETURNS (Words): The words.
    """
    hashes: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    end, before = 0, ""
    for found in _WORD.finditer(text):
        start, stop = found.span()
        # Nearly all gaps are single spaces.
        if hashes and (start != end + 1 or text[end] != " "):
            punctuation = _hash_gap(text[end:start])
            if punctuation:
                hashes.append(punctuation)
                starts.append(INSIDE)
                ends.append(INSIDE)
        word = found[0]
        is_numeral = len(word) <= 2 and word.lower() in NUMERALS_AFTER_WORDS
        parts = _hash_word(word, before if is_numeral else "")
        inside = [INSIDE] * (len(parts) - 1)
        hashes += parts
        starts += [start, *inside] if parts else ()
        ends += [*inside, stop] if parts else ()
        end, before = stop, word
    return Words(*(np.array(rows, dtype=kind) for rows, kind in ((hashes, "u8"), (starts, "i8"), (ends, "i8"))))


@lru_cache(CACHED)
def _hash_word(word: str, before: str) -> tuple[int, ...]:
    return tuple(hash_string(part) for part in normal_words(word, before))


@lru_cache(CACHED)
def _hash_gap(gap: str) -> int:
    """Hash the punctuation between two words; 0 if there is none that counts."""
    if _BLANK_LINE.search(gap):
        return int(hash_string("\n\n"))
    return 0 if _WEAK_GAP.fullmatch(gap) else int(hash_string("".join(gap.split())))


@lru_cache(CACHED)
def own_case_forms(text: str) -> frozenset[str]:
    """Return the forms of a short name or mention by which both can be compared in their own case.

    A capital at the start of an otherwise small word makes no difference ("Gout"), nor does a plural's "s" ("MRIs").

    text (str): The name or the mention.
    RETURNS (frozenset[str]): Its forms, of letters and digits alone; two are alike if they share one.
    """
    form = "".join(filter(str.isalnum, normalize_writing(text)))
    form = form.lower() if form[1:] == form[1:].lower() else form
    return frozenset({form, form.removesuffix("s")})
