"""Pairs of names of one concept, as indices into a table of names: in memory and in a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ..errors import Errors
from .data_folder import DataFolder
from .string_order import join_strings, number_strings

PAIRS_FILE, NAMES_FILE, CONCEPTS_FILE = "pairs.parquet", "names.parquet", "concepts.parquet"
PAIRS_MANIFEST = "pairs.json"
FOLDER = DataFolder(PAIRS_MANIFEST, 2, "`pairs`, `finetuning-pairs` and `parallel-pairs`")
CHUNK = 500_000


@dataclass(frozen=True)
class PairData:
    """Pairs of names of one concept.

    names (pl.Series): The distinct names, in order.
    left, right (np.ndarray): The rows of each pair's names; shape (pairs,), int64.
    labels (np.ndarray): The row of each pair's concept in `concepts`; shape (pairs,), int64.
    concepts (pl.Series): The ids of the concepts, in order.
    sha256 (str): Of the content.
    sources (pl.Series | None): The sources of each concept, joined by "|"; None if they are not known.
    """

    names: pl.Series
    left: np.ndarray
    right: np.ndarray
    labels: np.ndarray
    concepts: pl.Series
    sha256: str
    sources: pl.Series | None = None

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.labels)


def make_pair_data(
    names: pl.Series,
    left: np.ndarray,
    right: np.ndarray,
    concepts: pl.Series,
    labels: np.ndarray,
    sources: pl.Series | None = None,
) -> PairData:
    """Normalise pairs: sorted tables of the distinct names and concepts that occur, and indices into them."""
    table, places = _number(names, left, right)
    ids, concept_places = _number(concepts, labels)
    listed = None
    if sources is not None:
        row_of = np.empty(len(ids), dtype=np.int64)
        row_of[concept_places[labels]] = labels
        listed = sources.gather(row_of)
    columns = places[left], places[right], concept_places[labels]
    return PairData(table, *columns, ids, _hash_content(table, ids, listed, columns), listed)


def index_pairs(ids: list[str], first: list[str], second: list[str]) -> PairData:
    """Index columns of strings as `PairData`."""
    rows = np.arange(len(ids))
    names = pl.Series([*first, *second], dtype=pl.String())
    return make_pair_data(names, rows, rows + len(ids), pl.Series(ids, dtype=pl.String()), rows)


def _number(values: pl.Series, *rows: np.ndarray) -> tuple[pl.Series, np.ndarray]:
    """Return the sorted distinct values that rows refer to, and the index of each row's value there."""
    is_used = np.zeros(len(values), dtype=bool)
    for column in rows:
        is_used[column] = True
    used = np.flatnonzero(is_used)
    table, numbers = number_strings(values.gather(used))
    places = np.full(len(values), -1, dtype=np.int64)
    places[used] = numbers
    return table, places


def _hash_content(
    names: pl.Series, concepts: pl.Series, sources: pl.Series | None, columns: tuple[np.ndarray, ...]
) -> str:
    """Hash the content of pairs, independent of the file format."""
    digest = hashlib.sha256()
    for strings in (names, concepts, pl.Series(dtype=pl.String()) if sources is None else sources):
        content, offsets = join_strings(strings)
        digest.update(np.diff(offsets).astype("<i8", copy=False).data)
        digest.update(content)
    for column in columns:
        digest.update(np.ascontiguousarray(column, dtype="<i8").data)
    return digest.hexdigest()


def save_pairs(pairs: PairData, path: str | Path, data: Mapping[str, Any]) -> None:
    """Write pairs to a folder: a table of names, one of concepts, and the pairs as rows of these."""
    with FOLDER.write(path, {**data, "sha256": pairs.sha256}) as folder:
        columns = {"left": pairs.left, "right": pairs.right, "label": pairs.labels}
        sources = {} if pairs.sources is None else {"sources": pairs.sources}
        pl.DataFrame({"name": pairs.names}).write_parquet(folder / NAMES_FILE)
        pl.DataFrame({"id": pairs.concepts, **sources}).write_parquet(folder / CONCEPTS_FILE)
        pl.DataFrame(columns).cast(pl.UInt32()).write_parquet(folder / PAIRS_FILE)


def load_pairs(path: str | Path) -> PairData:
    """Load pairs for training."""
    pairs = read_pair_data(path)
    if len(pairs.concepts) < 2:
        raise ValueError(
            (
                f"{path} has {len(pairs)} pairs of {len(pairs.concepts)} concepts. Training tells names of "
                "different concepts apart, so it needs pairs of two or more."
            )
        )
    return pairs


def read_pair_data(path: str | Path) -> PairData:
    """Load pairs of any number of concepts."""
    manifest, folder = FOLDER.read(path), Path(path)
    concepts = pl.read_parquet(folder / CONCEPTS_FILE)
    rows = pl.read_parquet(folder / PAIRS_FILE).cast(pl.Int64())
    return PairData(
        pl.read_parquet(folder / NAMES_FILE)["name"],
        rows["left"].to_numpy(),
        rows["right"].to_numpy(),
        rows["label"].to_numpy(),
        concepts["id"],
        manifest["sha256"],
        concepts["sources"] if "sources" in concepts.columns else None,
    )


def hash_pairs(path: str | Path) -> str:
    """Read the content hash of a folder of pairs, after verifying the folder."""
    return str(FOLDER.read(path)["sha256"])


def list_pair_concepts(path: str | Path) -> set[str]:
    """List the concepts with pairs in a folder, after verifying the folder."""
    FOLDER.read(path)
    return set(pl.read_parquet(Path(path) / CONCEPTS_FILE)["id"])


def read_pairs(path: str | Path) -> Iterator[pl.DataFrame]:
    """Read pairs as strings, in chunks, after verifying the folder."""
    yield from decode_pairs(read_pair_data(path))


def decode_pairs(pairs: PairData) -> Iterator[pl.DataFrame]:
    """List pairs as strings, in chunks."""
    for start in range(0, len(pairs), CHUNK):
        part = slice(start, start + CHUNK)
        yield pl.DataFrame(
            {
                "id": pairs.concepts.gather(pairs.labels[part]),
                "name_1": pairs.names.gather(pairs.left[part]),
                "name_2": pairs.names.gather(pairs.right[part]),
            }
        )
