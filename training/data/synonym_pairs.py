"""Pairs of synonyms in a terminology: the training data of SapBERT (Liu et al., NAACL 2021, section 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.names import list_distinct_names

from ..errors import Errors
from .pairs import PairData, make_pair_data, save_pairs
from .sampling import choose_pairs, make_keys

LIMIT = 50
# Bits of a number that hold a source each; the last one is the sign.
BITS = 63


def list_sources(terminology: Terminology) -> pl.Series:
    """List the sources that name each concept."""
    # Few distinct lists name millions of concepts: a concept's sources are the bits of a few numbers.
    column = terminology.names["source"].cast(pl.Categorical())
    distinct = column.unique()
    listed = [joined.split("|") for joined in distinct.cast(pl.String()).to_list()]
    numbers = np.zeros(int(distinct.to_physical().to_numpy().max(initial=0)) + 1, dtype=np.int64)
    numbers[distinct.to_physical().to_numpy()] = np.arange(len(distinct))
    lists = numbers[column.to_physical().to_numpy()]
    known = sorted({source for sources in listed for source in sources})
    bits = np.zeros((len(listed), len(known) // BITS + 1), dtype=np.int64)
    for row, sources in enumerate(listed):
        for place in map(known.index, sources):
            bits[row, place // BITS] |= 1 << place % BITS
    offsets = terminology.name_offsets
    named = np.flatnonzero(np.diff(offsets))
    columns = {}
    for word in range(bits.shape[1]):
        found = np.zeros(len(terminology), dtype=np.int64)
        if len(named):
            found[named] = np.bitwise_or.reduceat(bits[:, word][lists], offsets[named])
        columns[str(word)] = found
    concepts = pl.DataFrame(columns)
    combinations = concepts.unique()
    texts = ["|".join(_list_bits(known, row)) for row in combinations.iter_rows()]
    combinations = combinations.with_columns(sources=pl.Series(texts, dtype=pl.String()))
    return concepts.join(combinations, on=list(columns), how="left", maintain_order="left")["sources"]


def _list_bits(known: list[str], words: tuple[int, ...]) -> list[str]:
    """List the sources whose bits are set."""
    listed = []
    for word, left in enumerate(words):
        while left:
            lowest = left & -left
            listed.append(known[word * BITS + lowest.bit_length() - 1])
            left ^= lowest
    return listed


def make_pairs(
    terminology: Terminology, *, lower_case: bool = True, limit: int = LIMIT, seed: int = 0
) -> tuple[PairData, dict[str, Any]]:
    """Make pairs: all unordered pairs of a concept's names, or `limit` drawn uniformly."""
    if limit < 1 or seed < 0:
        raise ValueError(
            (f"limit is {limit} and seed is {seed}, but at least one pair has to be wanted, and a seed is 0 or more.")
        )
    names = list_distinct_names(terminology.names, lower_case=lower_case)
    concept = names["concept"].to_numpy()
    offsets = np.searchsorted(concept, np.arange(len(terminology) + 1, dtype=np.uint32)).astype(np.int64)
    n = np.diff(offsets)
    keys = np.zeros(len(n), dtype=np.uint64)
    is_large = n * (n - 1) // 2 > limit
    ids = terminology.concepts["id"]
    keys[is_large] = make_keys(ids.filter(pl.Series(is_large)).to_list(), seed)
    first, second = choose_pairs(offsets, keys, limit)
    if not len(first):
        raise ValueError(
            (
                f"There are no pairs: of {len(terminology)} concepts with {names.height} distinct names, none has "
                "two. Keep more languages, sources or term types, or switch tradenames on."
            )
        )
    data = {
        "counts": {
            "concepts": len(terminology),
            "names": names.height,
            "concepts_with_pairs": int((n > 1).sum()),
            "all_pairs": int((n * (n - 1) // 2).sum()),
            "pairs": len(first),
            "concepts_cut": int(is_large.sum()),
        },
        "settings": {"lower_case": lower_case, "limit": limit, "seed": seed},
    }
    return make_pair_data(names["name"], first, second, ids, concept[first], list_sources(terminology)), data


def write_pairs(
    terminology: Terminology, path: str | Path, *, lower_case: bool = True, limit: int = LIMIT, seed: int = 0
) -> dict[str, Any]:
    """Write a folder of pairs made by `make_pairs`."""
    pairs, data = make_pairs(terminology, lower_case=lower_case, limit=limit, seed=seed)
    data["terminology"] = terminology.fingerprint
    save_pairs(pairs, path, data)
    return data
