"""Features of the strings: the mention's forms against the candidate's matched and canonical name."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...abbreviations.initials import is_initialism
from ...spelling import normal_words
from .base import FeatureGroup, QueryBatch

# Strings whose parts are remembered. Names come back as candidates of many mentions.
REMEMBERED = 1 << 15
NO_WORDS: frozenset[str] = frozenset()


class Parts(NamedTuple):
    """The parts of a string that are compared.

    plain (str): The string in lower case, its words with a space between them.
    words (frozenset[str]): Its words.
    trigrams (frozenset[str]): All sequences of three characters, with a space before and after the string.
    """

    plain: str
    words: frozenset[str]
    trigrams: frozenset[str]
    numbers: frozenset[str]
    ends: tuple[str, str]


@lru_cache(REMEMBERED)
def split(text: str) -> Parts:
    """Split a string into its parts.

    text (str): The string.
    RETURNS (Parts): Its parts.
    """
    words = normal_words(text)
    plain = " ".join(words)
    padded = f" {text.lower()} "
    trigrams = frozenset(padded[i : i + 3] for i in range(len(padded) - 2))
    # Single letters count as numbers: "type B".
    numbers = frozenset(word for word in words if len(word) == 1 or word.isdigit())
    return Parts(plain, frozenset(words), trigrams, numbers, (words[0], words[-1]) if words else ("", ""))


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
            of_name = _compare(form, name)
            # Equal strings have the same parts.
            is_same = form is first and name is canonical
            rows.append(
                (
                    *of_name,
                    *(of_name if is_same else _compare(first, canonical)),
                    # Found by the short form of an abbreviation that the document defines.
                    is_expanded and candidate["mention"] != forms[0],
                    name.plain == canonical.plain,
                    is_initialism(candidate["mention"], candidate["name"]),
                    bool(forms) and is_initialism(forms[-1], candidate["canonical_name"]),
                    *of_mention,
                )
            )
        start += length
    return np.array(rows, dtype=np.float32).reshape(len(rows), len(STRINGS.features))


def _compare(mention: Parts, name: Parts) -> tuple[float, ...]:
    """Compare a mention with a name: similarity of spelling, equality, words in one of them only, lengths."""
    shared = len(mention.trigrams & name.trigrams)
    union = len(mention.trigrams) + len(name.trigrams) - shared
    extra = missing = NO_WORDS
    if name.words != mention.words:
        extra, missing = name.words - mention.words, mention.words - name.words
    return (
        shared / union if union else 0.0,
        mention.plain == name.plain,
        not extra and not missing,
        len(extra),
        len(missing),
        sum(map(len, extra)) if extra else 0,
        sum(map(len, missing)) if missing else 0,
        len(name.numbers ^ mention.numbers) if name.numbers != mention.numbers else 0,
        mention.ends[0] == name.ends[0],
        mention.ends[1] == name.ends[1],
    )


STRINGS = FeatureGroup(
    {
        "name_trigrams": "its name is spelt like the mention",
        "name_equal": "its name is the mention",
        "name_same_words": "its name has the words of the mention",
        "name_extra_words": "its name has words that the mention lacks",
        "name_missing_words": "its name lacks words of the mention",
        "name_extra_letters": "its name has long words that the mention lacks",
        "name_missing_letters": "its name lacks long words of the mention",
        "name_other_numbers": "its name has other numbers than the mention",
        "name_first_word": "its name starts like the mention",
        "name_last_word": "its name ends like the mention",
        "canonical_trigrams": "its canonical name is spelt like the mention",
        "canonical_equal": "its canonical name is the mention",
        "canonical_same_words": "its canonical name has the words of the mention",
        "canonical_extra_words": "its canonical name has words that the mention lacks",
        "canonical_missing_words": "its canonical name lacks words of the mention",
        "canonical_extra_letters": "its canonical name has long words that the mention lacks",
        "canonical_missing_letters": "its canonical name lacks long words of the mention",
        "canonical_other_numbers": "its canonical name has other numbers than the mention",
        "canonical_first_word": "its canonical name starts like the mention",
        "canonical_last_word": "its canonical name ends like the mention",
        "by_short_form": "found by the short form only",
        "name_is_canonical": "found by its canonical name",
        "name_initials": "the mention has the initials of its name",
        "canonical_initials": "the mention has the initials of its canonical name",
        "is_expanded": "the mention is an abbreviation that the document defines",
        "mention_length": "the mention's length",
        "mention_words": "the mention's words",
    },
    compute_strings,
)
