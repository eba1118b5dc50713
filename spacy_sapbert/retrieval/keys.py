"""Keys of token sequences. Rows and stored vectors are found by the key of their tokens."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..encoder.token_lists import TokenLists

# 128 bits: among a billion token sequences, a chance of 1e-21 that two share a key.
KEY_DTYPE = np.dtype("V16")


def make_keys(tokens: TokenLists) -> np.ndarray:
    """Hash token sequences.

    tokens (TokenLists): The sequences.
    RETURNS (ndarray): The key of each; `KEY_DTYPE`.
    """
    data, size = memoryview(tokens.ids.astype("<i4", copy=False).tobytes()), KEY_DTYPE.itemsize
    keys, start = bytearray(), 0
    for end in (tokens.ends * 4).tolist():
        keys += blake2b(data[start:end], digest_size=size).digest()
        start = end
    return np.frombuffer(bytes(keys), dtype=KEY_DTYPE)


def group_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group equal keys. Groups are in the order of their first keys.

    keys (ndarray): Keys.
    RETURNS (tuple[ndarray, ndarray]): Where the first key of each group is, and the group of each key; int64.
    """
    halves = np.ascontiguousarray(keys).view(np.uint64).reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    halves = halves[order]
    is_new = np.ones(len(keys), dtype=bool)
    is_new[1:] = (halves[1:] != halves[:-1]).any(axis=1)
    # The sort is stable, so that the first of equal keys is the first one there is.
    first = order[is_new]
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    group = np.empty(len(keys), dtype=np.int64)
    group[order] = rank[np.cumsum(is_new) - 1]
    return np.sort(first), group


def find_keys(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Find keys among many others.

    keys (ndarray): Distinct keys.
    wanted (ndarray): The keys to find.
    RETURNS (ndarray): Where each of them is in `keys`, or -1; int64.
    """
    # Comparing the first halves as numbers is fast and excludes nearly all other keys.
    likely = np.flatnonzero(np.isin(_first_halves(keys), _first_halves(wanted)))
    place = dict(zip(keys[likely].tolist(), likely.tolist(), strict=True))
    return np.array([place.get(key, -1) for key in wanted.tolist()], dtype=np.int64)


def _first_halves(keys: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(keys).view(np.uint64)[::2]
