"""Medical conceptual similarity measure (MCSM): whether near concepts have the same semantic type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from spacy_sapbert.encoder.transformer import resolve_device
from spacy_sapbert.progress import show_progress
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.table import SOURCE_SEPARATOR

from ..data.accuracy import Figure
from ..engine.nearest import leave_out, search_on_device
from .settings import Limits, Measured, Missing, TaskSettings, hash_json
from .systems.vectors import find_vectors, scale_to_unit

# Yuan et al., JBI 2022, table 3.
SEMANTIC_TYPES = {
    "T121": "Pharmacologic Substance",
    "T047": "Disease or Syndrome",
    "T191": "Neoplastic Process",
    "T200": "Clinical Drug",
    "T033": "Finding",
    "T037": "Injury or Poisoning",
}
NEIGHBOURS = 40
QUERY_BLOCK = 4096


class McsmSettings(TaskSettings):
    """A section [tasks.NAME] with kind = "mcsm". For the published figures: the English names of SNOMED CT."""

    inputs: ClassVar[tuple[str, ...]] = ("terminology",)

    terminology: str = ""
    # The source (SAB) that concepts must have a name of; empty for all.
    source: str = ""
    # Concepts to draw; 0 for all. Fewer concepts have other neighbours: compare scores of equal settings only.
    max_concepts: int = Field(default=0, ge=0)

    def make(self, name: str, limits: Limits) -> Iterator[McsmTask | Missing]:
        """Make the task, unless there are too few concepts of the types: an ontology may well have none."""
        terminology = Terminology.from_disk(self.terminology)
        task = McsmTask(name, terminology, self.source, self.max_concepts, limits.seed)
        if task.concepts.height > NEIGHBOURS:
            yield task
        else:
            reason = f"{task.concepts.height} concepts are to be compared, with {NEIGHBOURS} neighbours each"
            obtain = "Use a terminology with semantic types, or another source"
            yield Missing(reason, title="MCSM", task=name, obtain=obtain)


@dataclass(frozen=True)
class McsmTask:
    """How far the neighbours of concepts share their semantic type (Choi et al., AMIA 2016; as Yuan et al., JBI 2022,
    table 3: cosine, 40 neighbours, six types, and neighbours that are among the six as well).

    For a type T, it is the mean over concepts of T of the sum over their nearest other concepts of 1 / log2(rank + 1)
    where the neighbour is of T. A concept of several types counts for each of them, and has one string: its canonical
    name. The concept itself is left out by its identity, not by its rank.
    """

    name: str
    terminology: Terminology
    source: str = ""
    max_concepts: int = 0
    seed: int = 0
    k: int = NEIGHBOURS
    protocol = "mcsm"
    needs = frozenset({"encode", "take"})

    @cached_property
    def concepts(self) -> pl.DataFrame:
        """The concepts that are compared: the columns id and types, in the order of the terminology."""
        concepts = self.terminology.concepts.to_polars().select("id", "types").with_row_index("row")
        if self.source:
            names = self.terminology.names.to_polars()
            has_source = names["source"].str.split(SOURCE_SEPARATOR).list.contains(self.source)
            concepts = concepts.filter(pl.col("row").is_in(names["concept"].filter(has_source).unique().implode()))
        concepts = concepts.filter(pl.col("types").list.set_intersection(list(SEMANTIC_TYPES)).list.len() > 0)
        if 0 < self.max_concepts < concepts.height:
            rng = np.random.default_rng(self.seed)
            concepts = concepts[np.sort(rng.choice(concepts.height, self.max_concepts, replace=False))]
        return concepts.drop("row")

    def hash(self) -> str:
        settings = {"source": self.source, "max_concepts": self.max_concepts, "seed": self.seed}
        return hash_json(["MCSM", self.terminology.fingerprint, settings, self.k])

    def describe(self) -> dict[str, Any]:
        return {"title": "MCSM", "counts": {"concepts": self.concepts.height}}

    def measure(self, system: Any) -> Measured:
        """Measure vectors. Concepts that they do not have are left out; in `mcsm_of_all` they count 0.

        `mcsm_chance` is the score that random neighbours would get. Each is a mean over types, and given for each type.
        """
        vectors, is_known = find_vectors(system, self.terminology, self.concepts["id"].to_list())
        n_known = int(is_known.sum())
        if n_known <= self.k:
            raise ValueError(f"{n_known} concepts have a vector, but {self.k} neighbours of each are compared.")
        types = self.concepts["types"].list
        is_of_type = np.stack([types.contains(tui).to_numpy() for tui in SEMANTIC_TYPES], axis=1)
        sums = _add_up(scale_to_unit(vectors[is_known]), is_of_type[is_known], self.k)
        all_sizes = is_of_type.sum(axis=0)
        sizes = is_of_type[is_known].sum(axis=0)
        # Any other concept is equally likely at each rank.
        chance = np.maximum(0, sizes - 1) / (n_known - 1) * discounts(self.k).sum()
        with np.errstate(invalid="ignore"):
            columns = {
                "mcsm": (np.where(sizes > 0, sums / sizes, np.nan), sizes, n_known),
                "mcsm_of_all": (np.where(all_sizes > 0, sums / all_sizes, np.nan), all_sizes, len(is_known)),
                "mcsm_chance": (np.where(sizes > 0, chance, np.nan), sizes, n_known),
            }
        figures = []
        for metric, (values, counts, n) in columns.items():
            figures.append(Figure(metric, None, float(np.nanmean(values)) if counts.any() else np.nan, n))
            figures += [
                Figure(f"{metric}.{title}", None, float(value), int(count))
                for title, value, count in zip(SEMANTIC_TYPES.values(), values, counts, strict=True)
            ]
        return Measured(figures, {"concepts": len(is_known), "known": n_known, "coverage": float(is_known.mean())})


def discounts(k: int) -> np.ndarray:
    """Make the weights of the ranks from 1 to k. Their sum is the highest score there is: 11.09 for 40."""
    return 1 / np.log2(np.arange(2, k + 2))


def _add_up(vectors: np.ndarray, is_of_type: np.ndarray, k: int) -> np.ndarray:
    """Add up the scores of the concepts of each type. Vectors have unit length; all products are never held at once."""
    sums = np.zeros(is_of_type.shape[1])
    device = resolve_device("auto")
    starts = range(0, len(vectors), QUERY_BLOCK)
    for start in show_progress(starts, description="Searching neighbours", unit="blocks"):
        rows, _ = search_on_device(vectors, vectors[start : start + QUERY_BLOCK], k + 1, device)
        neighbours = leave_out(np.arange(start, start + len(rows)), rows)
        scores = np.einsum("nkt,k->nt", is_of_type[neighbours], discounts(k))
        sums += (scores * is_of_type[start : start + len(rows)]).sum(axis=0)
    return sums
