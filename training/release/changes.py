"""Compare two releases of a terminology: added, retired, merged, mapped and renamed concepts."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import polars as pl

from spacy_sapbert.files import fill_folder
from spacy_sapbert.terminology import Terminology, read_rrf
from spacy_sapbert.terminology.readers.rrf import read_changes, read_retired
from spacy_sapbert.terminology.readers.rrf_lines import RrfFolder

REPORT = "report.json"
# Relations of MRCUI: the concept was merged into a synonymous one, or deleted. Others are RO, RB and RN.
SAME, DELETED = "SY", "DEL"
# The old id is a code of a new concept, such as an alternative id in OBO or an id replaced by `merge`.
CODE = "code"


@dataclass(frozen=True)
class ReleaseDiff:
    """The changes from one release to the next. All tables are sorted by id."""

    added: pl.DataFrame
    """New concepts: id, name."""
    retired: pl.DataFrame
    """Concepts without a successor in the new release: id, name, reason: "deleted", "not listed", or "successor
    missing" if the new release (or the part that was read) lacks the successor."""
    merged: pl.DataFrame
    """Concepts merged into another one: id, name, relation, successor, successor_name."""
    mapped: pl.DataFrame
    """Retired concepts with related ones, one row for each pair: the same columns."""
    renamed: pl.DataFrame
    """Concepts with another canonical name: id, old_name, new_name."""
    counts: dict[str, Any]
    """The number of concepts of each kind, as plain JSON data."""

    def to_disk(self, path: str | Path) -> None:
        """Write one TSV table with a header for each kind of change, and the counts as `report.json`."""
        with fill_folder(Path(path), last=REPORT) as folder:
            for field in fields(self):
                frame = getattr(self, field.name)
                if isinstance(frame, pl.DataFrame):
                    # The table has no quoting: a tab or line end in a name would break it.
                    texts = frame.with_columns(pl.col(pl.String).str.replace_all(r"[\t\n\r]+", " "))
                    texts.write_csv(folder / f"{field.name}.tsv", separator="\t", quote_style="never")
            (folder / REPORT).write_text(json.dumps(self.counts, indent=2) + "\n", encoding="utf8")


def diff_releases(
    old_folder: str | Path, new_folder: str | Path, *, languages: Collection[str] | None = ("ENG",)
) -> ReleaseDiff:
    """Compare two releases in Rich Release Format. MRCUI of the new release gives the successors."""
    old, new = (read_rrf(path, languages=languages, tradenames="off") for path in (old_folder, new_folder))
    return diff_terminologies(old, new, retired=read_successors(new_folder))


def read_successors(folder: str | Path) -> pl.DataFrame:
    """Read the successors of retired concepts from MRCUI: id, relation and successor (empty if there is none)."""
    release = RrfFolder(folder)
    if "MRCUI" not in release:
        warnings.warn(
            f"{release.path} has no MRCUI, which lists the successors of retired concepts. Concepts missing from the "
            "new release count as retired, unless another has their id as a code. Copy MRCUI.RRF there.",
            stacklevel=2,
        )
    # Chains of merged concepts are followed to their ends.
    merged = read_retired(release).select(id="retired", relation=pl.lit(SAME), successor="CUI")
    rows = read_changes(release).filter(pl.col("REL") != SAME)
    others = rows.select(id="CUI1", relation="REL", successor="CUI2")
    return pl.concat([merged, others]).unique(maintain_order=True)


def diff_terminologies(old: Terminology, new: Terminology, retired: pl.DataFrame | None = None) -> ReleaseDiff:
    """Compare two releases of a terminology.

    A concept missing from the new release was merged into another one if `retired` has it with the relation "SY", or if
    exactly one concept of the new release has its id as a code.
    """
    before, after = (t.concepts.select("id", name="canonical_name") for t in (old, new))
    gone = before.join(after, on="id", how="anti", maintain_order="left")
    listed = _successors(gone, new, retired)
    found = listed.join(after.rename({"id": "successor", "name": "successor_name"}), on="successor", how="inner")
    found = gone.join(found, on="id", how="inner").sort("id", "relation", "successor")
    is_same = pl.col("relation") == SAME
    by_code = (pl.col("relation") == CODE) & ((pl.col("relation") == CODE).sum().over("id") == 1)
    # SY sorts before "code", so successors from MRCUI win.
    merged = found.filter(is_same | by_code).unique("id", keep="first", maintain_order=True)
    mapped = found.join(merged, on="id", how="anti", maintain_order="left")
    lost = gone.join(found, on="id", how="anti", maintain_order="left")
    # Any relation other than a deletion has a successor, which the new release lacks.
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
    """List the relations and successors of the missing concepts, from MRCUI and from codes."""
    codes = new.concepts.select(successor="id", id=pl.col("codes")).explode("id").drop_nulls("id")
    listed = codes.select("id", pl.lit(CODE).alias("relation"), "successor")
    if retired is not None:
        listed = pl.concat([retired.select(listed.columns), listed])
    return listed.join(gone, on="id", how="semi", maintain_order="left")


def _count(frame: pl.DataFrame, column: str) -> dict[str, int]:
    return dict(frame.group_by(column).len().sort(column).iter_rows())
