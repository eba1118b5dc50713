"""Sort and number many strings by their bytes, eight at a time, and join a column of strings to one piece of bytes."""

from __future__ import annotations

import numpy as np
import polars as pl

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
