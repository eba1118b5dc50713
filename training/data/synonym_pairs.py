"""Pairs of synonyms in a terminology: the training data of SapBERT (Liu et al., NAACL 2021, section 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology

from ..errors import Errors
from .pairs import make_pair_data, save_pairs
from .sampling import choose_pairs, make_keys

LIMIT = 50


def list_distinct_names(terminology: Terminology, *, lower_case: bool = True) -> pl.DataFrame:
    """List the distinct names of each concept, whatever their language.

    terminology (Terminology): Concepts and names.
    lower_case (bool): Lower-case them first.
    RETURNS (pl.DataFrame): The columns `concept` (row) and `name`, sorted by both, so that the order of reading has no
        effect.
    """
    name = pl.col("name").str.to_lowercase() if lower_case else pl.col("name")
    # Names are sorted by concept already: only the names within a concept need sorting.
    return terminology.names.select("concept", name).unique().sort("concept", "name")


def list_sources(terminology: Terminology) -> pl.Series:
    """List the sources that name each concept.

    terminology (Terminology): Concepts and names.
    RETURNS (pl.Series): The sources of each concept, joined by "|", in the order of the concepts.
    """
    rows = terminology.names.select("concept", pl.col("source").str.split("|")).unique().explode("source").unique()
    sources = (
        rows.sort("concept", "source").group_by("concept", maintain_order=True).agg(pl.col("source").str.join("|"))
    )
    concepts = pl.DataFrame({"concept": np.arange(len(terminology), dtype=np.uint32)})
    return concepts.join(sources, on="concept", how="left", maintain_order="left")["source"].fill_null("")


def write_pairs(
    terminology: Terminology, path: str | Path, *, lower_case: bool = True, limit: int = LIMIT, seed: int = 0
) -> dict[str, Any]:
    """Write a folder of pairs: all unordered pairs of a concept's names, or `limit` drawn uniformly.

    terminology (Terminology): Concepts and names.
    path (str | Path): The folder.
    lower_case (bool): Lower-case names, as SapBERT was trained.
    limit (int): Pairs of a concept at most; 50 in the paper.
    seed (int): Seed of the draw. A concept's pairs depend on its id, its names and the seed only.
    RETURNS (dict[str, Any]): The counts, the settings and the terminology's fingerprint, as in the manifest.
    RAISES (ValueError): If no concept has two names, or a setting is invalid.
    """
    if limit < 1 or seed < 0:
        raise ValueError(Errors.E601.format(limit=limit, seed=seed))
    names = list_distinct_names(terminology, lower_case=lower_case)
    concept = names["concept"].to_numpy()
    offsets = np.searchsorted(concept, np.arange(len(terminology) + 1, dtype=np.uint32)).astype(np.int64)
    n = np.diff(offsets)
    keys = np.zeros(len(n), dtype=np.uint64)
    is_large = n * (n - 1) // 2 > limit
    ids = terminology.concepts["id"]
    keys[is_large] = make_keys(ids.filter(pl.Series(is_large)).to_list(), seed)
    first, second = choose_pairs(offsets, keys, limit)
    if not len(first):
        raise ValueError(Errors.E602.format(concepts=len(terminology), names=names.height))
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
        "terminology": terminology.fingerprint,
    }
    pairs = make_pair_data(names["name"], first, second, ids, concept[first], list_sources(terminology))
    save_pairs(pairs, path, data)
    return data
