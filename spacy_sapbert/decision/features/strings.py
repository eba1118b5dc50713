"""Features of the strings: the mention's forms against the candidate's matched and canonical name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...abbreviations.initials import is_initialism, is_short_form
from .base import FeatureGroup, QueryBatch
from .comparing import Comparison, StringTable

# Mentions that are compared together: their sets are the rows of a table.
MENTIONS_AT_ONCE = 256


class _Pairs(NamedTuple):
    """The strings of the candidates of some mentions; one of each for each candidate.

    first (list[str]): The mention's more telling form.
    last (list[str]): Its other form, or the same.
    found_by (list[str]): The form that found the candidate.
    name (list[str]): The name that was found.
    canonical (list[str]): The canonical name.
    is_expanded (list[bool]): Whether the mention has two forms.
    """

    first: list[str]
    last: list[str]
    found_by: list[str]
    name: list[str]
    canonical: list[str]
    is_expanded: list[bool]


def compute_strings(batch: QueryBatch) -> np.ndarray:
    """Compute the strings' features.

    batch (QueryBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features).
    """
    parts = [_compute(pairs) for pairs in _divide(batch)]
    return np.concatenate([np.zeros((0, len(STRINGS.features)), dtype=np.float32), *parts])


def _divide(batch: QueryBatch) -> Iterator[_Pairs]:
    """Divide the candidates by mentions."""
    lengths = batch.lists.lengths.tolist()
    for start in range(0, len(lengths), MENTIONS_AT_ONCE):
        end = min(start + MENTIONS_AT_ONCE, len(lengths))
        candidates = batch.candidates[batch.lists.offsets[start] : batch.lists.offsets[end]]
        counted = zip(batch.forms[start:end], lengths[start:end], strict=True)
        forms = chain.from_iterable([of or [""]] * n for of, n in counted)
        repeated = list(forms)
        yield _Pairs(
            [of[0] for of in repeated],
            [of[-1] for of in repeated],
            [candidate["mention"] for candidate in candidates],
            [candidate["name"] for candidate in candidates],
            [candidate["canonical_name"] for candidate in candidates],
            [len(of) > 1 for of in repeated],
        )


def _compute(pairs: _Pairs) -> np.ndarray:
    mentions, names = StringTable([*pairs.first, *pairs.found_by]), StringTable([*pairs.name, *pairs.canonical])
    n = len(pairs.name)
    first, found_by = mentions.rows[:n], mentions.rows[n:]
    name, canonical = names.rows[:n], names.rows[n:]
    comparison = Comparison(mentions, names)
    is_expanded = np.array(pairs.is_expanded, dtype=bool)
    columns = [
        *comparison.compare(found_by, name),
        *comparison.compare(first, canonical),
        # Found by the short form of an abbreviation that the document defines.
        is_expanded & (first != found_by),
        names.plain[name] == names.plain[canonical],
        _find_initials(pairs.found_by, pairs.name),
        _find_initials(pairs.last, pairs.canonical),
        is_expanded,
        mentions.length[first],
        mentions.n_words[first],
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def _find_initials(mentions: list[str], names: list[str]) -> np.ndarray:
    # Few mentions are short forms.
    is_short = {mention: is_short_form(mention) for mention in set(mentions)}
    found = [is_short[mention] and is_initialism(mention, name) for mention, name in zip(mentions, names, strict=True)]
    return np.array(found, dtype=bool)


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
