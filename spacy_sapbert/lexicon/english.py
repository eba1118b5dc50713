"""How common words are in English, by SCOWL: its list of level 10 has the commonest words, each further one rarer ones.

The file has hashes of normal forms. It is made by `python -m spacy project run english projects/open_terminology`;
scowl_copyright.txt says whose work it is.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from ..ragged import find_places

FILE = Path(__file__).parent / "english.safetensors"
# Of hashes of words, the file has the first bits.
SHIFT = np.uint64(32)
# The level of words that are in no list.
RARE = 100


_load = cache(load_file)


def find_levels(hashes: np.ndarray) -> np.ndarray:
    """Find the level of each word, given the hashes of normal forms: from 10, the commonest, to 60, or RARE."""
    listed = _load(FILE)
    places = find_places(listed["words"], (hashes >> SHIFT).astype(np.uint32))
    return np.where(places >= 0, listed["levels"][places], RARE)


def compute_commonness(levels: np.ndarray) -> np.ndarray:
    """Turn levels into numbers from 1, for words that everybody knows, to 0."""
    return np.clip(1.2 - levels / 50, 0, 1)
