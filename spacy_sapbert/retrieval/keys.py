"""Keys of token sequences. Rows and stored vectors are found by the key of their tokens."""

from __future__ import annotations

import hashlib

import numpy as np

# 128 bits: among a billion token sequences, a chance of 1e-21 that two share a key.
KEY_DTYPE = np.dtype("V16")


def make_key(tokens: np.ndarray) -> bytes:
    """Hash a token sequence.

    tokens (ndarray): Token ids, little-endian int32.
    RETURNS (bytes): The key, an item of `KEY_DTYPE`.
    """
    return hashlib.blake2b(tokens.tobytes(), digest_size=KEY_DTYPE.itemsize).digest()


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
