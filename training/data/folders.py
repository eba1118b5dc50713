"""Folders of training data, and their columns of strings: written whole, verified on reading, sorted by bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import spacy_sapbert
from spacy_sapbert.files import fill_folder, read_manifest, write_manifest


@dataclass(frozen=True)
class DataFolder:
    """A kind of folder.

    manifest (str): The manifest's file name.
    version (int): The version of the format.
    commands (str): The commands that write such folders, for messages.
    """

    manifest: str
    version: int
    commands: str

    @contextmanager
    def write(
        self, path: str | Path, data: Mapping[str, Any], *, hashes: Mapping[str, str] | None = None
    ) -> Iterator[Path]:
        """Yield a temporary folder. On success, its files are moved into place, the manifest last."""
        with fill_folder(Path(path), last=self.manifest) as temporary:
            yield temporary
            content = {**data, "spacy_sapbert": spacy_sapbert.__version__}
            write_manifest(temporary / self.manifest, self.version, content, hashes=hashes)

    def read(self, path: str | Path) -> dict[str, Any]:
        """Read the manifest of a folder, and check the files that it lists."""
        manifest = Path(path) / self.manifest
        if not manifest.is_file():
            raise FileNotFoundError(
                f"There is no {self.manifest} in {path}, so this is no complete folder of training data. Such "
                f"folders are written by {self.commands} of `python -m training`: run the command, or correct the "
                "path. Projects read those below their `--vars.data`, a folder that projects/training_data "
                "writes."
            )
        try:
            found = json.loads(manifest.read_text(encoding="utf8"))["format"]
        except (ValueError, KeyError, TypeError):
            found = self.version  # `read_manifest` reports the damage
        if found != self.version:
            raise OSError(
                f"{path} has the format {found} of training data, and this version reads {self.version}. Write "
                f"it again with {self.commands} of `python -m training`."
            )
        return read_manifest(manifest, self.version, used=["*.parquet"])


WORD = 8


def join_strings(strings: pl.Series) -> tuple[memoryview, np.ndarray]:
    """Join strings in UTF-8 without making Python objects of them."""
    array = strings.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, positions, data = array.buffers()
    if data is None or not len(array):
        return memoryview(b""), np.zeros(len(strings) + 1, dtype=np.int64)
    offsets = np.frombuffer(positions, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0]


def number_strings(strings: pl.Series) -> tuple[pl.Series, np.ndarray]:
    """Sort the distinct strings, and number each string by them."""
    content, offsets = join_strings(strings)
    # Words are read beyond the end of the last string, and cut afterwards.
    padded = np.zeros(len(content) + WORD, dtype=np.uint8)
    padded[: len(content)] = np.frombuffer(content, dtype=np.uint8)
    words = np.ndarray((len(content) + 1,), dtype=">u8", buffer=padded, strides=(1,))
    starts, lengths = offsets[:-1], np.diff(offsets)
    keys = _read_words(words, starts, lengths, 0)
    order = np.argsort(keys)
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = keys[order[1:]] != keys[order[:-1]]
    place = WORD
    while len(tied := _find_tied(is_first)):
        rows = order[tied]
        has_more = bool((lengths[rows] > place).any())
        # Strings that are equal but for zeros at their end differ in length.
        keys = _read_words(words, starts[rows], lengths[rows], place) if has_more else lengths[rows]
        group = np.cumsum(is_first[tied])
        inner = np.lexsort((keys, group))
        order[tied] = rows[inner]
        is_first[tied[1:]] |= keys[inner[1:]] != keys[inner[:-1]]
        if not has_more:
            break
        place += WORD
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(is_first) - 1
    return strings.gather(order[is_first]), numbers


def _read_words(words: np.ndarray, starts: np.ndarray, lengths: np.ndarray, place: int) -> np.ndarray:
    """Read eight bytes at a place of each string as a number; bytes beyond its end count as zero."""
    left = np.clip(lengths - place, 0, WORD)
    found = words[np.where(left > 0, starts + place, 0)].astype(np.uint64)
    cut = (8 * (WORD - left)).astype(np.uint64)
    # A shift by 64 bits is undefined.
    return np.where(left > 0, (found >> (cut & 63)) << (cut & 63), 0)


def _find_tied(is_first: np.ndarray) -> np.ndarray:
    """Find the positions of groups with several members; `is_first` marks the first of each group."""
    is_alone = is_first.copy()
    is_alone[:-1] &= is_first[1:]
    return np.flatnonzero(~is_alone)
