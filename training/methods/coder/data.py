"""The data of CODER: triples, and the names of their heads and tails."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.files import read_manifest
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.rrf import find_rows
from spacy_sapbert.terminology.storage import FORMAT_VERSION as TERMINOLOGY_VERSION
from spacy_sapbert.terminology.storage import MANIFEST

from ...data.protocols import make_plain
from ...data.triples import TripleData, hash_triples, read_triples


@dataclass(frozen=True)
class NameFolder:
    """A terminology. See `TrainingFiles`.

    path (str): Its folder.
    """

    path: str

    def hash(self) -> dict[str, str]:
        """Hash the terminology. See `TrainingFiles.hash`."""
        manifest = read_manifest(Path(self.path) / MANIFEST, TERMINOLOGY_VERSION)
        return {"terminology": manifest["fingerprint"]}

    def list_concepts(self) -> set[str]:
        """List all concepts. See `TrainingFiles.list_concepts`."""
        return set(Terminology.from_disk(self.path).concepts["id"])


@dataclass(frozen=True)
class Graph:
    """Triples and names as numbers.

    names (pl.Series): The distinct names, in order.
    concepts (pl.Series): The ids of the concepts of the triples, in order. Each has a name.
    labels (list[str]): The labels of relations, sorted.
    name_rows (np.ndarray): Rows in `names` of the names of each concept, concept by concept; int64.
    offsets (np.ndarray): Start of each concept's part of `name_rows`, and the end of the last; shape (concepts + 1,),
        int64.
    heads, tails (np.ndarray): Rows in `concepts`, shape (triples,), int32.
    relations (np.ndarray): Rows in `labels`, shape (triples,), int32.
    report (dict[str, Any]): Counts of read and excluded triples, names by language.
    identity (dict[str, str]): Hashes of terminology and triples.
    """

    names: pl.Series
    concepts: pl.Series
    labels: list[str]
    name_rows: np.ndarray
    offsets: np.ndarray
    heads: np.ndarray
    tails: np.ndarray
    relations: np.ndarray
    report: dict[str, Any]
    identity: dict[str, str]

    def __len__(self) -> int:
        """Return the number of triples."""
        return len(self.heads)


def load_graph(
    terminology_path: str | Path,
    triples_path: str | Path,
    *,
    languages: Sequence[str] | None = None,
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
        left_out = {
            name: value for name, value in report.items() if name not in ("triples_read", "empty_names") and value
        }
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
    if languages is None and len(report["names_by_language"]) == 1:
        (language,) = report["names_by_language"]
        warnings.warn(
            (
                f"Names of all languages are wanted, and those in {terminology_path} are all in {language}. If it "
                "was read for one language only, read it with `preprocess --languages all`."
            ),
            stacklevel=2,
        )
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
