"""Features of the strings: the mention's forms against the candidate's matched and canonical name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...abbreviations.initials import is_initialism, is_short_form
from ..comparing import Comparison
from .base import FeatureGroup, QueryBatch

# Mentions that are compared together: their sets are the rows of a table.
MENTIONS_AT_ONCE = 256


def compute_strings(batch: QueryBatch) -> np.ndarray:
    """Compute the strings' features.

    batch (QueryBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features).
    """
    parts = [_compute(batch, *part) for part in _divide(batch)]
    return np.concatenate([np.zeros((0, len(STRINGS.features)), dtype=np.float32), *parts])


def _divide(batch: QueryBatch) -> Iterator[tuple[slice, slice]]:
    """Divide the batch by mentions: those of each part, and their candidates."""
    for start in range(0, batch.lists.n_mentions, MENTIONS_AT_ONCE):
        end = min(start + MENTIONS_AT_ONCE, batch.lists.n_mentions)
        yield slice(start, end), slice(*batch.lists.offsets[[start, end]].tolist())


def _compute(batch: QueryBatch, mentions: slice, candidates: slice) -> np.ndarray:
    forms = [of or [""] for of in batch.forms[mentions]]
    texts = [form for of in forms for form in of]
    names, canonical_names = batch.name_keys[candidates], batch.canonical_keys[candidates]
    keys, places = np.unique(np.concatenate([names, canonical_names]), return_inverse=True)
    rows, table = batch.table.strings.tabulate([*texts, *keys.tolist()])

    n_forms = np.array([len(of) for of in forms], dtype=np.int64)
    mention = batch.lists.mention[candidates] - mentions.start
    # Places among the texts: of the more telling form, the one that found the candidate, the other.
    first = (np.cumsum(n_forms) - n_forms)[mention]
    found_by, last = first + batch.found_by[candidates], first + n_forms[mention] - 1
    name, canonical = rows[len(texts) :][places].reshape(2, -1)
    comparison = Comparison(table, rows[: len(texts)])
    is_expanded = n_forms[mention] > 1
    columns = [
        *comparison.compare(rows[found_by], name),
        *comparison.compare(rows[first], canonical),
        # Found by the short form of an abbreviation that the document defines.
        is_expanded & (rows[first] != rows[found_by]),
        table.plain[name] == table.plain[canonical],
        _find_initials(batch, texts, found_by, names),
        _find_initials(batch, texts, last, canonical_names),
        is_expanded,
        table.length[rows[first]],
        table.words.sizes[rows[first]],
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def _find_initials(batch: QueryBatch, texts: list[str], forms: np.ndarray, names: np.ndarray) -> np.ndarray:
    found = np.zeros(len(forms), dtype=bool)
    # Few mentions are short forms.
    is_short = np.array([is_short_form(text) for text in texts], dtype=bool)
    for place in np.flatnonzero(is_short[forms]).tolist():
        found[place] = is_initialism(texts[forms[place]], batch.table.get_name(int(names[place])))
    return found


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
