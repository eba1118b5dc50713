"""Compare two releases of a terminology: what came, what went and where to, and what has another name."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import polars as pl

from ..errors import Warnings
from ..files import fill_folder
from .rrf.concepts import read_retired
from .rrf.folder import RrfFolder
from .rrf.reader import read_rrf
from .table import Terminology

REPORT = "report.json"
# Relations of MRCUI: one of the same meaning took the place, or the concept was deleted. Others are RO, RB and RN.
SAME, DELETED = "SY", "DEL"
# Where a new concept has the old id as a code, as OBO's alternative ids and the ids that `merge` replaced.
CODE = "code"


@dataclass(frozen=True)
class ReleaseDiff:
    """What has changed from one release to the next; all tables are sorted by id.

    added (pl.DataFrame): New concepts: id, name.
    retired (pl.DataFrame): Concepts that are gone without a successor: id, name, reason: "deleted", "not listed", or
        "successor missing" if it is not in the new release (or in what was read of it).
    merged (pl.DataFrame): Concepts that are part of another one now: id, name, relation, successor, successor_name.
    mapped (pl.DataFrame): Concepts that are gone, but related to others, each a row: the same columns.
    renamed (pl.DataFrame): Concepts that are shown by another name: id, old_name, new_name.
    counts (dict[str, Any]): How many of each, as plain JSON data.
    """

    added: pl.DataFrame
    retired: pl.DataFrame
    merged: pl.DataFrame
    mapped: pl.DataFrame
    renamed: pl.DataFrame
    counts: dict[str, Any]

    def to_disk(self, path: str | Path) -> None:
        """Write a table for each kind of change, as TSV with a header, and the counts as `report.json`.

        path (str | Path): The folder, made if missing.
        """
        with fill_folder(Path(path), last=REPORT) as folder:
            for field in fields(self):
                frame = getattr(self, field.name)
                if isinstance(frame, pl.DataFrame):
                    # Names with a tab or line end would break the table, which has no quoting.
                    texts = frame.with_columns(pl.col(pl.String).str.replace_all(r"[\t\n\r]+", " "))
                    texts.write_csv(folder / f"{field.name}.tsv", separator="\t", quote_style="never")
            (folder / REPORT).write_text(json.dumps(self.counts, indent=2) + "\n", encoding="utf8")


def diff_releases(
    old_folder: str | Path, new_folder: str | Path, *, languages: Collection[str] | None = ("ENG",)
) -> ReleaseDiff:
    """Compare two releases in Rich Release Format. Successors are what MRCUI of the new one says.

    old_folder (str | Path): The folder of the old release.
    new_folder (str | Path): The folder of the new release.
    languages (Collection[str] | None): Languages of the names to read; None for all.
    RETURNS (ReleaseDiff): What has changed.
    RAISES (FileNotFoundError): If there is no MRCONSO in one of them.
    RAISES (ValueError): If files are damaged.
    """
    old, new = (read_rrf(path, languages=languages, tradenames="off") for path in (old_folder, new_folder))
    return diff_terminologies(old, new, retired=read_successors(new_folder))


def read_successors(folder: str | Path) -> pl.DataFrame:
    """Read from MRCUI what has become of the concepts of earlier releases.

    folder (str | Path): The folder of a release.
    RETURNS (pl.DataFrame): The columns id, relation and successor (empty if there is none); without rows if the
        release has no MRCUI.
    RAISES (FileNotFoundError): If there is no MRCONSO either.
    """
    release = RrfFolder(folder)
    if "MRCUI" not in release:
        warnings.warn(Warnings.W140.format(folder=release.path), stacklevel=2)
    # Chains of merged concepts are followed to their ends.
    merged = read_retired(release).select(id="retired", relation=pl.lit(SAME), successor="CUI")
    rows = release.table("MRCUI", ("CUI1", "REL", "CUI2")).filter(pl.col("REL") != SAME)
    others = rows.select(id="CUI1", relation="REL", successor="CUI2")
    return pl.concat([merged, others]).unique(maintain_order=True)


def diff_terminologies(old: Terminology, new: Terminology, retired: pl.DataFrame | None = None) -> ReleaseDiff:
    """Compare two releases of a terminology.

    A concept that is gone was merged into another one if the new release says so: in `retired` with the relation "SY",
    or by having its id as a code in just one concept.

    old (Terminology): The old release.
    new (Terminology): The new release.
    retired (pl.DataFrame | None): What `read_successors` gives: id, relation and successor.
    RETURNS (ReleaseDiff): What has changed.
    """
    before, after = (t.concepts.select("id", name="canonical_name") for t in (old, new))
    gone = before.join(after, on="id", how="anti", maintain_order="left")
    listed = _successors(gone, new, retired)
    found = listed.join(after.rename({"id": "successor", "name": "successor_name"}), on="successor", how="inner")
    found = gone.join(found, on="id", how="inner").sort("id", "relation", "successor")
    is_same = pl.col("relation") == SAME
    by_code = (pl.col("relation") == CODE) & ((pl.col("relation") == CODE).sum().over("id") == 1)
    # SY sorts before "code", so what the release itself says wins.
    merged = found.filter(is_same | by_code).unique("id", keep="first", maintain_order=True)
    mapped = found.join(merged, on="id", how="anti", maintain_order="left")
    lost = gone.join(found, on="id", how="anti", maintain_order="left")
    # The relations of a concept that are no deletion have a successor, which cannot be found here.
    missing = listed.group_by("id").agg((pl.col("relation") != DELETED).any().alias("missing"))
    reason = pl.when("missing").then(pl.lit("successor missing")).otherwise(pl.lit("deleted"))
    lost = lost.join(missing, on="id", how="left", maintain_order="left").select(
        "id", "name", reason=pl.when(pl.col("missing").is_null()).then(pl.lit("not listed")).otherwise(reason)
    )
    both = before.join(after, on="id", how="inner", suffix="_new", maintain_order="left")
    renamed = both.filter(pl.col("name") != pl.col("name_new")).select("id", old_name="name", new_name="name_new")
    added = after.join(before, on="id", how="anti", maintain_order="left")
    counts = {
        "concepts": {"old": len(old), "new": len(new), "in_both": both.height},
        "names": {"old": old.n_names, "new": new.n_names},
        "added": added.height,
        "retired": lost.height,
        "retired_by_reason": _count(lost, "reason"),
        "merged": merged.height,
        "mapped": mapped["id"].n_unique(),
        "mapped_by_relation": _count(mapped, "relation"),
        "renamed": renamed.height,
    }
    return ReleaseDiff(added, lost, merged, mapped, renamed, counts)


def _successors(gone: pl.DataFrame, new: Terminology, retired: pl.DataFrame | None) -> pl.DataFrame:
    """List what the new release says of concepts that are gone."""
    codes = new.concepts.select(successor="id", id=pl.col("codes")).explode("id").drop_nulls("id")
    listed = codes.select("id", pl.lit(CODE).alias("relation"), "successor")
    if retired is not None:
        listed = pl.concat([retired.select(listed.columns), listed])
    return listed.join(gone, on="id", how="semi", maintain_order="left")


def _count(frame: pl.DataFrame, column: str) -> dict[str, int]:
    return dict(frame.group_by(column).len().sort(column).iter_rows())
