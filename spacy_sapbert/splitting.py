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
    n_lines_before = np.arange(len(texts))
    ends = offsets[1:].astype(np.int64) + n_lines_before
    size = len(bytes_of_texts) + len(texts)
    is_text = np.ones(size, dtype=bool)
    is_text[ends] = False
    data = np.full(size, NEW_LINE, dtype=np.uint8)
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
        of_distinct = [numbers[part] for part in distinct]
        ids.append(np.array(of_distinct, dtype=np.int32)[groups])
        lengths.append(parts.of_texts)
    offsets = make_offsets(np.concatenate(lengths))
    return [*numbers], TokenLists(np.concatenate(ids), offsets)


def _split(texts: JoinedTexts, find_cuts: FindCuts | None) -> Parts:
    """Split texts at each space, and where they are cut besides."""
    is_bound = texts.data == SPACE
    is_bound[texts.ends] = True
    # A space and the end of a text take up a place, a cut does not.
    n_skipped = is_bound.astype(np.int64)
    if find_cuts is not None:
        is_bound[find_cuts(texts.data)] = True
    bounds = np.flatnonzero(is_bound)
    next_starts = bounds + n_skipped[bounds]
    starts = np.append(0, next_starts[:-1])
    last_parts = np.searchsorted(bounds, texts.ends)
    of_texts = np.diff(last_parts, prepend=-1)
    return Parts(starts, bounds - starts, of_texts)


def _group_equal(data: np.ndarray, parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """Group equal parts: one of each group, and the number of each part's group."""
    hashes = _hash_parts(data, parts)
    order = np.argsort(hashes)
    ordered = hashes[order]
    is_other = ordered[1:] != ordered[:-1]
    is_new = np.append(True, is_other)
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = np.cumsum(is_new) - 1
    return order[is_new], groups


def _hash_parts(data: np.ndarray, parts: Parts) -> np.ndarray:
    """Hash parts. Of 100,000 distinct ones, two share a hash of 64 bits by a chance of 3e-10."""
    packed = PackedBytes(data, parts.starts, parts.lengths)
    hashes: np.ndarray = parts.lengths.astype(np.uint64) * FACTOR
    for rows, numbers in packed.read_all():
        mixed = (hashes[rows] ^ numbers) * FACTOR
        hashes[rows] = mixed ^ mixed >> HALF
    return hashes


def _read_parts(data: np.ndarray, parts: Parts, rows: np.ndarray) -> list[str]:
    """Read some parts as strings."""
    text = data.tobytes()
    starts = parts.starts[rows]
    ends = starts + parts.lengths[rows]
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    return [text[start:end].decode() for start, end in bounds]
