"""The names of a terminology as a table of hashes: small, quick to load, and without the names themselves. A mention is
a sequence of hashes, one for each word, by which the names that are written like it are found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..ragged import find_places, list_owners
from ..text import CACHED, normalize_writing
from .languages import ENGLISH, Language
from .scan import make_keys, scan_names

if TYPE_CHECKING:
    import polars as pl


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

    def find_whole(self, texts: Sequence[str]) -> np.ndarray:
        """Find the entries of texts as wholes."""
        return self.find_keys(make_keys(texts, self.language))

    def find_keys(self, keys: np.ndarray) -> np.ndarray:
        """Find the entries of the keys of whole texts. A text without words has the key 0."""
        return np.where(keys > 0, find_places(self.keys, keys), -1)

    def rows_of(self, entry: int) -> np.ndarray:
        """Return the names of an entry."""
        return self.name_rows[self.offsets[entry] : self.offsets[entry + 1]]


def key_names(names: pl.Series, rows: np.ndarray, language: Language = ENGLISH) -> tuple[np.ndarray, np.ndarray]:
    """List the keys of names that have words, and their rows."""
    of_chunks = [words.make_keys(offsets) for words, offsets in scan_names(names, language)]
    keys = np.concatenate([np.empty(0, dtype=np.uint64), *of_chunks])
    return keys[keys > 0], rows[keys > 0]


def arrange_by_key(keys: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the arrays of a table from keys of names, and the names' rows."""
    order = np.lexsort((rows, keys))
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - np.uint64(1)))
    return keys[starts], np.append(starts, len(keys)).astype(np.uint32), rows[order].astype(np.uint32)


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
