"""Pairs of names of one concept, as indices into a table of names: in memory, in a folder, and as lines of text."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.terminology.rrf.tables import find_rows

from ..errors import Errors, Warnings
from .data_folder import DataFolder

PAIRS_FILE, NAMES_FILE, CONCEPTS_FILE = "pairs.parquet", "names.parquet", "concepts.parquet"
PAIRS_MANIFEST = "pairs.json"
FOLDER = DataFolder(PAIRS_MANIFEST, 2, "`pairs`, `finetuning-pairs` and `parallel-pairs`")
SEPARATOR = "||"
CHUNK = 500_000


@dataclass(frozen=True)
class PairData:
    """Pairs of names of one concept.

    names (pl.Series): The distinct names, in order.
    left, right (np.ndarray): The rows of each pair's names; shape (pairs,), int64.
    labels (np.ndarray): The row of each pair's concept in `concepts`; shape (pairs,), int64.
    concepts (pl.Series): The ids of the concepts, in order.
    sha256 (str): Of the content.
    sources (list[str] | None): The sources of each concept, joined by "|"; None if they are not known.
    """

    names: pl.Series
    left: np.ndarray
    right: np.ndarray
    labels: np.ndarray
    concepts: pl.Series
    sha256: str
    sources: list[str] | None = None

    def __len__(self) -> int:
        """Return the number of pairs.

        RETURNS (int): Pairs.
        """
        return len(self.labels)


def make_pair_data(
    names: pl.Series,
    left: np.ndarray,
    right: np.ndarray,
    concepts: pl.Series,
    labels: np.ndarray,
    sources: pl.Series | None = None,
) -> PairData:
    """Normalise pairs: sorted tables of the distinct names and concepts that occur, and indices into them.

    names (pl.Series): Names, possibly repeated.
    left (np.ndarray): The row of each pair's first name.
    right (np.ndarray): The row of each pair's second name.
    concepts (pl.Series): Ids of concepts, possibly repeated.
    labels (np.ndarray): The row of each pair's concept.
    sources (pl.Series | None): The sources of each concept, joined by "|".
    RETURNS (PairData): The pairs, in the same order.
    """
    table, places = _number(names, left, right)
    ids, concept_places = _number(concepts, labels)
    listed = None
    if sources is not None:
        row_of = np.empty(len(ids), dtype=np.int64)
        row_of[concept_places[labels]] = labels
        listed = sources.gather(row_of).to_list()
    columns = places[left], places[right], concept_places[labels]
    return PairData(table, *columns, ids, _hash_content(table, ids, listed, columns), listed)


def index_pairs(ids: list[str], first: list[str], second: list[str]) -> PairData:
    """Index columns of strings as `PairData`.

    ids (list[str]): The concept of each pair.
    first (list[str]): Its first name.
    second (list[str]): Its second name.
    RETURNS (PairData): The pairs, in the same order.
    """
    rows = np.arange(len(ids))
    names = pl.Series([*first, *second], dtype=pl.String())
    return make_pair_data(names, rows, rows + len(ids), pl.Series(ids, dtype=pl.String()), rows)


def _number(values: pl.Series, *rows: np.ndarray) -> tuple[pl.Series, np.ndarray]:
    """Return the sorted distinct values that rows refer to, and the index of each row's value there."""
    is_used = np.zeros(len(values), dtype=bool)
    for column in rows:
        is_used[column] = True
    used = np.flatnonzero(is_used)
    kept = values.gather(used)
    table = kept.unique().sort()
    places = np.full(len(values), -1, dtype=np.int64)
    places[used] = find_rows(kept, table)
    return table, places


def _hash_content(
    names: pl.Series, concepts: pl.Series, sources: list[str] | None, columns: tuple[np.ndarray, ...]
) -> str:
    """Hash the content of pairs, independent of the file format."""
    digest = hashlib.sha256()
    for strings in (names, concepts, pl.Series(sources or [], dtype=pl.String())):
        digest.update(strings.str.len_bytes().to_numpy().astype("<i8").tobytes())
        for start in range(0, len(strings), CHUNK):
            digest.update("".join(strings[start : start + CHUNK]).encode("utf8"))
    for column in columns:
        digest.update(column.astype("<i8").tobytes())
    return digest.hexdigest()


def save_pairs(pairs: PairData, path: str | Path, data: Mapping[str, Any]) -> None:
    """Write pairs to a folder: a table of names, one of concepts, and the pairs as rows of these.

    pairs (PairData): The pairs.
    path (str | Path): The folder.
    data (Mapping[str, Any]): Entries of the manifest beside the hash of the content.
    """
    with FOLDER.write(path, {**data, "sha256": pairs.sha256}) as folder:
        columns = {"left": pairs.left, "right": pairs.right, "label": pairs.labels}
        sources = {} if pairs.sources is None else {"sources": pl.Series(pairs.sources, dtype=pl.String())}
        pl.DataFrame({"name": pairs.names}).write_parquet(folder / NAMES_FILE)
        pl.DataFrame({"id": pairs.concepts, **sources}).write_parquet(folder / CONCEPTS_FILE)
        pl.DataFrame(columns).cast(pl.UInt32()).write_parquet(folder / PAIRS_FILE)


