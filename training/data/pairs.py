"""Pairs of names of one concept, which SapBERT learns from (Liu et al., NAACL 2021, section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

import spacy_sapbert
from spacy_sapbert.files import fill_folder, read_manifest, write_manifest
from spacy_sapbert.terminology import Terminology

from ..errors import Errors
from .sampling import choose_pairs, make_keys

PAIRS_FILE = "pairs.parquet"
SOURCES_FILE = "sources.parquet"
PAIRS_MANIFEST = "pairs.json"
FORMAT_VERSION = 1
LIMIT = 50
SEPARATOR = "||"
CHUNK = 500_000
SCHEMA = pa.schema([("id", pa.string()), ("name_1", pa.string()), ("name_2", pa.string())])


def list_distinct_names(terminology: Terminology, *, lower_case: bool = True) -> pl.DataFrame:
    """List the distinct names of each concept, whatever their language.

    terminology (Terminology): Concepts and names.
    lower_case (bool): Lower-case them first.
    RETURNS (pl.DataFrame): The columns `concept` (row) and `name`, sorted by both, so that nothing depends on the order
        in which names were read.
    """
    name = pl.col("name").str.to_lowercase() if lower_case else pl.col("name")
    # Names stand sorted by concept, so only those of a concept need sorting among each other.
    return terminology.names.select("concept", name).unique().sort("concept", "name")


def list_sources(terminology: Terminology) -> pl.DataFrame:
    """List the sources that name each concept.

    terminology (Terminology): Concepts and names.
    RETURNS (pl.DataFrame): The columns `id` and `sources`, joined by "|", in the order of the concepts.
    """
    rows = terminology.names.select("concept", pl.col("source").str.split("|")).unique().explode("source").unique()
    sources = (
        rows.sort("concept", "source").group_by("concept", maintain_order=True).agg(pl.col("source").str.join("|"))
    )
    concepts = pl.DataFrame({"concept": np.arange(len(terminology), dtype=np.uint32), "id": terminology.concepts["id"]})
    joined = concepts.join(sources, on="concept", how="left", maintain_order="left")
    return joined.select("id", sources=pl.col("source").fill_null(""))


def write_pairs(
    terminology: Terminology, path: str | Path, *, lower_case: bool = True, limit: int = LIMIT, seed: int = 0
) -> dict[str, Any]:
    """Write pairs of names to a folder: all unordered pairs of a concept's names, or `limit` drawn uniformly.

    terminology (Terminology): Concepts and names.
    path (str | Path): The folder.
    lower_case (bool): Lower-case names, as SapBERT was trained.
    limit (int): Pairs of a concept at most; 50 in the paper.
    seed (int): Of the draw. What is drawn for a concept depends on its id, its names and the seed only.
    RETURNS (dict[str, Any]): What the manifest says: counts, settings, the terminology's fingerprint.
    RAISES (ValueError): If no concept has two names, or a setting has no meaning.
    """
    if limit < 1 or seed < 0:
        raise ValueError(Errors.E601.format(limit=limit, seed=seed))
    names = list_distinct_names(terminology, lower_case=lower_case)
    offsets = np.searchsorted(names["concept"].to_numpy(), np.arange(len(terminology) + 1, dtype=np.uint32))
    offsets = offsets.astype(np.int64)
    n = np.diff(offsets)
    keys = np.zeros(len(n), dtype=np.uint64)
    is_large = n * (n - 1) // 2 > limit
    ids = terminology.concepts["id"]
    keys[is_large] = make_keys(ids.filter(pl.Series(is_large)).to_list(), seed)
    first, second = choose_pairs(offsets, keys, limit)
    if not len(first):
        raise ValueError(Errors.E602.format(concepts=len(terminology), names=names.height))
    counts = {
        "concepts": len(terminology),
        "names": names.height,
        "concepts_with_pairs": int((n > 1).sum()),
        "all_pairs": int((n * (n - 1) // 2).sum()),
        "pairs": len(first),
        "concepts_cut": int(is_large.sum()),
    }
    data = {
        "counts": counts,
        "settings": {"lower_case": lower_case, "limit": limit, "seed": seed},
        "terminology": terminology.fingerprint,
        "spacy_sapbert": spacy_sapbert.__version__,
    }
    with fill_folder(Path(path), last=PAIRS_MANIFEST) as folder:
        with pq.ParquetWriter(folder / PAIRS_FILE, SCHEMA, compression="zstd") as writer:
            for start in tqdm(range(0, len(first), CHUNK), desc="Writing pairs", unit="chunk", disable=None):
                left = names[first[start : start + CHUNK]]
                right = names["name"].gather(second[start : start + CHUNK])
                chunk = pl.DataFrame({"id": ids.gather(left["concept"]), "name_1": left["name"], "name_2": right})
                writer.write_table(chunk.to_arrow().cast(SCHEMA))
        list_sources(terminology).filter(pl.Series(n > 1)).write_parquet(folder / SOURCES_FILE)
        write_manifest(folder / PAIRS_MANIFEST, FORMAT_VERSION, data)
    return data


def read_pairs(path: str | Path, *, columns: list[str] | None = None) -> Iterator[pl.DataFrame]:
    """Read pairs in chunks, after checking that the folder is whole.

    path (str | Path): A folder written by `write_pairs`.
    columns (list[str] | None): Of `id`, `name_1` and `name_2`, those wanted; None for all.
    YIELDS (pl.DataFrame): The next pairs.
    RAISES (OSError): If a file is missing or damaged.
    """
    path = Path(path)
    read_manifest(path / PAIRS_MANIFEST, FORMAT_VERSION)
    with pq.ParquetFile(path / PAIRS_FILE) as file:
        for batch in file.iter_batches(columns=columns):
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            yield frame


def read_hashes(path: str | Path) -> dict[str, str]:
    """Tell which files belong to a folder of pairs, after checking that it is whole.

    path (str | Path): A folder written by `write_pairs`.
    RETURNS (Dict[str, str]): The SHA-256 of each file, by name.
    RAISES (OSError): If a file is missing or damaged.
    """
    return read_manifest(Path(path) / PAIRS_MANIFEST, FORMAT_VERSION)["files"]


def check_text_path(text_path: str | Path) -> None:
    """Refuse a path at which no file can be written, before anything is done for it.

    text_path (str | Path): The file to write. Its folder need not be there yet.
    RAISES (OSError): If it is a folder, or something that it lies in is not.
    """
    text_path = Path(text_path)
    if text_path.is_dir():
        raise IsADirectoryError(Errors.E642.format(path=text_path, reason="it is a folder"))
    above = next(folder for folder in text_path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise NotADirectoryError(Errors.E642.format(path=text_path, reason=f"{above} is not a folder"))


def write_pairs_text(path: str | Path, text_path: str | Path) -> int:
    """Write pairs as lines `CUI||name||name`, the form in which SapBERT's reference code takes them.

    path (str | Path): A folder written by `write_pairs`.
    text_path (str | Path): The file to write.
    RETURNS (int): Lines written.
    RAISES (OSError): If the file cannot be written.
    RAISES (ValueError): If a name holds a pipe, which the form has no way to say.
    """
    check_text_path(text_path)
    text_path = Path(text_path)
    text_path.parent.mkdir(parents=True, exist_ok=True)
    temporary = text_path.with_name(text_path.name + ".part")
    n = 0
    try:
        with temporary.open("wb") as file:
            for chunk in read_pairs(path):
                fields = pl.concat_str(SCHEMA.names, separator=SEPARATOR)
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
    """Read lines `CUI||name||name` into a folder like that of `write_pairs`.

    text_path (str | Path): The file.
    path (str | Path): The folder to write.
    RETURNS (dict[str, Any]): What the manifest says.
    RAISES (ValueError): If a line is of another form.
    """
    columns: list[list[str]] = [[], [], []]
    # Windows' editors put a mark before the first id, which is none of its letters.
    with Path(text_path).open(encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            fields = line.rstrip("\r\n").split(SEPARATOR)
            if len(fields) != 3 or not all(field.strip() for field in fields):
                raise ValueError(Errors.E604.format(file=text_path, line=number, found=len(fields), text=line[:80]))
            for column, field in zip(columns, fields, strict=True):
                column.append(field.strip())
    if not columns[0]:
        raise ValueError(Errors.E602.format(concepts=0, names=0))
    table = pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)
    counts = {"pairs": table.num_rows, "concepts_with_pairs": len(set(columns[0]))}
    data = {"counts": counts, "settings": {"file": Path(text_path).name}, "spacy_sapbert": spacy_sapbert.__version__}
    with fill_folder(Path(path), last=PAIRS_MANIFEST) as folder:
        pq.write_table(table, folder / PAIRS_FILE, compression="zstd")
        write_manifest(folder / PAIRS_MANIFEST, FORMAT_VERSION, data)
    return data
