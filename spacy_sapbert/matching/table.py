"""The names of a terminology as a table of hashes: small, quick to load, and without the names themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..files import fill_folder, read_manifest, save_array, write_manifest
from ..progress import show_progress
from .words import INSIDE, Words, read_words

if TYPE_CHECKING:
    from ..terminology.table import Terminology

TABLE_FILE = "matcher.json"
ARRAYS = ("keys", "is_prefix", "offsets", "name_rows")
FORMAT_VERSION = 1
# The key of words a, b, c is (a * MULTIPLIER + b) * MULTIPLIER + c, modulo 2^64. Any large odd number does.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
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


@dataclass(frozen=True)
class NameTable:
    """The keys of all names and of all their beginnings, sorted.

    With keys of 64 bits and a million of them, one of 2e13 words of text is taken for a name that it is not.

    keys (ndarray): Distinct keys, ascending; uint64.
    is_prefix (ndarray): Whether a longer name starts with these words; bool.
    offsets (ndarray): Where the names with these words start in `name_rows`; shape (keys + 1,). Beginnings that are no
        names have none.
    name_rows (ndarray): Rows of the terminology's names.
    fingerprint (str): That of the terminology.
    """

    keys: np.ndarray
    is_prefix: np.ndarray
    offsets: np.ndarray
    name_rows: np.ndarray
    fingerprint: str

    @classmethod
    def build(cls, terminology: Terminology) -> NameTable:
        """Make the table of a terminology.

        terminology (Terminology): Concepts and names.
        RETURNS (NameTable): The table.
        """
        names = terminology.names["name"]
        parts, lengths = [np.empty(0, dtype=np.uint64)], np.zeros(len(names), dtype=np.int64)
        with show_progress(total=len(names), description="Reading names for the matcher", unit="names") as progress:
            for start in range(0, len(names), CHUNK):
                chunk = [read_words(name).hashes for name in names[start : start + CHUNK].to_list()]
                lengths[start : start + len(chunk)] = [len(hashes) for hashes in chunk]
                parts.append(np.concatenate(chunk))
                progress.update(len(chunk))
        hashes = np.concatenate(parts)
        return cls(*_make_arrays(hashes, lengths), terminology.fingerprint)

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

    def find_whole(self, text: str) -> int:
        """Find the entry of a text as a whole.

        text (str): The text.
        RETURNS (int): The entry of the names that are written like it; -1 if there are none.
        """
        key = np.uint64(0)
        hashes = read_words(text).hashes
        for word in hashes:
            with np.errstate(over="ignore"):
                key = key * MULTIPLIER + word
        entry = int(self.look_up(np.array([key]))[0])
        return entry if len(hashes) and entry >= 0 and self.offsets[entry + 1] > self.offsets[entry] else -1

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

    def to_disk(self, path: Path) -> None:
        """Save to a folder, completely or not at all.

        path (Path): The folder.
        """
        with fill_folder(path, last=TABLE_FILE) as folder:
            for name in ARRAYS:
                with (folder / f"{name}.npy").open("wb") as file:
                    save_array(file, getattr(self, name))
            write_manifest(folder / TABLE_FILE, FORMAT_VERSION, {"terminology": self.fingerprint})

    @classmethod
    def from_disk(cls, path: Path) -> NameTable:
        """Load from a folder.

        path (Path): What `to_disk` has written.
        RETURNS (NameTable): The table.
        RAISES (OSError): If a file is missing or damaged.
        """
        data = read_manifest(path / TABLE_FILE, FORMAT_VERSION, used=[f"{name}.npy" for name in ARRAYS])
        keys, is_prefix, offsets, name_rows = (np.load(path / f"{name}.npy") for name in ARRAYS)
        return cls(keys, is_prefix, offsets, name_rows, data["terminology"])


def _make_arrays(hashes: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Make the arrays of a table from the words of all names, one after the other."""
    starts = np.cumsum(lengths) - lengths
    rows = np.flatnonzero(lengths)
    keys = np.zeros(len(rows), dtype=np.uint64)
    of_prefixes, of_names, name_rows = [keys[:0]], [keys[:0]], [rows[:0]]
    length = 0
    while len(rows):
        keys = keys * MULTIPLIER + hashes[starts[rows] + length]
        length += 1
        is_whole = lengths[rows] == length
        of_names.append(keys[is_whole])
        name_rows.append(rows[is_whole])
        rows, keys = rows[~is_whole], keys[~is_whole]
        of_prefixes.append(keys)
    whole, prefixes = np.concatenate(of_names), np.concatenate(of_prefixes)
    distinct = np.unique(np.concatenate([whole, prefixes]))
    is_prefix = np.zeros(len(distinct), dtype=bool)
    is_prefix[np.searchsorted(distinct, prefixes)] = True
    entries = np.searchsorted(distinct, whole)
    order = np.lexsort((np.concatenate(name_rows), entries))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(entries, minlength=len(distinct)))])
    return distinct, is_prefix, offsets.astype(np.uint32), np.concatenate(name_rows)[order].astype(np.uint32)
