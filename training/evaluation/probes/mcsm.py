"""Medical conceptual similarity measure (MCSM): whether near concepts have the same semantic type."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.encoder.transformer import resolve_device
from spacy_sapbert.progress import show_progress
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.table import SOURCE_SEPARATOR

from ...engine.nearest import search_on_device
from ...errors import Errors
from ..systems.concept_vectors import VectorSource, find_vectors, scale_to_unit

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


def discounts(k: int) -> np.ndarray:
    """Make the weights of neighbours, by rank.

    k (int): Neighbours.
    RETURNS (ndarray): 1 / log2(rank + 1) for the ranks from 1 to k, shape (k,), float64. Their sum is the highest score
        there is: 11.09 for 40.
    """
    return 1 / np.log2(np.arange(2, k + 2))


def measure_mcsm(
    vectors: VectorSource,
    terminology: Terminology,
    *,
    source: str = "",
    all_types: bool = False,
    k: int = NEIGHBOURS,
    max_concepts: int = 0,
    seed: int = 0,
) -> dict[str, Any]:
    """Measure how far the neighbours of concepts share their semantic type (Choi et al., AMIA 2016; as Yuan et al.,
    JBI 2022, table 3: cosine, 40 neighbours, six types).

    For a type T, it is the mean over concepts of T of the sum over their k nearest other concepts of 1 / log2(rank + 1)
    where the neighbour is of T. A concept of several types counts for each of them, and has one string: its canonical
    name. The concept itself is left out by its identity, not by its rank.

    vectors (VectorSource): Table, encoder or word vectors. Concepts that it does not know are excluded.
    terminology (Terminology): Concepts with their semantic types (TUI). For the published figures: the English names of
        SNOMED CT.
    source (str): The source (SAB) that concepts must have a name of; empty for all.
    all_types (bool): Search neighbours among concepts of all types, not only of the six. As published they are searched
        among the six, where a neighbour of the right type is often found by chance.
    k (int): Neighbours.
    max_concepts (int): Draw so many concepts; 0 for all. Fewer concepts have other neighbours: compare scores of equal
        settings only.
    seed (int): Seed of the draw.
    RETURNS (dict): For each type under `types`: `score` (0 to the sum of the discounts, None if no concept is known),
        `score_of_all` (concepts that are not known count 0), `chance` (expected of random neighbours), `concepts` and
        `known`; and `mean`, `mean_of_all` and `mean_chance` over types, counts, settings and fingerprints.
    RAISES (ValueError): If there are not more than k concepts, or the source has none.
    """
    settings = {"source": source, "all_types": all_types, "k": k, "max_concepts": max_concepts, "seed": seed}
    chosen = _choose_concepts(terminology, source, all_types, max_concepts, seed)
    if chosen.height <= k:
        what = f"concepts of {source or 'the terminology'} are among those to compare"
        raise ValueError(Errors.E772.format(k=k, found=chosen.height, what=what))
    found, is_known = find_vectors(vectors, terminology, chosen["id"].to_list())
    if is_known.sum() <= k:
        raise ValueError(Errors.E772.format(k=k, found=int(is_known.sum()), what="concepts have a vector"))
    is_of_type = np.stack([chosen["types"].list.contains(tui).to_numpy() for tui in SEMANTIC_TYPES], axis=1)
    sums = _add_up(scale_to_unit(found[is_known]), is_of_type[is_known], k)
    types = {
        name: _summarise(float(sums[column]), is_of_type[:, column], is_known, k)
        for column, name in enumerate(SEMANTIC_TYPES.values())
    }
    return {
        "task": "MCSM",
        "types": types,
        **{f"mean{key.removeprefix('score')}": _mean(types, key) for key in ("score", "score_of_all")},
        "mean_chance": _mean(types, "chance"),
        "maximum": float(discounts(k).sum()),
        "concepts": chosen.height,
        "known": int(is_known.sum()),
        "coverage": float(is_known.mean()),
        "settings": settings,
        "vectors": vectors.fingerprint,
        "terminology": terminology.fingerprint,
    }


@dataclass(frozen=True)
class McsmTask:
    """MCSM as a task for the measurer. See `measure_mcsm`.

    terminology (Terminology): Concepts with their semantic types.
    source (str): The source (SAB) that concepts must have a name of; empty for all.
    all_types (bool): Search neighbours among concepts of all types.
    max_concepts (int): Draw so many concepts; 0 for all.
    seed (int): Seed of the draw.
    """

    terminology: Terminology
    source: str = ""
    all_types: bool = False
    max_concepts: int = 0
    seed: int = 0

    def hash(self) -> str:
        """Hash everything that determines the scores, except for the vectors.

        RETURNS (str): SHA-256, hexadecimal.
        """
        parts = ["MCSM", self.terminology.fingerprint, self._settings]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def measure(self, system: VectorSource) -> dict[str, Any]:
        """Measure vectors. See `measure_mcsm`."""
        return measure_mcsm(system, self.terminology, **self._settings)

    @property
    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("source", "all_types", "max_concepts", "seed")}


def _choose_concepts(
    terminology: Terminology, source: str, all_types: bool, max_concepts: int, seed: int
) -> pl.DataFrame:
    """Choose the concepts that are compared: the columns id and types, in the order of the terminology."""
    concepts = terminology.concepts.select("id", "types")
    is_chosen = pl.Series(np.ones(len(terminology), dtype=bool))
    if source:
        names = terminology.names
        has_source = names["source"].str.split(SOURCE_SEPARATOR).list.contains(source)
        is_chosen = pl.Series(np.isin(np.arange(len(terminology)), names["concept"].filter(has_source).to_numpy()))
    if not all_types:
        is_chosen &= concepts["types"].list.eval(pl.element().is_in(list(SEMANTIC_TYPES))).list.any()
    concepts = concepts.filter(is_chosen)
    if not 0 < max_concepts < concepts.height:
        return concepts
    rows = np.random.default_rng(seed).choice(concepts.height, max_concepts, replace=False)
    return concepts[np.sort(rows)]


def _add_up(vectors: np.ndarray, is_of_type: np.ndarray, k: int) -> np.ndarray:
    """Add up the scores of the concepts of each type. Vectors have unit length; all products are never held at once."""
    weights = discounts(k)
    sums = np.zeros(is_of_type.shape[1])
    device = resolve_device("auto")
    starts = range(0, len(vectors), QUERY_BLOCK)
    for start in show_progress(starts, description="Searching neighbours", unit="blocks"):
        rows, _ = search_on_device(vectors, vectors[start : start + QUERY_BLOCK], k + 1, device)
        neighbours = _leave_out_self(rows, np.arange(start, start + len(rows)))
        scores = np.einsum("nkt,k->nt", is_of_type[neighbours], weights)
        sums += (scores * is_of_type[start : start + len(rows)]).sum(axis=0)
    return sums


def _leave_out_self(rows: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Take each query out of its neighbours: the last one goes where more than k others are as near as itself."""
    is_other = rows != own[:, None]
    is_other[is_other.all(axis=1), -1] = False
    return rows[is_other].reshape(len(rows), -1)


def _summarise(total: float, is_of_type: np.ndarray, is_known: np.ndarray, k: int) -> dict[str, Any]:
    n_concepts, n_known = int(is_of_type.sum()), int((is_of_type & is_known).sum())
    # Any other concept is equally likely at each rank.
    chance = max(0, n_known - 1) / (int(is_known.sum()) - 1) * float(discounts(k).sum())
    return {
        "score": total / n_known if n_known else None,
        "score_of_all": total / n_concepts if n_concepts else None,
        "chance": chance if n_known else None,
        "concepts": n_concepts,
        "known": n_known,
    }


def _mean(types: dict[str, dict[str, Any]], key: str) -> float | None:
    values = [entry[key] for entry in types.values() if entry[key] is not None]
    return sum(values) / len(values) if values else None
