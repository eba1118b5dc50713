"""Triples as numbers: tables of concepts and labels, and three columns of integers that refer to them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from .data_folder import DataFolder
from .string_order import number_strings

TRIPLES_FILE, CONCEPTS_FILE, LABELS_FILE = "triples.parquet", "concepts.parquet", "relations.parquet"
TRIPLES_MANIFEST = "triples.json"
FOLDER = DataFolder(TRIPLES_MANIFEST, 2, "`triples`")


@dataclass(frozen=True)
class TripleData:
    """Triples (head, relation, tail) as numbers.

    concepts (pl.Series): The ids of the concepts that occur, in order.
    labels (pl.Series): The labels of the relations that occur, in order.
    heads, tails (np.ndarray): Rows of `concepts`, shape (triples,), int32.
    relations (np.ndarray): Rows of `labels`, shape (triples,), int32.
    """

    concepts: pl.Series
    labels: pl.Series
    heads: np.ndarray
    relations: np.ndarray
    tails: np.ndarray

    def __len__(self) -> int:
        """Return the number of triples."""
        return len(self.heads)

    def decode(self) -> pl.DataFrame:
        """List the triples as strings, which takes many times the memory."""
        return pl.DataFrame(
            {
                "head": self.concepts.gather(self.heads),
                "relation": self.labels.gather(self.relations),
                "tail": self.concepts.gather(self.tails),
            }
        )


def index_triples(rows: Sequence[tuple[str, str, str]]) -> TripleData:
    """Number triples of strings."""
    heads, relations, tails = (pl.Series([row[place] for row in rows], dtype=pl.String()) for place in range(3))
    concepts, ends = number_strings(pl.concat([heads, tails]))
    labels, numbers = number_strings(relations)
    first, second = np.split(ends.astype(np.int32), 2)
    return TripleData(concepts, labels, first, numbers.astype(np.int32), second)


def save_triples(triples: TripleData, path: str | Path, data: Mapping[str, Any]) -> None:
    """Write triples to a folder."""
    columns = {"head": triples.heads, "relation": triples.relations, "tail": triples.tails}
    with FOLDER.write(path, data) as folder:
        pl.DataFrame({"id": triples.concepts}).write_parquet(folder / CONCEPTS_FILE)
        pl.DataFrame({"label": triples.labels}).write_parquet(folder / LABELS_FILE)
        pl.DataFrame(columns).write_parquet(folder / TRIPLES_FILE, compression="zstd")


def read_triples(path: str | Path) -> TripleData:
    """Read triples, after verifying the folder."""
    FOLDER.read(path)
    folder = Path(path)
    rows = pl.read_parquet(folder / TRIPLES_FILE)
    return TripleData(
        pl.read_parquet(folder / CONCEPTS_FILE)["id"],
        pl.read_parquet(folder / LABELS_FILE)["label"],
        *(rows[column].to_numpy() for column in ("head", "relation", "tail")),
    )


def list_triple_concepts(path: str | Path) -> set[str]:
    """List the concepts of the triples in a folder, after verifying the folder."""
    FOLDER.read(path)
    return set(pl.read_parquet(Path(path) / CONCEPTS_FILE)["id"])


def hash_triples(path: str | Path) -> str:
    """Hash the files of a folder of triples, after verifying the folder."""
    files = FOLDER.read(path)["files"]
    hashes = "".join(files[name] for name in (TRIPLES_FILE, CONCEPTS_FILE, LABELS_FILE))
    return hashlib.sha256(hashes.encode("ascii")).hexdigest()
