"""The names of a terminology as a table of hashes: small, quick to load, and without the names themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..progress import show_progress
from .words import INSIDE, Words, read_hashes

if TYPE_CHECKING:
    import polars as pl

# The key of words a, b, c is (a * MULTIPLIER + b) * MULTIPLIER + c, modulo 2^64. Any large odd number does.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
MODULO = 1 << 64
# Names read between two steps of the progress bar.
CHUNK = 8192


class Matches(NamedTuple):
    """Where names are in a text. They may overlap.

    starts (ndarray): Where each starts, in characters; int64.
    ends (ndarray): Where each ends.
    entries (ndarray): Its entry of the table.
    """

    starts: np.ndarray
    ends: np.ndarray
    entries: np.ndarray


class NameTable(NamedTuple):
    """The keys of all names and of all their beginnings, sorted: which names are written like a text.

    With keys of 64 bits and a million of them, one of 2e13 words of text is taken for a name that it is not.

    keys (ndarray): Distinct keys, ascending; uint64.
    is_prefix (ndarray): Whether a longer name starts with these words; bool.
    offsets (ndarray): Where the names with these words start in `name_rows`; shape (keys + 1,). Beginnings that are no
        names have none.
    name_rows (ndarray): Rows of the terminology's names.
    """

    keys: np.ndarray
    is_prefix: np.ndarray
    offsets: np.ndarray
    name_rows: np.ndarray

    @classmethod
    def build(cls, names: pl.Series) -> NameTable:
        """Make the table of a terminology's names.

        names (Series): The names.
        RETURNS (NameTable): The table.
        """
        return cls(*_arrange(*_list_keys(names, np.arange(len(names)))))

    def edited(self, names: pl.Series, moved: np.ndarray) -> NameTable:
        """Make the table of an edited terminology. Only new names are read.

        names (Series): The names of the edited terminology.
        moved (ndarray): The row of each old name there, or -1 for names that were removed.
        RETURNS (NameTable): It finds what a table built of these names finds.
        """
        rows = moved[self.name_rows]
        keys = np.repeat(self.keys, self.offsets[1:] - self.offsets[:-1])
        is_new = np.ones(len(names), dtype=bool)
        is_new[rows[rows >= 0]] = False
        new = np.flatnonzero(is_new)
        old = keys[rows >= 0], rows[rows >= 0], self.keys[self.is_prefix]
        return NameTable(*_arrange(*map(np.concatenate, zip(old, _list_keys(names.gather(new), new), strict=True))))

    def find(self, words: Words) -> Matches:
        """Find all names in a text, in the order of their numbers of words.

        words (Words): The text.
        RETURNS (Matches): The names.
        """
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
        """Find the entries of texts as wholes.

        texts (Iterable[str]): The texts.
        RETURNS (ndarray): For each the entry of the names that are written like it, -1 if there are none; int64.
        """
        keys = np.array([_combine(read_hashes(text)) for text in texts], dtype=np.uint64)
        entries = self.look_up(keys)
        # A text without words has the key 0.
        is_name = (entries >= 0) & (keys > 0) & (self.offsets[entries + 1] > self.offsets[entries])
        return np.where(is_name, entries, -1)

    def look_up(self, keys: np.ndarray) -> np.ndarray:
        """Look keys up.

        keys (ndarray): The keys; uint64.
        RETURNS (ndarray): The entry of each, or -1; int64.
        """
        if not len(self.keys):
            return np.full(len(keys), -1, dtype=np.int64)
        entries = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[entries] == keys, entries, -1)

    def rows_of(self, entry: int) -> np.ndarray:
        """Return the names of an entry.

        entry (int): The entry.
        RETURNS (ndarray): Rows of the terminology's names.
        """
        return self.name_rows[self.offsets[entry] : self.offsets[entry + 1]]

    def mark(self, names: np.ndarray) -> np.ndarray:
        """Mark the entries of which any name is marked.

        names (ndarray): For each name of the terminology whether it is; bool.
        RETURNS (ndarray): For each entry whether it is; bool.
        """
        before = np.concatenate([[0], np.cumsum(names[self.name_rows])])
        marked: np.ndarray = before[self.offsets[1:]] > before[self.offsets[:-1]]
        return marked


def _combine(hashes: Iterable[int]) -> int:
    key = 0
    for word in hashes:
        key = (key * int(MULTIPLIER) + word) % MODULO
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
