"""The data of CODER++: names, and the concepts of each name."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.rrf import find_rows

from ..coder.data import choose_names


@dataclass(frozen=True)
class ConceptNames:
    """Indexed names and concepts. A homonym keeps all its concepts.

    names (pl.Series): The distinct names, in order.
    concepts (pl.Series): The ids of the concepts with a name, in order.
    name_rows (np.ndarray): Rows in `names` of the names of each concept, concept by concept; int64.
    name_offsets (np.ndarray): Start of each concept's part of `name_rows`, and the end of the last; shape (concepts +
        1,), int64.
    concept_rows (np.ndarray): Rows in `concepts` of the concepts of each name, name by name; int64.
    concept_offsets (np.ndarray): Start of each name's part of `concept_rows`, and the end of the last; shape (names +
        1,), int64.
    anchors (np.ndarray): Names with a synonym, ascending; int64.
    report (dict[str, Any]): Counts.
    identity (dict[str, str]): Hash of the terminology.
    """

    names: pl.Series
    concepts: pl.Series
    name_rows: np.ndarray
    name_offsets: np.ndarray
    concept_rows: np.ndarray
    concept_offsets: np.ndarray
    anchors: np.ndarray
    report: dict[str, Any]
    identity: dict[str, str]

    def concepts_of(self, name: int) -> np.ndarray:
        """Return the concepts of a name."""
        return self.concept_rows[self.concept_offsets[name] : self.concept_offsets[name + 1]]

    def synonyms_of(self, name: int) -> np.ndarray:
        """Return the other names of a name's concepts."""
        parts = [self.name_rows[self.name_offsets[c] : self.name_offsets[c + 1]] for c in self.concepts_of(name)]
        together = np.unique(np.concatenate(parts))
        return together[together != name]

    def hash_names(self) -> str:
        """Hash the names."""
        return hashlib.sha256("\n".join(self.names).encode()).hexdigest()


def load_name_table(
    path: str | Path,
    *,
    languages: Sequence[str] | None = None,
    lower_case: bool = True,
    clean_names: bool = False,
    neighbours: int = 1,
) -> ConceptNames:
    """Load the names of a terminology."""
    terminology = Terminology.from_disk(path)
    frame, n_empty = choose_names(terminology, languages, lower_case, path, clean=clean_names)
    counts = dict(sorted(frame["language"].value_counts().iter_rows()))
    if languages is None and len(counts) == 1:
        warnings.warn(
            (
                f"Names of all languages are wanted, and those in {path} are all in {next(iter(counts))}. If it "
                "was read for one language only, read it with `preprocess --languages all`."
            ),
            stacklevel=2,
        )
    atoms = frame.select("concept", "name").unique().sort("concept", "name")
    concepts, names = atoms["concept"].unique().sort(), atoms["name"].unique().sort()
    concept_of, name_of = find_rows(atoms["concept"], concepts), find_rows(atoms["name"], names)
    by_name = np.lexsort((concept_of, name_of))
    # A name has a synonym if any of its concepts has two names.
    is_shared = np.bincount(concept_of)[concept_of] > 1
    anchors = np.unique(name_of[is_shared])
    if len(concepts) < 2 or not len(anchors) or len(names) <= neighbours:
        raise ValueError(
            f"There is nothing to learn from in {path}: {len(names)} distinct names of {len(concepts)} "
            f"concepts, {len(anchors)} of which have synonyms, and each is to have {neighbours} neighbours. "
            "There have to be two concepts, a name with a synonym, and more names than batch.neighbours. Give"
            " a larger terminology, or correct data.languages or batch.neighbours."
        )
    report = {
        "concepts": len(concepts),
        "empty_names": n_empty,
        "names": len(atoms),
        "distinct_names": len(names),
        "names_without_synonyms": len(names) - len(anchors),
        "homonyms": int((np.bincount(name_of) > 1).sum()),
        "names_by_language": counts,
    }
    return ConceptNames(
        names,
        terminology.concepts["id"].gather(concepts),
        name_of,
        np.searchsorted(concept_of, np.arange(len(concepts) + 1)).astype(np.int64),
        concept_of[by_name],
        np.searchsorted(name_of[by_name], np.arange(len(names) + 1)).astype(np.int64),
        anchors,
        report,
        {"terminology": terminology.fingerprint},
    )
