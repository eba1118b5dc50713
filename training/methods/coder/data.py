"""The data of CODER: triples, the names of their heads and tails, and batches of them (Yuan et al., JBI 2022)."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.rrf import find_rows

from ...data.protocols import make_plain
from ...data.triples import TripleData, hash_triples, read_triples


@dataclass(frozen=True)
class Graph:
    """Triples and names as numbers."""

    names: pl.Series  # The distinct names, in order.
    concepts: pl.Series  # The ids of the concepts of the triples, in order. Each has a name.
    labels: list[str]  # Of relations, sorted.
    name_rows: np.ndarray  # Rows in `names` of the names of each concept, concept by concept; int64.
    offsets: np.ndarray  # Start of each concept's part of `name_rows`, and the end of the last; int64.
    heads: np.ndarray  # Rows in `concepts`, shape (triples,), int32.
    tails: np.ndarray
    relations: np.ndarray  # Rows in `labels`, shape (triples,), int32.
    report: dict[str, Any]  # Counts of read and excluded triples, names by language.
    identity: dict[str, str]  # Hashes of terminology and triples.

    def __len__(self) -> int:
        """Return the number of triples."""
        return len(self.heads)


def load_graph(
    terminology_path: str | Path,
    triples_path: str | Path,
    languages: Sequence[str] | None = None,
    *,
    lower_case: bool = True,
    clean_names: bool = False,
    min_triples: int = 2,
) -> Graph:
    """Load triples and names. Unusable triples are excluded and counted."""
    terminology = Terminology.from_disk(terminology_path)
    names, n_empty = choose_names(terminology, languages, lower_case, terminology_path, clean=clean_names)
    triples = read_triples(triples_path)
    report: dict[str, Any] = {"triples_read": len(triples), "empty_names": n_empty}
    n_read = len(triples)
    triples = _place(triples, terminology, names, report)
    counts = np.bincount(triples.relations, minlength=len(triples.labels))
    rare = np.flatnonzero((counts > 0) & (counts < min_triples))
    report["rare_labels"] = {triples.labels[row]: int(counts[row]) for row in rare.tolist()}
    triples = _select(triples, (counts >= min_triples)[triples.relations])
    if not len(triples):
        reasons = ("unknown_concept", "head_without_names", "tail_without_names", "rare_labels")
        left_out = {name: report[name] for name in reasons if report[name]}
        raise ValueError(
            f"None of the {n_read} triples of {triples_path} can be learned from with the names of "
            f"{terminology_path}: {left_out}. They are probably of another release, or data.languages are "
            "others than the terminology has for these concepts."
        )
    graph, used = _number(triples, names, terminology.concepts["id"])
    counts = np.bincount(graph["relations"])
    report |= {
        "triples": len(triples),
        "labels": dict(zip(graph["labels"], counts.tolist(), strict=True)),
        "concepts": len(graph["concepts"]),
        "names": len(graph["name_rows"]),
        "distinct_names": len(graph["names"]),
        "names_by_language": dict(sorted(used["language"].value_counts().iter_rows())),
    }
    warn_of_one_language(terminology_path, languages, report["names_by_language"])
    identity = {"terminology": terminology.fingerprint, "triples": hash_triples(triples_path)}
    return Graph(**graph, report=report, identity=identity)


def choose_names(
    terminology: Terminology,
    languages: Sequence[str] | None,
    lower_case: bool,
    path: str | Path,
    *,
    clean: bool = False,
) -> tuple[pl.DataFrame, int]:
    """List the distinct names of each concept, with their languages."""
    names = terminology.names.select("concept", "name", "language")
    if languages is not None:
        known = set(names["language"].unique())
        missing = sorted(set(languages) - known)
        if missing:
            found = ", ".join(sorted(known)) or "none"
            raise ValueError(
                f"The terminology {path} has no names in {', '.join(missing)}; it has names in {found}. Correct "
                "data.languages, or read the release with these languages (`preprocess --languages`)."
            )
        names = names.filter(pl.col("language").is_in(list(languages)))
    if lower_case:
        names = names.with_columns(pl.col("name").str.to_lowercase())
    if clean:
        names = names.with_columns(pl.col("name").map_elements(make_plain, return_dtype=pl.String))
    full = names.filter(pl.col("name") != "")
    return full.unique().sort("concept", "name", "language"), len(names) - len(full)


def warn_of_one_language(path: str | Path, languages: Sequence[str] | None, found: Collection[str]) -> None:
    """Say that names of all languages are wanted, and a terminology has those of one only."""
    if languages is None and len(found) == 1:
        warnings.warn(
            f"Names of all languages are wanted, and those in {path} are all in {''.join(found)}. If it was read for "
            "one language only, read it with `preprocess --languages all`.",
            stacklevel=3,
        )


def _place(triples: TripleData, terminology: Terminology, names: pl.DataFrame, report: dict[str, Any]) -> TripleData:
    """Let heads and tails be rows of the terminology's concepts, and exclude triples of concepts without names."""
    ids = terminology.concepts["id"]
    has_names = np.zeros(len(ids) + 1, dtype=bool)
    has_names[names["concept"].unique().to_numpy()] = True
    # An unknown concept has row -1, the last one here, which has no names.
    rows = find_rows(triples.concepts, ids).astype(np.int32)
    is_known, is_named = rows >= 0, has_names[rows]
    known = is_known[triples.heads] & is_known[triples.tails]
    head_named, tail_named = is_named[triples.heads], is_named[triples.tails]
    report["unknown_concept"] = int((~known).sum())
    report["head_without_names"] = int((known & ~head_named).sum())
    report["tail_without_names"] = int((known & ~tail_named).sum())
    kept = _select(triples, head_named & tail_named)
    return replace(kept, concepts=ids, heads=rows[kept.heads], tails=rows[kept.tails])


