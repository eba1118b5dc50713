"""Which concepts of a terminology will be confused, without any annotation: each name is left out in turn and looked up
among the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.lexicon.bridge import get_bridge, make_keys
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.progress import show_progress
from spacy_sapbert.ragged import list_owners

from ..data.run_folder import write_text
from ..markup import format_rows

# Rows that are looked up together, and neighbours of each.
CHUNK = 1024
DEPTH = 32
# Concepts and pairs that the report lists, and the names that a listed concept has at least.
LISTED = 30
LEAST_NAMES = 3
COLUMNS = ("id", "name", "names", "left out", "right", "homonyms", "opposites", "taken for")
REPORT, TABLE = "report.md", "concepts.tsv"


@dataclass
class Expected:
    """How the names of a concept would be linked: counts."""

    n_names: int = 0
    n_left_out: int = 0  # names that were left out while others stayed
    n_right: int = 0  # left-out names whose nearest other name belongs to the concept
    n_homonyms: int = 0  # names that other concepts have too
    n_opposites: int = 0  # names whose nearest name is one of another concept that says the opposite
    taken_for: Counter[int] = field(default_factory=Counter)

    @property
    def share(self) -> float | None:
        """The share of names that would be linked right; None for a concept that has no second one."""
        return self.n_right / self.n_left_out if self.n_left_out else None


def expect(linker: SapbertLinker) -> list[Expected]:
    """Look up each name of a linker's terminology among all others, but for those with the same words, which would be
    found too easily ("Disease, Kidney"). Names with equal vectors are one name."""
    retriever = linker.retriever
    index = linker.index
    concept_of = retriever.terminology.name_concept
    names = retriever.names
    of_concepts = [Expected() for _ in range(len(retriever.terminology))]
    of_row = [retriever.name_rows[start:end] for start, end in pairwise(retriever.offsets.tolist())]
    # A row without names has no words.
    first = [int(rows[0]) if len(rows) else -1 for rows in of_row]
    keys = make_keys([names[row] if row >= 0 else "" for row in first]).tolist()
    pairs = {(concept, keys[row]) for row, of_names in enumerate(of_row) for concept in concept_of[of_names].tolist()}
    n_distinct = Counter(concept for concept, _ in pairs)
    bridge = get_bridge()
    with show_progress(total=len(index), description="Leaving names out", unit="names") as progress:
        for start in range(0, len(index), CHUNK):
            nearest, _ = index.search(np.asarray(index.vectors[start : start + CHUNK], dtype=np.float32), DEPTH)
            for row, neighbours in enumerate(nearest.tolist(), start):
                if first[row] < 0:
                    continue
                others = [near for near in neighbours if near >= 0 and keys[near] != keys[row] and first[near] >= 0]
                near = concept_of[of_row[others[0]]].tolist() if others else []
                concepts = {*concept_of[of_row[row]].tolist()}
                for concept in concepts:
                    expected = of_concepts[concept]
                    expected.n_names += 1
                    expected.n_homonyms += len(concepts) > 1
                    expected.n_left_out += n_distinct[concept] > 1
                    if concept in near:
                        expected.n_right += 1
                    elif near:
                        expected.taken_for[near[0]] += 1
                        expected.n_opposites += bridge.contradicts(names[first[row]], names[first[others[0]]])
            progress.update(len(nearest))
    return of_concepts


def list_branches(linker: SapbertLinker) -> dict[int, np.ndarray]:
    """List the concepts of each branch: those below the children of the lowest concept that has most of all others
    below it. None without a hierarchy."""
    hierarchy = linker.retriever.filters.hierarchy
    n = len(linker.terminology)
    parents, offsets = hierarchy.parents
    children = list_owners(offsets)
    visited = set[int]()
    level = np.setdiff1d(parents, children)
    while True:
        below = {row: np.flatnonzero(hierarchy.find_below(np.arange(n) == row)) for row in level.tolist()}
        large = next((row for row, rows in below.items() if 2 * len(rows) > n and row not in visited), -1)
        level = children[parents == large]
        if not len(level):
            return below
        visited.add(large)


def write_expected(linker: SapbertLinker, output: Path) -> float:
    """Write a table of all concepts and a report. Return the share of names that would be linked right."""
    expected = expect(linker)
    terminology = linker.terminology
    ids, names = (terminology.concepts[column].to_list() for column in ("id", "canonical_name"))

    def describe(row: int) -> list[str]:
        of_row = expected[row]
        share = "" if of_row.share is None else f"{100 * of_row.share:.0f}"
        others = ", ".join(f"{names[other]} ({n})" for other, n in of_row.taken_for.most_common(3))
        counts = (of_row.n_names, of_row.n_left_out, share, of_row.n_homonyms, of_row.n_opposites)
        return [ids[row], names[row], *map(str, counts), others]

    def summarise(title: str, rows: Any) -> list[str]:
        chosen = [expected[row] for row in rows]
        n = sum(of_row.n_left_out for of_row in chosen)
        n_right = sum(of_row.n_right for of_row in chosen)
        alone = sum(of_row.n_left_out == 0 for of_row in chosen)
        share = f"{100 * n_right / n:.1f}" if n else ""
        counts = (sum(of_row.n_homonyms for of_row in chosen), sum(of_row.n_opposites for of_row in chosen))
        return [title, f"{len(chosen):,}", f"{alone:,}", f"{n:,}", share, *map("{:,}".format, counts)]

    lines = ("\t".join(describe(row)) for row in range(len(ids)))
    write_text(output / TABLE, "".join(f"{line}\n" for line in ("\t".join(COLUMNS), *lines)))
    whole = summarise("all", range(len(ids)))
    below = list_branches(linker).items()
    branches = sorted((summarise(names[row], rows) for row, rows in below), key=lambda of: (float(of[4] or 101), of[0]))
    weak = [row for row, of_row in enumerate(expected) if of_row.n_left_out >= LEAST_NAMES]
    weak.sort(key=lambda row: (expected[row].share or 0.0, -expected[row].n_left_out))
    turned = [row for row, of_row in enumerate(expected) if of_row.n_opposites]
    turned.sort(key=lambda row: -expected[row].n_opposites)
    shared = [row for row, of_row in enumerate(expected) if of_row.n_homonyms]
    shared.sort(key=lambda row: -expected[row].n_homonyms)
    heading = ["branch", "concepts", "with one wording only", "names left out", "right, %", "homonyms", "opposites"]
    parts = [
        "# Which concepts will be confused\n\nEach name is removed, with other spellings of the same words, and "
        "looked up among the remaining names by the linker alone. Concepts with one wording only are not looked "
        "up. Homonyms are names that several concepts have; opposites: the nearest name says the opposite.\n",
        format_rows(heading, [whole, *branches], n_text_columns=1),
        *(
            f"## {title}\n\n{format_rows(COLUMNS, [describe(row) for row in rows[:LISTED]], n_text_columns=2)}"
            for title, rows in (("Weakest concepts", weak), ("Near opposites", turned), ("Homonyms", shared))
            if rows
        ),
    ]
    write_text(output / REPORT, "\n".join(parts))
    return float(whole[4]) / 100 if whole[4] else 0.0
