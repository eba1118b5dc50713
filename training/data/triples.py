"""Triples (head, relation, tail), the training data of CODER (Yuan et al., JBI 2022, section 3)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from spacy_sapbert.progress import show_phase
from spacy_sapbert.settings import OnMalformed
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.licences import list_sources
from spacy_sapbert.terminology.names import find_rows
from spacy_sapbert.terminology.readers.rrf import keep_sources, read_sources
from spacy_sapbert.terminology.readers.rrf_lines import RrfFolder, follow_merges, list_retired, remap

from .folders import DataFolder, number_used

FOLDER = DataFolder("triples.json", "triples")
TABLES = ("triples", "concepts", "relations")
# The paper joins the names of relation and attribute; the released code uses the attribute alone.
RelationLabel = Literal["REL+RELA", "REL", "RELA"]
COLUMNS = ("CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS")
# About 2 million rows: the look-up of concepts has a fixed cost.
BLOCKS_AT_ONCE = 25


@dataclass(frozen=True)
class TripleData:
    """Triples (head, relation, tail) as numbers."""

    concepts: pl.Series  # The ids of the concepts that occur, in order.
    labels: pl.Series  # The labels of the relations that occur, in order.
    heads: np.ndarray  # Rows of `concepts`, shape (triples,), int32; as `tails`.
    relations: np.ndarray  # Rows of `labels`, shape (triples,), int32.
    tails: np.ndarray

    def __len__(self) -> int:
        """Return the number of triples."""
        return len(self.heads)


def make_triple_data(
    ids: pl.Series, heads: np.ndarray, labels: pl.Series, relations: np.ndarray, tails: np.ndarray
) -> TripleData:
    """Keep the concepts and labels that occur in triples, sorted."""
    concepts, (heads, tails) = number_used(ids, heads, tails)
    labels, (relations,) = number_used(labels, relations)
    return TripleData(concepts, labels, *(column.astype(np.int32) for column in (heads, relations, tails)))


def save_triples(triples: TripleData, path: str | Path, data: Mapping[str, Any]) -> None:
    """Write triples to a folder."""
    columns = {"head": triples.heads, "relation": triples.relations, "tail": triples.tails}
    concepts = pl.DataFrame({"id": triples.concepts})
    relations = pl.DataFrame({"label": triples.labels})
    FOLDER.save(path, data, triples=pl.DataFrame(columns), concepts=concepts, relations=relations)


def read_triples(path: str | Path) -> TripleData:
    """Read triples, after verifying the folder."""
    _, (rows, concepts, relations) = FOLDER.load(path, *TABLES)
    columns = (rows[column].to_numpy() for column in ("head", "relation", "tail"))
    return TripleData(concepts["id"], relations["label"], *columns)


def hash_triples(path: str | Path) -> str:
    """Hash the files of a folder of triples, after verifying the folder."""
    files = FOLDER.read(path)["files"]
    return hashlib.sha256("".join(files[f"{name}.parquet"] for name in TABLES).encode("ascii")).hexdigest()


def write_triples(
    rrf_path: str | Path,
    terminology: Terminology,
    path: str | Path,
    *,
    label: RelationLabel = "REL+RELA",
    errors: OnMalformed = "raise",
) -> dict[str, Any]:
    """Write the distinct triples of MRREL to a folder."""
    if label not in get_args(RelationLabel):
        raise ValueError(f"Unknown label '{label}'. Choose one of: {', '.join(get_args(RelationLabel))}.")
    folder = RrfFolder(rrf_path, errors=errors)
    if "MRREL" not in folder:
        raise FileNotFoundError(
            f"There is no MRREL.RRF in {folder.path}, so there are no triples. Copy it there from the release;"
            " MetamorphoSys leaves it out if relations are not selected."
        )
    settings = terminology.report.get("settings", {})
    triples, dropped = _collect_triples(folder, terminology, label)
    n_rows = folder.read[folder.place("MRREL").name]
    if not len(triples):
        raise ValueError(
            f"No triple is left of the {n_rows} rows of {folder.place('MRREL')} (dropped: {dict(dropped)}). The "
            "terminology is probably of another release, or filtered to few concepts."
        )
    counts = dict(zip(triples.labels, np.bincount(triples.relations).tolist(), strict=True))
    report = folder.report(dropped)
    data: dict[str, Any] = {
        "counts": {"rows": n_rows, "triples": len(triples), "relations": len(counts)},
        "dropped": report["dropped"],
        "relations": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        "settings": {
            "label": label,
            "sources": settings.get("sources") and sorted(settings["sources"]),
            **{name: settings.get(name) for name in ("max_restriction_level", "suppressed", "remap_retired")},
        },
        "inputs": report["files"],
        "verified": report["verified"],
        "terminology": terminology.fingerprint,
    }
    save_triples(triples, path, data)
    return data


def _collect_triples(
    folder: RrfFolder, terminology: Terminology, label: RelationLabel
) -> tuple[TripleData, Counter[str]]:
    """Return the distinct triples, sorted, and the numbers of dropped rows by reason."""
    settings = terminology.report.get("settings", {})
    ids = terminology.concepts.to_polars("id")["id"]
    sources = list_sources(terminology.report)
    for name, source in read_sources(folder).items():
        if source.restriction_level is not None:
            sources[name] = source
    # The settings of the terminology as conditions on rows, by the reason to drop a row.
    conditions = {
        "source": keep_sources(settings.get("sources")),
        "restriction_level": keep_sources(None, settings.get("max_restriction_level"), sources),
        "suppressed": (pl.col("SUPPRESS") == "N") | pl.lit(settings.get("suppressed") != "drop"),
        "self_loop": pl.col("CUI1") != pl.col("CUI2"),
    }
    joined = pl.concat_str("REL", "RELA", separator=" ").str.strip_chars_end()
    of_row = (joined if label == "REL+RELA" else pl.col(label)).alias("label")
    merged = follow_merges(list_retired(folder, ids)) if settings.get("remap_retired") else {}
    dropped = Counter({**dict.fromkeys(conditions, 0), "unnamed_concept": 0, "duplicate": 0})
    # A triple is a number, with its label in the order in which labels come. 1,000 labels of 100 million concepts fit.
    numbers: dict[str, int] = {}
    n = np.uint64(len(ids))
    square = np.uint64(len(ids) ** 2)
    parts: list[np.ndarray] = []
    blocks = folder.tables("MRREL", COLUMNS)
    while batch := list(islice(blocks, BLOCKS_AT_ONCE)):
        rows = remap(pl.concat(batch), ("CUI1", "CUI2"), merged)
        for reason, condition in conditions.items():
            dropped[reason] += rows.height
            rows = rows.filter(condition)
            dropped[reason] -= rows.height
        head = pl.Series("head", find_rows(rows["CUI2"], ids))
        tail = pl.Series("tail", find_rows(rows["CUI1"], ids))
        named = rows.select(head, tail, of_row).filter(pl.col("head") >= 0, pl.col("tail") >= 0)
        dropped["unnamed_concept"] += rows.height - named.height
        for text in named["label"].unique():
            numbers.setdefault(text, len(numbers))
        relation = named["label"].replace_strict(numbers, return_dtype=pl.Int64())
        relations, heads, tails = (column.to_numpy().astype(np.uint64) for column in (relation, *named["head", "tail"]))
        parts.append(np.unique(relations * square + heads * n + tails))
        dropped["duplicate"] += named.height - len(parts[-1])
    with show_phase("Sorting triples"):
        labels = sorted(numbers)
        place_of = np.argsort([numbers[text] for text in labels]).astype(np.uint64)
        relations, ends = np.divmod(np.concatenate(parts), square)
        keys = np.unique(place_of[relations] * square + ends)
        dropped["duplicate"] += sum(map(len, parts)) - len(keys)
        relations, ends = np.divmod(keys, square)
        heads, tails = np.divmod(ends, n)
        triples = make_triple_data(ids, heads, pl.Series(labels, dtype=pl.String()), relations, tails)
    return triples, dropped