def _select(triples: TripleData, kept: np.ndarray) -> TripleData:
    """Keep some triples, with the same tables of concepts and labels."""
    columns = {name: getattr(triples, name)[kept] for name in ("heads", "relations", "tails")}
    return replace(triples, **columns)


def _number(triples: TripleData, names: pl.DataFrame, ids: pl.Series) -> tuple[dict[str, Any], pl.DataFrame]:
    """Number concepts, labels and names of the usable triples, and list their names with languages."""
    concepts, heads, tails = _renumber(len(ids), triples.heads, triples.tails)
    labels, relations = _renumber(len(triples.labels), triples.relations)
    used = names.filter(pl.col("concept").is_in(pl.Series(concepts, dtype=pl.UInt32()).implode()))
    own = used.select("concept", "name").unique().sort("concept", "name")
    distinct = own["name"].unique().sort()
    concept_of_name = np.searchsorted(concepts, own["concept"].to_numpy())
    graph = {
        "names": distinct,
        "concepts": ids.gather(concepts),
        "labels": triples.labels.gather(labels).to_list(),
        "name_rows": find_rows(own["name"], distinct),
        "offsets": np.searchsorted(concept_of_name, np.arange(len(concepts) + 1)).astype(np.int64),
        "heads": heads,
        "tails": tails,
        "relations": relations,
    }
    return graph, used


