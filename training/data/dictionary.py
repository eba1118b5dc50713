"""Terminologies made of the dictionaries of corpora, with canonical names, and without a share of their concepts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from spacy_sapbert.terminology.edits import remove_concepts
from spacy_sapbert.terminology.readers.lines import SourceFile

from ..data.task import choose_concepts
from .mentions import EQUAL_IDS, read_dictionary_rows

# The source of the other ids of a concept.
OTHER_IDS = "OTHER"


class Facts(NamedTuple):
    """What a terminology says about the concepts of a dictionary.

    row (int): The row of the concept in that terminology.
    parents (list[str]): The ids of its parents in the dictionary.
    """

    row: int
    parents: list[str]


def make_dictionary_terminology(
    path: str | Path, *, described_by: Terminology | None = None, sources: Sequence[str] = ()
) -> Terminology:
    """Make a terminology of the dictionary of a corpus, with the same names."""
    file = SourceFile(path)
    names: dict[str, dict[str, None]] = {}
    for joined, name, _ in read_dictionary_rows(file):
        names.setdefault(joined, {})[name] = None
    if not names:
        raise ValueError(
            f"{path} has no name (sources: {'all'}). Check the path, and the sources against its third column."
        )
    id_of = _choose_ids(names)
    facts = _find_facts(id_of, described_by, sources) if described_by is not None else {}
    builder = TerminologyBuilder()
    for joined, found in names.items():
        id_, canonical = id_of[joined], next(iter(found))
        codes = [f"{OTHER_IDS}:{part}" for part in joined.split(EQUAL_IDS) if part != id_]
        known = facts.get(id_)
        concept = described_by.concept(known.row) if described_by is not None and known else None
        builder.add_concept(
            id_,
            canonical_name=canonical,
            types=concept.types if concept else (),
            definition=concept.definition if concept else None,
            codes=codes,
            parents=known.parents if known else (),
        )
        for name in found:
            # Not marked as preferred: ties would be decided in another way than with the table as published.
            builder.add_name(id_, name)
    return builder.build({"files": [file.describe()], "described": len(facts)})


def _choose_ids(joined_ids: Iterable[str]) -> dict[str, str]:
    """Choose the id of each concept: the first that no other concept has."""
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for joined in joined_ids:
        parts = joined.split(EQUAL_IDS)
        chosen[joined] = next((part for part in parts if part not in taken), "+".join(parts))
        taken.add(chosen[joined])
    return chosen


def _find_facts(id_of: dict[str, str], described_by: Terminology, sources: Sequence[str]) -> dict[str, Facts]:
    """Find the concepts of a dictionary in a terminology by their codes."""
    row_of_code: dict[str, int] = {}
    for row, codes in enumerate(described_by.concepts["codes"].to_list()):
        for code in codes:
            source, _, plain = code.partition(":")
            if not sources or source in sources:
                row_of_code.setdefault(plain, row)
    rows: dict[str, int] = {}
    for joined, id_ in id_of.items():
        found = [row_of_code[part] for part in joined.split(EQUAL_IDS) if part in row_of_code]
        if found:
            rows[id_] = found[0]
    ids_of_row: dict[int, list[str]] = {}
    for id_, row in rows.items():
        ids_of_row.setdefault(row, []).append(id_)
    facts = {}
    for id_, row in rows.items():
        above = [described_by.row(parent) for parent in described_by.concept(row).parents if parent in described_by]
        facts[id_] = Facts(row, sorted({parent for at in above for parent in ids_of_row.get(at, ())}))
    return facts


def remove_share(terminology: Terminology, share: float, *, seed: int = 0) -> tuple[Terminology, list[str]]:
    """Take a share of the concepts out of a terminology, drawn at random, so that mentions of them become NIL."""
    if not 0 <= share < 1:
        raise ValueError(f"The share of concepts to take out is {share}, but has to be 0 or more and less than 1.")
    rows = np.random.default_rng(seed).permutation(len(terminology))[: round(share * len(terminology))]
    ids = sorted(terminology.concepts["id"].gather(np.sort(rows)).to_list())
    return (remove_concepts(terminology, ids).terminology if ids else terminology), ids


def limit_dictionary(terminology: Terminology, gold: Collection[str], max_names: int, *, seed: int = 0) -> Terminology:
    """Keep gold concepts, and other concepts drawn at random."""
    if terminology.n_names <= max_names:
        return terminology
    ids = terminology.concepts["id"]
    of_names = ids.gather(terminology.names["concept"]).to_list()
    chosen = choose_concepts(of_names, gold, max_names, seed=seed)
    return remove_concepts(terminology, [id_ for id_ in ids if id_ not in chosen]).terminology
