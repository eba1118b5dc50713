"""The data of CODER and CODER++: names, triples, and batches of them (Yuan et al., JBI 2022; Zeng et al., BioNLP 2022).

A batch depends only on its number and the seed, so a run can resume at any batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.names import find_rows

from ...data.protocols import make_plain
from ...data.triples import hash_triples, read_triples
from .settings import CoderData, CoderPaths, NameData


@dataclass(frozen=True)
class ConceptNames:
    """Names and their concepts as numbers: int64 where nothing else is said."""

    names: pl.Series  # The distinct names, in order.
    concepts: pl.Series  # The ids of the concepts, in order. Each has a name.
    name_rows: np.ndarray  # Rows in `names` of the names of each concept, concept by concept.
    offsets: np.ndarray  # Start of each concept's part of `name_rows`, and the end of the last.
    report: dict[str, Any]  # Counts.
    identity: dict[str, str]  # Hashes of what it is made of.


@dataclass(frozen=True)
class Graph(ConceptNames):
    """Triples, and the names of their heads and tails."""

    labels: list[str]  # Of relations, sorted.
    heads: np.ndarray  # Rows in `concepts`, shape (triples,), int32.
    tails: np.ndarray
    relations: np.ndarray  # Rows in `labels`, shape (triples,), int32.


@dataclass(frozen=True)
class SynonymTable(ConceptNames):
    """Names with their synonyms. A homonym keeps all its concepts."""

    concept_rows: np.ndarray  # Rows in `concepts` of the concepts of each name, name by name.
    concept_offsets: np.ndarray
    anchors: np.ndarray  # Names with a synonym, ascending.

    def concepts_of(self, name: int) -> np.ndarray:
        """Return the concepts of a name."""
        return self.concept_rows[self.concept_offsets[name] : self.concept_offsets[name + 1]]

    def synonyms_of(self, name: int) -> np.ndarray:
        """Return the other names of a name's concepts."""
        parts = [self.name_rows[self.offsets[c] : self.offsets[c + 1]] for c in self.concepts_of(name)]
        together = np.unique(np.concatenate(parts))
        return together[together != name]


def choose_names(terminology: Terminology, data: NameData, path: str) -> pl.DataFrame:
    """List the names to learn from: concept, name and language."""
    names = terminology.names.to_polars().select("concept", "name", "language")
    languages = sorted(names["language"].unique())
    if data.languages != ("all",):
        if missing := sorted(set(data.languages) - set(languages)):
            raise ValueError(
                f"The terminology {path} has no names in {', '.join(missing)}; it has names in "
                f"{', '.join(languages) or 'none'}. Correct data.languages, or read the release with these languages "
                "(`preprocess --languages`)."
            )
        names = names.filter(pl.col("language").is_in(data.languages))
    elif len(languages) == 1:
        warnings.warn(
            f"Names of all languages are wanted, and those in {path} are all in {languages[0]}. If it was read for one "
            "language only, read it with `preprocess --languages all`.",
            stacklevel=2,
        )
    if data.lower_case:
        names = names.with_columns(pl.col("name").str.to_lowercase())
    if data.clean_names:
        names = names.with_columns(pl.col("name").map_elements(make_plain, return_dtype=pl.String))
    return names.filter(pl.col("name") != "").unique()


def number_names(names: pl.DataFrame, terminology: Terminology) -> dict[str, Any]:
    """Number names and their concepts: the fields of a `ConceptNames`."""
    by_language = dict(sorted(names["language"].value_counts().iter_rows()))
    atoms = names.select("concept", "name").unique().sort("concept", "name")
    concepts = atoms["concept"].unique().sort()
    distinct = atoms["name"].unique().sort()
    concept_of = find_rows(atoms["concept"], concepts)
    return {
        "names": distinct,
        "concepts": terminology.concepts.to_polars("id")["id"].gather(concepts),
        "name_rows": find_rows(atoms["name"], distinct),
        "offsets": np.searchsorted(concept_of, np.arange(len(concepts) + 1)).astype(np.int64),
        "report": {"concepts": len(concepts), "names": len(atoms), "names_by_language": by_language},
        "identity": {"terminology": terminology.fingerprint},
    }


