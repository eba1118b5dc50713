"""Names in parts: what stands between their spaces. Millions of names have few distinct parts, so that what is read of
a part is read once. Names are split where their bytes are, many at a time, without a string for each part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

import numpy as np

from .columns import CHUNK, PackedBytes, TextColumn, Texts
from .ragged import TokenLists, make_offsets

SPACE, NEW_LINE = b" \n"
# Hashes are multiplied by it. Any large odd number does.
FACTOR = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
# Finds the places of joined bytes that parts begin at, though there is no space before them.
FindCuts = Callable[[np.ndarray], np.ndarray]


class JoinedTexts(NamedTuple):
    """The bytes of texts, each with a new line behind it."""

    data: np.ndarray  # uint8
    ends: np.ndarray  # the place behind each text

    def find_owners(self, places: np.ndarray) -> np.ndarray:
        """Find the numbers of the texts that places are in."""
        return np.searchsorted(self.ends, places)


class Parts(NamedTuple):
    """The parts of joined texts, in their order."""

    starts: np.ndarray
    lengths: np.ndarray  # in bytes
    of_texts: np.ndarray  # how many parts each text has


def read_columns(names: Texts) -> Iterator[TextColumn]:
    """Read names as columns of `CHUNK` names."""
    for start in range(0, len(names), CHUNK):
        chunk = names[start : start + CHUNK]
        yield chunk if isinstance(chunk, TextColumn) else TextColumn.make(chunk)


def join_texts(texts: TextColumn) -> JoinedTexts:
    """Join texts."""
    bytes_of_texts, offsets, _ = texts.buffers()
    ends = offsets[1:].astype(np.int64) + np.arange(len(texts))
    is_text = np.ones(len(bytes_of_texts) + len(texts), dtype=bool)
    is_text[ends] = False
    data = np.full(len(is_text), NEW_LINE, dtype=np.uint8)
    data[is_text] = bytes_of_texts
    return JoinedTexts(data, ends)


def number_parts(names: Texts, find_cuts: FindCuts | None = None) -> tuple[list[str], TokenLists]:
    """Number the distinct parts of names: the parts, and the numbers of each name's."""
    numbers: dict[str, int] = defaultdict(count().__next__)
    ids = [np.empty(0, dtype=np.int32)]
    lengths = [np.empty(0, dtype=np.int64)]
    for texts in read_columns(names):
        joined = join_texts(texts)
        parts = _split(joined, find_cuts)
        firsts, groups = _group_equal(joined.data, parts)
        distinct = _read_parts(joined.data, parts, firsts)
        of_distinct = np.fromiter(map(numbers.__getitem__, distinct), np.int32, len(distinct))
        ids.append(of_distinct[groups])
        lengths.append(parts.of_texts)
    return [*numbers], TokenLists(np.concatenate(ids), make_offsets(np.concatenate(lengths)))


def _split(texts: JoinedTexts, find_cuts: FindCuts | None) -> Parts:
    """Split texts at each space, and where they are cut besides."""
    is_bound = texts.data == SPACE
    is_bound[texts.ends] = True
    # A space and the end of a text take up a place, a cut does not.
    n_skipped = is_bound.astype(np.int64)
    if find_cuts is not None:
        is_bound[find_cuts(texts.data)] = True
    bounds = np.flatnonzero(is_bound)
    starts = np.append(0, bounds + n_skipped[bounds])[:-1]
    of_texts = np.diff(np.searchsorted(bounds, texts.ends), prepend=-1)
    return Parts(starts, bounds - starts, of_texts)


def _group_equal(data: np.ndarray, parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """Group equal parts: one of each group, and the number of each part's group."""
    hashes = _hash_parts(data, parts)
    order = np.argsort(hashes)
    ordered = hashes[order]
    is_new = np.append(True, ordered[1:] != ordered[:-1])[: len(order)]
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = np.cumsum(is_new) - 1
    return order[is_new], groups


def _hash_parts(data: np.ndarray, parts: Parts) -> np.ndarray:
    """Hash parts. Of 300,000, two share a hash of 64 bits by a chance of 2e-9."""
    packed = PackedBytes(data, parts.starts, parts.lengths)
    hashes = parts.lengths.astype(np.uint64) * FACTOR
    for rows, numbers in packed.read_all():
        mixed = (hashes[rows] ^ numbers) * FACTOR
        hashes[rows] = mixed ^ mixed >> HALF
    return hashes


def _read_parts(data: np.ndarray, parts: Parts, rows: np.ndarray) -> list[str]:
    """Read some parts as strings."""
    text = data.tobytes()
    starts = parts.starts[rows]
    ends = starts + parts.lengths[rows]
    return [str(text[start:end], "utf8") for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
