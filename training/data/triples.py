"""Triples (head, relation, tail): the training data of CODER (Yuan et al., JBI 2022, section 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from spacy_sapbert.progress import show_phase
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.licences import list_sources
from spacy_sapbert.terminology.readers.checksums import verify
from spacy_sapbert.terminology.rrf.concepts import read_retired, remap
from spacy_sapbert.terminology.rrf.folder import RrfFolder
from spacy_sapbert.terminology.rrf.sources import SourceFilter, read_sources
from spacy_sapbert.terminology.rrf.tables import find_rows
from spacy_sapbert.types import OnMalformed

from ..errors import Errors
from .data_folder import DataFolder

TRIPLES_FILE = "triples.parquet"
TRIPLES_MANIFEST = "triples.json"
FORMAT_VERSION = 1
FOLDER = DataFolder(TRIPLES_MANIFEST, FORMAT_VERSION, "`triples`")
# The paper joins the names of relation and attribute; the released code uses the attribute alone.
RelationLabel = Literal["REL+RELA", "REL", "RELA"]
# The look-up of concepts has a fixed cost: batches are large.
ROWS_AT_ONCE = 4_000_000
COLUMNS = ("CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS")


def write_triples(
    rrf_path: str | Path,
    terminology: Terminology,
    path: str | Path,
    *,
    label: RelationLabel = "REL+RELA",
    sources: Collection[str] | None = None,
    errors: OnMalformed = "raise",
) -> dict[str, Any]:
    """Write the distinct triples of MRREL to a folder.

    A row of MRREL means: concept 2 has the relation to concept 1. So concept 2 is the head and concept 1 the tail.
    Relations of a concept with itself and of concepts without names are dropped. The settings of the terminology apply
    here too: sources, restricted sources, suppressed rows and retired concepts.

    rrf_path (str | Path): The release.
    terminology (Terminology): The concepts with names.
    path (str | Path): The folder to write.
    label (RelationLabel): The fields of the label: REL and RELA ("RO may_treat"; REL alone where there is no RELA),
        REL, or RELA (empty where there is none).
    sources (Collection[str] | None): Sources (SAB) of relations to keep; None for the sources of the terminology.
    errors (OnMalformed): Whether to "raise" an error for a malformed line, or to "skip" and count it.
    RETURNS (dict[str, Any]): The counts, labels, settings and input hashes of the manifest.
    RAISES (FileNotFoundError): If there is no MRREL.
    RAISES (ValueError): If it is damaged, or no triple is left.
    """
    if label not in get_args(RelationLabel):
        raise ValueError(Errors.E620.format(what="label", value=label, allowed=", ".join(get_args(RelationLabel))))
    folder = RrfFolder(rrf_path, errors=errors)
    if "MRREL" not in folder:
        raise FileNotFoundError(Errors.E605.format(folder=folder.path))
    settings = terminology.report.get("settings", {})
    wanted = settings.get("sources") if sources is None else sources
    triples, dropped, found_sources = _collect_triples(folder, terminology, label, wanted)
    for source in sorted(set(sources or ()) - found_sources):
        known = ", ".join(sorted(found_sources)[:30])
        raise ValueError(Errors.E125.format(file=folder.path / "MRREL", what="SAB", value=source, found=known))
    if not triples.height:
        raise ValueError(Errors.E606.format(folder=folder.path, rows=folder.read["MRREL"], dropped=dict(dropped)))
    labels = triples["relation"].value_counts(sort=True)
    data: dict[str, Any] = {
        "counts": {"rows": folder.read["MRREL"], "triples": triples.height, "relations": labels.height},
        "dropped": {**dropped, "malformed": folder.malformed_count},
        "relations": dict(sorted(labels.iter_rows(), key=lambda item: (-item[1], item[0]))),
        "settings": {
            "label": label,
            "sources": None if wanted is None else sorted(wanted),
            **{name: settings.get(name) for name in ("max_restriction_level", "suppressed", "remap_retired")},
        },
        "inputs": folder.describe(),
        "verified": verify(folder.describe(), folder.path),
        "terminology": terminology.fingerprint,
    }
    with FOLDER.write(path, data) as temporary:
        ids = terminology.concepts["id"]
        named = triples.with_columns(ids.gather(triples[end]).alias(end) for end in ("head", "tail"))
        named.write_parquet(temporary / TRIPLES_FILE, compression="zstd")
    return data


def read_triples(path: str | Path) -> pl.DataFrame:
    """Read triples, after verifying the folder.

    path (str | Path): A folder written by `write_triples`.
    RETURNS (pl.DataFrame): The columns `head` (id), `relation` and `tail` (id).
    RAISES (OSError): If a file is missing or damaged.
    """
    FOLDER.read(path)
    return pl.read_parquet(Path(path) / TRIPLES_FILE)


def hash_triples(path: str | Path) -> str:
    """Read the hash of a folder of triples, after verifying the folder.

    path (str | Path): A folder written by `write_triples`.
    RETURNS (str): SHA-256, hexadecimal.
    RAISES (OSError): If a file is missing or damaged.
    """
    return str(FOLDER.read(path)["files"][TRIPLES_FILE])


def _collect_triples(
    folder: RrfFolder, terminology: Terminology, label: RelationLabel, wanted: Collection[str] | None
) -> tuple[pl.DataFrame, Counter[str], set[str]]:
    """Return the distinct triples, sorted, the numbers of dropped rows by reason, and the sources of all rows."""
    conditions = _make_conditions(folder, terminology, wanted)
    ids = terminology.concepts["id"]
    is_remapped = terminology.report.get("settings", {}).get("remap_retired")
    retired = read_retired(folder, ids) if is_remapped else None
    dropped: Counter[str] = Counter({**dict.fromkeys(conditions, 0), "unnamed_concept": 0, "duplicate": 0})
    parts: list[pl.DataFrame] = []
    sources: set[str] = set()
    for rows in _batches(folder):
        sources |= set(rows["SAB"].unique())
        parts.append(_keep_triples(remap(rows, ("CUI1", "CUI2"), retired), ids, label, conditions, dropped))
    together = pl.concat(parts)
    with show_phase("Sorting triples"):
        triples = together.unique().with_columns(pl.col("relation").cast(pl.String()))
        triples = triples.sort("relation", "head", "tail")
    dropped["duplicate"] += together.height - triples.height
    return triples, dropped, sources


def _make_conditions(folder: RrfFolder, terminology: Terminology, wanted: Collection[str] | None) -> dict[str, pl.Expr]:
    """Express the settings of the terminology as conditions on rows, by the reason to drop a row."""
    settings = terminology.report.get("settings", {})
    told = {name: source for name, source in read_sources(folder).items() if source.restriction_level is not None}
    known = {**list_sources(terminology.report), **told}
    return {
        "source": SourceFilter(wanted).condition(),
        "restriction_level": SourceFilter(None, settings.get("max_restriction_level"), known).condition(),
        "suppressed": (pl.col("SUPPRESS") == "N") | pl.lit(settings.get("suppressed") != "drop"),
        "self_loop": pl.col("CUI1") != pl.col("CUI2"),
    }


def _keep_triples(
    rows: pl.DataFrame,
    ids: pl.Series,
    label: RelationLabel,
    conditions: Mapping[str, pl.Expr],
    dropped: Counter[str],
) -> pl.DataFrame:
    """Make distinct triples of the rows that meet all conditions, and count the dropped rows."""
    for reason, condition in conditions.items():
        n = rows.height
        rows = rows.filter(condition)
        dropped[reason] += n - rows.height
    named = rows.select(
        pl.Series("head", find_rows(rows["CUI2"], ids).astype(np.int32)),
        _make_label(label).cast(pl.Categorical()).alias("relation"),
        pl.Series("tail", find_rows(rows["CUI1"], ids).astype(np.int32)),
    ).filter(pl.col("head") >= 0, pl.col("tail") >= 0)
    dropped["unnamed_concept"] += rows.height - named.height
    distinct = named.unique(maintain_order=True)
    dropped["duplicate"] += named.height - distinct.height
    return distinct


def _batches(folder: RrfFolder) -> Iterator[pl.DataFrame]:
    waiting: list[pl.DataFrame] = []
    for block in folder.tables("MRREL", COLUMNS):
        waiting.append(block)
        if sum(frame.height for frame in waiting) >= ROWS_AT_ONCE:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def _make_label(label: RelationLabel) -> pl.Expr:
    if label != "REL+RELA":
        return pl.col(label)
    return pl.concat_str("REL", "RELA", separator=" ").str.strip_chars_end()