def load_graph(paths: CoderPaths, data: CoderData) -> Graph:
    """Load triples and names. Unusable triples are excluded and counted."""
    terminology = Terminology.from_disk(paths.terminology)
    triples = read_triples(paths.triples)
    names = choose_names(terminology, data, paths.terminology)
    # -1 for concepts that the terminology does not know.
    rows = find_rows(triples.concepts, terminology.concepts.to_polars("id")["id"])
    has_names = np.isin(rows, names["concept"].to_numpy())
    is_there = (rows >= 0)[triples.heads] & (rows >= 0)[triples.tails]
    head_named = has_names[triples.heads]
    tail_named = has_names[triples.tails]
    is_kept = head_named & tail_named
    counts = np.bincount(triples.relations[is_kept], minlength=len(triples.labels))
    rare = np.flatnonzero((counts > 0) & (counts < data.min_triples))
    is_kept &= (counts >= data.min_triples)[triples.relations]
    report: dict[str, Any] = {
        "triples_read": len(triples),
        "triples": int(is_kept.sum()),
        "unknown_concept": int((~is_there).sum()),
        "head_without_names": int((is_there & ~head_named).sum()),
        "tail_without_names": int((is_there & ~tail_named).sum()),
        "rare_labels": {triples.labels[row]: int(counts[row]) for row in rare.tolist()},
    }
    if not is_kept.any():
        reasons = ("unknown_concept", "head_without_names", "tail_without_names", "rare_labels")
        left_out = {name: report[name] for name in reasons if report[name]}
        raise ValueError(
            f"None of the {len(triples)} triples of {paths.triples} can be learned from with the names of "
            f"{paths.terminology}: {left_out}. They probably come from another release, or the "
            "terminology has other languages than data.languages for these concepts."
        )
    heads = rows[triples.heads[is_kept]]
    tails = rows[triples.tails[is_kept]]
    used = np.union1d(heads, tails)
    labels, relations, n_triples = np.unique(triples.relations[is_kept], return_inverse=True, return_counts=True)
    is_used = pl.col("concept").is_in(pl.Series(used, dtype=pl.UInt32()).implode())
    table = number_names(names.filter(is_used), terminology)
    label_names = triples.labels.gather(labels).to_list()
    table["report"] |= {**report, "labels": dict(zip(label_names, n_triples.tolist(), strict=True))}
    table["identity"]["triples"] = hash_triples(paths.triples)
    return Graph(
        **table,
        labels=label_names,
        heads=np.searchsorted(used, heads).astype(np.int32),
        tails=np.searchsorted(used, tails).astype(np.int32),
        relations=relations.astype(np.int32),
    )


def load_synonyms(path: str, data: NameData, neighbours: int = 1) -> SynonymTable:
    """Load the names of a terminology, which must suffice for `neighbours` neighbours of each."""
    terminology = Terminology.from_disk(path)
    table = number_names(choose_names(terminology, data, path), terminology)
    name_of = table["name_rows"]
    n_names = len(table["names"])
    n_concepts = len(table["concepts"])
    concept_of = np.repeat(np.arange(n_concepts), np.diff(table["offsets"]))
    by_name = np.lexsort((concept_of, name_of))
    # A name has a synonym if any of its concepts has two names.
    anchors = np.unique(name_of[np.bincount(concept_of)[concept_of] > 1])
    if n_concepts < 2 or not len(anchors) or n_names <= neighbours:
        raise ValueError(
            f"There is nothing to learn from in {path}: {n_names} distinct names of {n_concepts} concepts, "
            f"{len(anchors)} with synonyms, and each needs {neighbours} neighbours. There have to be two "
            "concepts, a name with a synonym, and more names than batch.neighbours. Give a larger terminology, or "
            "correct data.languages or batch.neighbours."
        )
    concept_offsets = np.searchsorted(name_of[by_name], np.arange(n_names + 1)).astype(np.int64)
    return SynonymTable(**table, concept_rows=concept_of[by_name], concept_offsets=concept_offsets, anchors=anchors)


class TripletBatch(NamedTuple):
    """k triplets: k / m distinct ones, each m times in a row; int64."""

    names: np.ndarray  # Rows in the graph's names: k heads, k tails and optionally k random concepts.
    concepts: np.ndarray  # Their concepts, of the same shape: (2k,) or (3k,).
    relations: np.ndarray  # The label of each triplet, shape (k,).
    triples: np.ndarray  # Rows of the graph's triples, shape (k,).


