"""Trust: how probable it is that words of a running text mean a concept whose name they are. "Men" and "rich" are names
of syndromes too, but texts that have these words are about something else.

Each name has a logit, computed from the terminology alone: how common its words are in English, how many sources have
it, and whether it is a canonical name. How the words were found adds to it. The weights are fitted by
`python -m spacy project run trust projects/reranker`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from ..columns import TextColumn, read_chunks
from ..terminology.codes import SOURCE_SEPARATOR
from .english import RARE, compute_commonness, find_levels
from .initialisms import OWN_CASE_LENGTH, is_initialism
from .scan import sum_hashes

if TYPE_CHECKING:
    from ..terminology.table import Terminology

# The weights of signals of a name, and of how it was found.
WEIGHTS = {
    "bias": 2.19,
    "common": -0.99,
    "one_common": -2.16,
    "canonical": 0.87,
    "sources": 1.79,
    "all_sources": -2.03,
    "names": 0.3,
}
WAYS = {
    **{"exact": 0.0, "form": -0.66, "classes": -1.16, "coordination": -1.23, "definition": -0.46},
    **{"derived": -0.06, "said": -0.06, "marked": -0.06, "spelling": -2.93, "gap": -1.61, "place": -0.66},
}
# What adds to the logit if a mention is part of a longer phrase, which may say something else. Chosen by how well the
# probability then tells right ids from wrong ones, in development parts.
INSIDE = -0.7
# So many sources, or more, have names that nobody else uses.
MOST_SOURCES = 8
# How much longer than an acronym a name has to be that it stands for.
LONGER = 3


def compute_trust(terminology: Terminology, words: np.ndarray, name: np.ndarray, has_levels: np.ndarray) -> np.ndarray:
    """Compute the logit of each name, given the hashes of all words, the row of each one's name, and of which names it
    is known how common their words are: float32."""
    signals = compute_signals(terminology, words, name, has_levels)
    return sum((WEIGHTS[name] * values for name, values in signals.items()), np.float32(0)).astype(np.float32)


def compute_signals(
    terminology: Terminology, words: np.ndarray, name: np.ndarray, has_levels: np.ndarray
) -> dict[str, np.ndarray]:
    """Compute what the logit of each name depends on, by the names in `WEIGHTS`."""
    n = terminology.n_names
    concept = terminology.name_concept.astype(np.int64)
    level = np.zeros(n, dtype=np.int64)
    np.maximum.at(level, name, np.where(has_levels[name], find_levels(words), RARE))
    key = np.unique(sum_hashes(words, name, n), return_inverse=True)[1]
    names = _read_lower(terminology.names["name"])
    canonical = [*_read_lower(terminology.concepts["canonical_name"])]
    pairs = zip(names, concept.tolist(), strict=True)
    is_canonical = np.fromiter((text == canonical[row] for text, row in pairs), bool)
    n_sources, n_all_sources = _count_sources(terminology, key)
    of_concept = key * len(terminology) + concept
    common = compute_commonness(level)
    is_one = np.bincount(name, minlength=n) == 1
    return {
        "bias": np.ones(n),
        "common": common,
        "one_common": is_one * common,
        # Of the same concept, in any order of the words.
        "canonical": np.isin(of_concept, of_concept[is_canonical]),
        "sources": np.log(n_sources),
        "all_sources": np.full(n, np.log(min(n_all_sources, MOST_SOURCES)) / np.log(MOST_SOURCES)),
        "names": np.log(np.diff(terminology.name_offsets))[concept],
    }


def _read_lower(texts: TextColumn) -> Iterator[str]:
    return map(str.lower, chain.from_iterable(read_chunks(texts)))


def _count_sources(terminology: Terminology, key: np.ndarray) -> tuple[np.ndarray, int]:
    """Count the sources that have each name, for any concept, and those of the terminology."""
    numbers: dict[str, int] = {}
    source: list[int] = []
    counts: list[int] = []
    for text in chain.from_iterable(read_chunks(terminology.names["source"])):
        sources = text.split(SOURCE_SEPARATOR)
        source += [numbers.setdefault(name, len(numbers)) for name in sources]
        counts.append(len(sources))
    n_all = max(len(numbers), 1)
    pairs = np.repeat(key, counts) * n_all + np.array(source, dtype=np.int64)
    return np.bincount(np.unique(pairs) // n_all)[key], n_all


def find_word_acronyms(
    terminology: Terminology, words: np.ndarray, name: np.ndarray, has_levels: np.ndarray
) -> np.ndarray:
    """Find names that are a known word and, in any case, an acronym of another name of their concept. Returns their
    rows, sorted; uint32."""
    is_alone = np.bincount(name)[name] == 1
    is_word = is_alone & has_levels[name] & (find_levels(words) < RARE)
    names = terminology.names["name"]
    offsets = terminology.name_offsets
    concepts = terminology.name_concept

    def is_acronym(row: int) -> bool:
        short = names[row].upper()
        if len(short) > OWN_CASE_LENGTH:
            return False
        concept = concepts[row]
        others = (names[other] for other in range(*offsets[concept : concept + 2].tolist()))
        return any(len(other) > len(short) + LONGER and is_initialism(short, other) for other in others)

    return np.array([*filter(is_acronym, name[is_word].tolist())], dtype=np.uint32)
