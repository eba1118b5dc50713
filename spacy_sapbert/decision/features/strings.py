"""Features of the strings: the mention's forms against the candidate's matched and canonical name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .base import FeatureGroup, QueryBatch

WORD = re.compile(r"\w+")
# Strings whose parts are remembered. Names come back as candidates of many mentions.
REMEMBERED = 16_384


class Parts(NamedTuple):
    """The parts of a string that are compared.

    plain (str): The string in lower case, its words with a space between them.
    words (frozenset[str]): Its words.
    trigrams (frozenset[str]): All sequences of three characters, with a space before and after the string.
    """

    plain: str
    words: frozenset[str]
    trigrams: frozenset[str]


@lru_cache(REMEMBERED)
def split(text: str) -> Parts:
    """Split a string into its parts.

    text (str): The string.
    RETURNS (Parts): Its parts.
    """
    words = WORD.findall(text.lower())
    plain = " ".join(words)
    padded = f" {plain} "
    return Parts(plain, frozenset(words), frozenset(padded[i : i + 3] for i in range(len(padded) - 2)))


def compute_strings(batch: QueryBatch) -> np.ndarray:
    """Compute the strings' features.

    batch (QueryBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features).
    """
    rows: list[tuple[float, ...]] = []
    start = 0
    for forms, length in zip(batch.forms, batch.lists.lengths.tolist(), strict=True):
        first, is_expanded = split(forms[0]) if forms else split(""), len(forms) > 1
        of_mention = (is_expanded, len(first.plain), len(first.words))
        for candidate in batch.candidates[start : start + length]:
            form, name = split(candidate["mention"]), split(candidate["name"])
            canonical = split(candidate["canonical_name"])
            rows.append(
                (
                    *_compare(form, name),
                    *_compare(first, canonical),
                    # Found by the short form of an abbreviation that the document defines.
                    is_expanded and candidate["mention"] != forms[0],
                    name.plain == canonical.plain,
                    *of_mention,
                )
            )
        start += length
    return np.array(rows, dtype=np.float32).reshape(len(rows), len(STRINGS.features))


def _compare(mention: Parts, name: Parts) -> tuple[float, ...]:
    """Compare a mention with a name: similarity of spelling, equality, words in one of them only, lengths."""
    shared = len(mention.trigrams & name.trigrams)
    union = len(mention.trigrams) + len(name.trigrams) - shared
    n_shared = len(mention.words & name.words)
    return (
        shared / union if union else 0.0,
        mention.plain == name.plain,
        len(name.words) - n_shared,
        len(mention.words) - n_shared,
        len(name.plain) - len(mention.plain),
    )


STRINGS = FeatureGroup(
    {
        "name_trigrams": "its name is spelt like the mention",
        "name_equal": "its name is the mention",
        "name_extra_words": "its name has words that the mention lacks",
        "name_missing_words": "its name lacks words of the mention",
        "name_extra_length": "its name is longer than the mention",
        "canonical_trigrams": "its canonical name is spelt like the mention",
        "canonical_equal": "its canonical name is the mention",
        "canonical_extra_words": "its canonical name has words that the mention lacks",
        "canonical_missing_words": "its canonical name lacks words of the mention",
        "canonical_extra_length": "its canonical name is longer than the mention",
        "by_short_form": "found by the short form only",
        "name_is_canonical": "found by its canonical name",
        "is_expanded": "the mention is an abbreviation that the document defines",
        "mention_length": "the mention's length",
        "mention_words": "the mention's words",
    },
    compute_strings,
)