def load_pairs(path: str | Path) -> PairData:
    """Load pairs for training.

    path (str | Path): A folder of pairs.
    RETURNS (PairData): The pairs.
    RAISES (OSError): If a file is missing, damaged or of an older version.
    RAISES (ValueError): If all pairs are of one concept.
    """
    pairs = _load(path)
    if len(pairs.concepts) < 2:
        raise ValueError(Errors.E630.format(path=path, pairs=len(pairs), concepts=len(pairs.concepts)))
    return pairs


def _load(path: str | Path) -> PairData:
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
        concepts["sources"].to_list() if "sources" in concepts.columns else None,
    )


def hash_pairs(path: str | Path) -> str:
    """Read the content hash of a folder of pairs, after verifying the folder.

    path (str | Path): The folder.
    RETURNS (str): SHA-256, hexadecimal.
    RAISES (OSError): If a file is missing, damaged or of an older version.
    """
    return str(FOLDER.read(path)["sha256"])


def list_pair_concepts(path: str | Path) -> set[str]:
    """List the concepts with pairs in a folder, after verifying the folder.

    path (str | Path): The folder.
    RETURNS (set[str]): Their ids.
    RAISES (OSError): If a file is missing, damaged or of an older version.
    """
    FOLDER.read(path)
    return set(pl.read_parquet(Path(path) / CONCEPTS_FILE)["id"])


def read_pairs(path: str | Path) -> Iterator[pl.DataFrame]:
    """Read pairs as strings, in chunks, after verifying the folder.

    path (str | Path): A folder of pairs.
    YIELDS (pl.DataFrame): The columns `id`, `name_1` and `name_2` of the next pairs.
    RAISES (OSError): If a file is missing, damaged or of an older version.
    """
    pairs = _load(path)
    for start in range(0, len(pairs), CHUNK):
        part = slice(start, start + CHUNK)
        yield pl.DataFrame(
            {
                "id": pairs.concepts.gather(pairs.labels[part]),
                "name_1": pairs.names.gather(pairs.left[part]),
                "name_2": pairs.names.gather(pairs.right[part]),
            }
        )


def check_text_path(text_path: str | Path) -> None:
    """Check that a file can be written at a path, before any work is done.

    text_path (str | Path): The file to write. Its folder may not exist yet.
    RAISES (OSError): If it is a folder, or one of its parents is a file.
    """
    text_path = Path(text_path)
    if text_path.is_dir():
        raise IsADirectoryError(Errors.E642.format(path=text_path, reason="it is a folder"))
    above = next(folder for folder in text_path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise NotADirectoryError(Errors.E642.format(path=text_path, reason=f"{above} is not a folder"))


def write_pairs_text(path: str | Path, text_path: str | Path) -> int:
    """Write pairs as lines `CUI||name||name`, the input format of SapBERT's reference code.

    path (str | Path): A folder of pairs.
    text_path (str | Path): The file to write.
    RETURNS (int): Lines written.
    RAISES (OSError): If the file cannot be written.
    RAISES (ValueError): If a name contains a pipe, which the format cannot represent.
    """
    check_text_path(text_path)
    text_path = Path(text_path)
    text_path.parent.mkdir(parents=True, exist_ok=True)
    temporary = text_path.with_name(text_path.name + ".part")
    n = 0
    try:
        with temporary.open("wb") as file:
            for chunk in read_pairs(path):
                fields = pl.concat_str(pl.all(), separator=SEPARATOR)
                bad = chunk.filter(pl.any_horizontal(pl.all().str.contains(r"[|\n\r]")))
                if bad.height:
                    raise ValueError(Errors.E603.format(id=bad["id"][0], names=bad.row(0)[1:], path=text_path))
                file.write(("\n".join(chunk.select(fields).to_series().to_list()) + "\n").encode("utf8"))
                n += chunk.height
        temporary.replace(text_path)
    finally:
        temporary.unlink(missing_ok=True)
    return n


def read_pairs_text(text_path: str | Path, path: str | Path) -> dict[str, Any]:
    """Read lines `CUI||name||name` into a folder of pairs. Pairs of identical names are excluded.

    text_path (str | Path): The file.
    path (str | Path): The folder to write.
    RETURNS (dict[str, Any]): The counts and settings of the manifest.
    RAISES (ValueError): If a line is malformed, or no pair is left.
    """
    rows: list[tuple[str, ...]] = []
    # Editors on Windows write a byte order mark before the first id.
    with Path(text_path).open(encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            fields = tuple(field.strip() for field in line.rstrip("\r\n").split(SEPARATOR))
            if len(fields) != 3 or not all(fields):
                raise ValueError(Errors.E604.format(file=text_path, line=number, found=len(fields), text=line[:80]))
            rows.append(fields)
    kept = [row for row in rows if row[1] != row[2]]
    if len(kept) < len(rows):
        warnings.warn(Warnings.W601.format(n=len(rows) - len(kept), path=text_path), stacklevel=2)
    if not kept:
        counts = {"concepts": len({row[0] for row in rows}), "names": len({row[1] for row in rows})}
        raise ValueError(Errors.E602.format(**counts))
    pairs = index_pairs(*(list(column) for column in zip(*kept, strict=True)))
    data = {
        "counts": {"pairs": len(pairs), "concepts_with_pairs": len(pairs.concepts)},
        "settings": {"file": Path(text_path).name},
    }
    save_pairs(pairs, path, data)
    return data