def _renumber(n: int, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Number the rows of a table that columns refer to: the rows used, and the columns with the new numbers."""
    is_used = np.zeros(n, dtype=bool)
    for column in columns:
        is_used[column] = True
    numbers = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(is_used), *(numbers[column] for column in columns)


class TripletBatch(NamedTuple):
    """k triplets: k / m distinct ones, each m times in a row; int64."""

    names: np.ndarray  # Rows in the graph's names: k heads, k tails and optionally k random concepts.
    concepts: np.ndarray  # Their concepts, of the same shape: (2k,) or (3k,).
    relations: np.ndarray  # The label of each triplet, shape (k,).
    triples: np.ndarray  # Rows of the graph's triples, shape (k,).


@dataclass
class TripletSampler:
    """Draw batches of triplets. A batch depends only on its number and the seed, so a run can resume at any batch."""

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
        if len(graph) < self.n_distinct:
            raise ValueError(
                f"There are {len(graph)} triples, and a batch needs {self.n_distinct} distinct ones: batch.triplets = "
                f"{self.triplets}, batch.repetitions = {self.repetitions}. Make batches smaller, or give more triples."
            )
        self._cumulative: np.ndarray | None = None
        if self.label_balance:
            counts = np.bincount(graph.relations, minlength=len(graph.labels))
            self._by_label = np.argsort(graph.relations, kind="stable")
            self._counts, self._starts = counts, counts.cumsum() - counts
            rates = counts.astype(np.float64) ** (1.0 - self.label_balance)
            self._cumulative = rates.cumsum() / rates.sum()
        self._known: np.ndarray | None = None

    def draw(self, number: int) -> TripletBatch:
        """Draw a batch."""
        rng = np.random.default_rng([self.seed, number])
        distinct = self._draw_triples(rng)
        # The columns of the graph are int32, which halves their memory; PyTorch indexes by int64.
        ends = np.concatenate([self.graph.heads[distinct], self.graph.tails[distinct]]).astype(np.int64)
        names = np.concatenate([self._draw_names(concept, rng) for concept in ends.tolist()])
        concepts, triples = np.repeat(ends, self.repetitions), np.repeat(distinct, self.repetitions)
        if self.random_concepts:
            others = self._draw_others(self.graph.tails[triples], rng)
            starts, counts = self.graph.offsets[others], np.diff(self.graph.offsets)[others]
            names = np.concatenate([names, self.graph.name_rows[starts + rng.integers(0, counts)]])
            concepts = np.concatenate([concepts, others])
        return TripletBatch(names, concepts, self.graph.relations[triples].astype(np.int64), triples)

    def _draw_others(self, tails: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw another concept for each tail, uniformly."""
        others = rng.integers(0, len(self.graph.concepts) - 1, size=len(tails))
        return others + (others >= tails)

    def find_known(self, batch: TripletBatch) -> np.ndarray:
        """Mark the tails of a batch that are related to a head in the graph, in any triplet."""
        if self._known is None:
            graph = self.graph
            self._known = self._make_keys(graph.heads, graph.relations, graph.tails)
            self._known.sort()
        ends = batch.concepts[: 2 * len(batch.relations) : self.repetitions]
        heads, tails = np.split(ends, 2)
        relations = batch.relations[:: self.repetitions]
        keys = self._make_keys(heads[:, None], relations[:, None], tails[None, :])
        found = self._known[np.searchsorted(self._known, keys).clip(max=len(self._known) - 1)] == keys
        return found.repeat(self.repetitions, axis=0).repeat(self.repetitions, axis=1)

    def _make_keys(self, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray) -> np.ndarray:
        # One number per triple: far below 2 ** 63 even for the largest release with 4 million concepts.
        keys = heads.astype(np.int64) * len(self.graph.labels) + relations
        keys *= len(self.graph.concepts)
        return keys + tails

    def _draw_triples(self, rng: np.random.Generator) -> np.ndarray:
        """Draw distinct triples."""
        if self._cumulative is None:
            return rng.choice(len(self.graph), size=self.n_distinct, replace=False)
        chosen: dict[int, None] = {}
        while len(chosen) < self.n_distinct:
            labels = np.searchsorted(self._cumulative, rng.random(self.n_distinct), side="right")
            labels = labels.clip(max=len(self._counts) - 1)
            places = self._starts[labels] + rng.integers(0, self._counts[labels])
            chosen.update(dict.fromkeys(self._by_label[places].tolist()))
        return np.array(list(chosen)[: self.n_distinct], dtype=np.int64)

    def _draw_names(self, concept: int, rng: np.random.Generator) -> np.ndarray:
        """Draw a name for each repetition. Names repeat only after all names of the concept were drawn."""
        start, end = self.graph.offsets[concept], self.graph.offsets[concept + 1]
        n, wanted = int(end - start), self.repetitions
        if n == 1:
            return np.repeat(self.graph.name_rows[start:end], wanted)
        whole, rest = divmod(wanted, n)
        parts = [rng.permutation(n) for _ in range(whole)]
        if rest:
            parts.append(rng.choice(n, size=rest, replace=False))
        return self.graph.name_rows[start + np.concatenate(parts)]
