"""Terminologies made of the dictionaries of corpora, with canonical names, and without a share of their concepts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from spacy_sapbert.terminology.edits import remove_concepts
from spacy_sapbert.terminology.readers.lines import SourceFile

from .mentions import EQUAL_IDS, read_dictionary_rows


def make_dictionary_terminology(
    path: str | Path, *, described_by: Terminology | None = None, sources: Sequence[str] = ()
) -> Terminology:
    """Make a terminology of the dictionary of a corpus, with the same names. Another terminology may give types,
    definitions and parents: it has the ids of the dictionary among its codes, which may be limited to sources."""
    file = SourceFile(path)
    names: dict[tuple[str, ...], dict[str, None]] = {}
    for joined, name, _ in read_dictionary_rows(file):
        names.setdefault(tuple(joined.split(EQUAL_IDS)), {})[name] = None
    if not names:
        raise ValueError(f"{path} has no name. Give lines of an id, a tab and a name.")
    # The row of each code in the other terminology.
    row_of: dict[str, int] = {}
    for row, codes in enumerate(described_by.concepts["codes"].to_list() if described_by else ()):
        for code in codes:
            source, _, plain = code.partition(":")
            if not sources or source in sources:
                row_of.setdefault(plain, row)
    # A concept is called by the first of its ids that no other concept has.
    id_of: dict[tuple[str, ...], str] = {}
    row_of_id: dict[str, int] = {}
    ids: set[str] = set()
    for parts in names:
        id_ = id_of[parts] = next((part for part in parts if part not in ids), "+".join(parts))
        ids.add(id_)
        if rows := [part for part in parts if part in row_of]:
            row_of_id[id_] = row_of[rows[0]]
    ids_of_row: dict[int, set[str]] = {}
    for id_, row in row_of_id.items():
        ids_of_row.setdefault(row, set()).add(id_)
    builder = TerminologyBuilder()
    for parts, written in names.items():
        id_ = id_of[parts]
        facts: dict[str, Any] = {}
        if described_by and id_ in row_of_id:
            concept = described_by.concept(row_of_id[id_])
            above = [described_by.row(parent) for parent in concept.parents if parent in described_by]
            parents = {parent for row in above for parent in ids_of_row.get(row, ())}
            facts = {"types": concept.types, "definition": concept.definition, "parents": sorted(parents)}
        codes = [f"OTHER:{part}" for part in parts if part != id_]
        builder.add_concept(id_, canonical_name=next(iter(written)), codes=codes, **facts)
        for name in written:
            # Not marked as preferred: ties would be decided in another way than with the table as published.
            builder.add_name(id_, name)
    return builder.build({"files": [file.describe()], "described": len(row_of_id)})


def remove_share(terminology: Terminology, share: float, *, seed: int = 0) -> tuple[Terminology, list[str]]:
    """Take a share of the concepts out of a terminology, drawn at random, so that mentions of them become NIL."""
    if not 0 <= share < 1:
        raise ValueError(f"The share of concepts to take out is {share}, but has to be 0 or more and less than 1.")
    rows = np.random.default_rng(seed).permutation(len(terminology))[: round(share * len(terminology))]
    ids = sorted(terminology.concepts["id"][np.sort(rows)])
    return (remove_concepts(terminology, ids).terminology if ids else terminology), ids
