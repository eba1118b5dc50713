"""Draw pairs uniformly and reproducibly, without listing all pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def make_keys(ids: Sequence[str], seed: int) -> np.ndarray:
    """Make a random number for each concept, which depends only on its id and the seed."""
    key = seed.to_bytes(8, "little")
    digests = (hashlib.blake2b(concept_id.encode("utf8"), digest_size=8, key=key).digest() for concept_id in ids)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def draw(keys: np.ndarray, step: int) -> np.ndarray:
    """Draw the next random number of each sequence: SplitMix64 (Steele et al., OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        z = keys + _GOLDEN * np.uint64(step + 1)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def sample_without_replacement(sizes: np.ndarray, n: int, keys: np.ndarray) -> np.ndarray:
    """Draw n distinct numbers below each size, every set with equal probability: Floyd's algorithm (CACM 30(9), 1987)."""
    drawn = np.empty((len(sizes), n), dtype=np.int64)
    for step in range(n):
        last = sizes - n + step
        # The remainder favours small numbers by less than one in 10**10.
        number = (draw(keys, step) % (last + 1).astype(np.uint64)).astype(np.int64)
        is_taken = (drawn[:, :step] == number[:, None]).any(axis=1)
        drawn[:, step] = np.where(is_taken, last, number)
    drawn.sort(axis=1)
    return drawn


def unrank_pairs(ranks: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the pairs (i, j), i < j < n, of given ranks in lexicographic order."""
    behind = n * (n - 1) // 2 - 1 - ranks
    # Counted from the end, the pairs form a triangle: row r holds r + 1 of them.
    row = ((np.sqrt(8.0 * behind + 1.0) - 1.0) / 2.0).astype(np.int64)
    row -= row * (row + 1) // 2 > behind
    row += (row + 1) * (row + 2) // 2 <= behind
    place = behind - row * (row + 1) // 2
    return n - 2 - row, n - 1 - place


def choose_pairs(offsets: np.ndarray, keys: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Pair the items of each group: all unordered pairs, or `limit` of them drawn uniformly where there are more."""
    starts, n = offsets[:-1], np.diff(offsets)
    n_pairs = n * (n - 1) // 2
    left, right = [], []
    for size in np.unique(n[(n_pairs > 0) & (n_pairs <= limit)]).tolist():
        i, j = np.triu_indices(size, 1)
        start = starts[n == size][:, None]
        left.append((start + i).ravel())
        right.append((start + j).ravel())
    is_large = n_pairs > limit
    if is_large.any():
        ranks = sample_without_replacement(n_pairs[is_large], limit, keys[is_large])
        i, j = unrank_pairs(ranks, n[is_large][:, None])
        start = starts[is_large][:, None]
        left.append((start + i).ravel())
        right.append((start + j).ravel())
    if not left:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    # One number for both items: sorting numbers is several times as fast as sorting rows by two keys.
    n_items = offsets[-1]
    both = np.concatenate(left) * n_items + np.concatenate(right)
    both.sort()
    return both // n_items, both % n_items