@dataclass
class TripletSampler:
    """Draw batches of triplets."""

    graph: Graph
    triplets: int  # In a batch: k.
    repetitions: int  # Copies of each distinct triplet: m, which divides k.
    seed: int = 0
    # 0 to draw all triples with equal probability. Otherwise first a label is drawn, in proportion to its number of
    # triples to the power of 1 - balance, then one of its triples.
    label_balance: float = 0.0
    random_concepts: bool = False  # Add a name of a random concept for each triplet, different from its tail.

    def __post_init__(self) -> None:
        graph = self.graph
        self.n_distinct = self.triplets // self.repetitions
        if len(graph.heads) < self.n_distinct:
            raise ValueError(
                f"There are {len(graph.heads)} triples, and a batch needs {self.n_distinct} distinct ones: "
                f"batch.triplets = {self.triplets}, batch.repetitions = {self.repetitions}. Make batches smaller, or "
                "give more triples."
            )
        if self.label_balance:
            self._by_label = np.argsort(graph.relations, kind="stable")
            self._counts = np.bincount(graph.relations)
            self._starts = self._counts.cumsum() - self._counts
            rates = self._counts.astype(np.float64) ** (1.0 - self.label_balance)
            self._cumulative = rates.cumsum() / rates.sum()

    def draw(self, number: int) -> TripletBatch:
        """Draw a batch."""
        graph = self.graph
        rng = np.random.default_rng([self.seed, number])
        distinct = self._draw_triples(rng)
        # The columns of the graph are int32, which halves their memory; PyTorch indexes by int64.
        ends = np.concatenate([graph.heads[distinct], graph.tails[distinct]]).astype(np.int64)
        names = np.concatenate([self._draw_names(concept, rng) for concept in ends.tolist()])
        concepts = np.repeat(ends, self.repetitions)
        triples = np.repeat(distinct, self.repetitions)
        if self.random_concepts:
            tails = graph.tails[triples]
            others = rng.integers(0, len(graph.concepts) - 1, size=len(tails))
            others += others >= tails
            drawn = rng.integers(0, np.diff(graph.offsets)[others])
            names = np.concatenate([names, graph.name_rows[graph.offsets[others] + drawn]])
            concepts = np.concatenate([concepts, others])
        return TripletBatch(names, concepts, graph.relations[triples].astype(np.int64), triples)

    def _draw_triples(self, rng: np.random.Generator) -> np.ndarray:
        """Draw distinct triples."""
        if not self.label_balance:
            return rng.choice(len(self.graph.heads), size=self.n_distinct, replace=False)
        chosen: dict[int, None] = {}
        while len(chosen) < self.n_distinct:
            labels = np.searchsorted(self._cumulative, rng.random(self.n_distinct), side="right")
            labels = labels.clip(max=len(self._counts) - 1)
            places = self._starts[labels] + rng.integers(0, self._counts[labels])
            chosen.update(dict.fromkeys(self._by_label[places].tolist()))
        return np.array(list(chosen)[: self.n_distinct], dtype=np.int64)

    def _draw_names(self, concept: int, rng: np.random.Generator) -> np.ndarray:
        """Draw a name for each repetition. Names repeat only after all names of the concept were drawn."""
        own = self.graph.name_rows[self.graph.offsets[concept] : self.graph.offsets[concept + 1]]
        if len(own) == 1:
            return np.repeat(own, self.repetitions)
        whole, rest = divmod(self.repetitions, len(own))
        parts = [rng.permutation(len(own)) for _ in range(whole)]
        if rest:
            parts.append(rng.choice(len(own), size=rest, replace=False))
        return own[np.concatenate(parts)]


class GroupedNames(NamedTuple):
    """The names of a batch, each once."""

    names: np.ndarray  # Rows in the table's names, ascending; shape (n,), int64.
    same: np.ndarray  # Whether two of them have a concept in common; shape (n, n), bool, true on the diagonal.


@dataclass
class GroupSampler:
    """Draw batches of groups: an anchor, its nearest names, and other names of its concepts.

    All anchors are drawn once per epoch. They do not depend on neighbours, which can therefore be searched in advance.
    A name of several groups occurs in the batch once; the released code repeats it, and repeats anchors with too few
    synonyms.
    """

    table: SynonymTable
    groups: int  # Anchors in a batch.
    synonyms: int  # Of an anchor, at most.
    seed: int = 0

    def __post_init__(self) -> None:
        self._epoch = -1

    def list_anchors(self, start: int, end: int) -> np.ndarray:
        """List the anchors of some batches."""
        epochs, places = np.divmod(np.arange(start * self.groups, end * self.groups), len(self.table.anchors))
        return np.concatenate([self._shuffle(epoch)[places[epochs == epoch]] for epoch in np.unique(epochs).tolist()])

    def draw(self, number: int, take: Callable[[np.ndarray], np.ndarray]) -> GroupedNames:
        """Draw a batch. `take` returns the neighbours of anchors, shape (n, neighbours)."""
        anchors = self.list_anchors(number, number + 1)
        rng = np.random.default_rng([self.seed, 1, number])
        synonyms = [self.table.synonyms_of(anchor) for anchor in anchors.tolist()]
        drawn = [rng.choice(names, size=min(self.synonyms, len(names)), replace=False) for names in synonyms]
        names = np.unique(np.concatenate([anchors, take(anchors).ravel(), *drawn]))
        concepts = [self.table.concepts_of(name) for name in names.tolist()]
        rows = np.repeat(np.arange(len(names)), [*map(len, concepts)])
        distinct, columns = np.unique(np.concatenate(concepts), return_inverse=True)
        has = np.zeros((len(names), len(distinct)), dtype=np.float32)
        has[rows, columns] = 1.0
        return GroupedNames(names, has @ has.T > 0)

    def _shuffle(self, epoch: int) -> np.ndarray:
        if epoch != self._epoch:
            self._order = np.random.default_rng([self.seed, 0, epoch]).permutation(self.table.anchors)
            self._epoch = epoch
        return self._order
