"""The data of CODER++: names, the concepts of each name, and batches of groups (Zeng et al., BioNLP 2022)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.rrf import find_rows

from ..coder.data import choose_names, warn_of_one_language


@dataclass(frozen=True)
class ConceptNames:
    """Indexed names and concepts. A homonym keeps all its concepts. Offsets are the start of each part of the rows, and
    the end of the last; all numbers are int64."""

    names: pl.Series  # The distinct names, in order.
    concepts: pl.Series  # The ids of the concepts with a name, in order.
    name_rows: np.ndarray  # Rows in `names` of the names of each concept, concept by concept.
    name_offsets: np.ndarray
    concept_rows: np.ndarray  # Rows in `concepts` of the concepts of each name, name by name.
    concept_offsets: np.ndarray
    anchors: np.ndarray  # Names with a synonym, ascending.
    report: dict[str, Any]  # Counts.
    identity: dict[str, str]  # Hash of the terminology.

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
    languages: Sequence[str] | None = None,
    *,
    lower_case: bool = True,
    clean_names: bool = False,
    neighbours: int = 1,
) -> ConceptNames:
    """Load the names of a terminology."""
    terminology = Terminology.from_disk(path)
    frame, n_empty = choose_names(terminology, languages, lower_case, path, clean=clean_names)
    counts = dict(sorted(frame["language"].value_counts().iter_rows()))
    warn_of_one_language(path, languages, counts)
    atoms = frame.select("concept", "name").unique().sort("concept", "name")
    concepts, names = atoms["concept"].unique().sort(), atoms["name"].unique().sort()
    concept_of, name_of = find_rows(atoms["concept"], concepts), find_rows(atoms["name"], names)
    by_name = np.lexsort((concept_of, name_of))
    # A name has a synonym if any of its concepts has two names.
    is_shared = np.bincount(concept_of)[concept_of] > 1
    anchors = np.unique(name_of[is_shared])
    if len(concepts) < 2 or not len(anchors) or len(names) <= neighbours:
        raise ValueError(
            f"There is nothing to learn from in {path}: {len(names)} distinct names of {len(concepts)} concepts, "
            f"{len(anchors)} of which have synonyms, and each is to have {neighbours} neighbours. There have to be two "
            "concepts, a name with a synonym, and more names than batch.neighbours. Give a larger terminology, or "
            "correct data.languages or batch.neighbours."
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


class GroupedNames(NamedTuple):
    """The names of a batch, each once."""

    names: np.ndarray  # Rows in the table's names, ascending; shape (n,), int64.
    same: np.ndarray  # Whether two of them have a concept in common; shape (n, n), bool, true on the diagonal.


@dataclass
class GroupSampler:
    """Draw batches of groups: an anchor, its nearest names, and other names of its concepts.

    All anchors are drawn once per epoch. Anchors depend only on the batch's number and the seed, so neighbours can be
    searched in advance, and a run can resume at any batch. A name of several groups occurs in the batch once; the
    released code repeats it, and repeats anchors with too few synonyms.
    """

    table: ConceptNames
    groups: int  # Anchors in a batch.
    synonyms: int  # Of an anchor, at most.
    seed: int = 0

    def __post_init__(self) -> None:
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def list_anchors(self, start: int, end: int) -> np.ndarray:
        """List the anchors of some batches."""
        n_anchors = len(self.table.anchors)
        places = np.arange(start * self.groups, end * self.groups)
        epochs = places // n_anchors
        parts = [self._shuffle(epoch)[places[epochs == epoch] % n_anchors] for epoch in np.unique(epochs).tolist()]
        return np.concatenate(parts)

    def draw(self, number: int, take: Callable[[np.ndarray], np.ndarray]) -> GroupedNames:
        """Draw a batch. `take` returns the neighbours of anchors, shape (n, neighbours)."""
        anchors = self.list_anchors(number, number + 1)
        rng = np.random.default_rng([self.seed, 1, number])
        synonyms = [self._draw_synonyms(anchor, rng) for anchor in anchors.tolist()]
        names = np.unique(np.concatenate([anchors, take(anchors).ravel(), *synonyms]))
        return GroupedNames(names, self._compare(names))

    def _shuffle(self, epoch: int) -> np.ndarray:
        if epoch != self._epoch:
            self._order = np.random.default_rng([self.seed, 0, epoch]).permutation(self.table.anchors)
            self._epoch = epoch
        return self._order

    def _draw_synonyms(self, anchor: int, rng: np.random.Generator) -> np.ndarray:
        synonyms = self.table.synonyms_of(anchor)
        return rng.choice(synonyms, size=min(self.synonyms, len(synonyms)), replace=False)

    def _compare(self, names: np.ndarray) -> np.ndarray:
        """Mark the names that share a concept."""
        concepts = [self.table.concepts_of(name) for name in names.tolist()]
        rows = np.repeat(np.arange(len(names)), [len(found) for found in concepts])
        distinct, columns = np.unique(np.concatenate(concepts), return_inverse=True)
        has = np.zeros((len(names), len(distinct)), dtype=np.float32)
        has[rows, columns] = 1.0
        return has @ has.T > 0
