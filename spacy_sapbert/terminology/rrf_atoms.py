"""Read the atoms of MRCONSO, keeping those that a filter lets through and counting all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import polars as pl

from ..errors import Errors
from ..types import Suppressed
from .rrf_concepts import remap
from .rrf_folder import RrfFolder

COLUMNS = ("CUI", "LAT", "TS", "STT", "ISPREF", "SAB", "TTY", "CODE", "STR", "SRL", "SUPPRESS")
LABELS = ("SAB", "LAT", "TTY")
# Longer names exist (laboratory tests, chemicals), but an encoder sees their beginning only.
LONG = 1000
# What `str.strip` removes. polars' own list leaves the separators U+001C to U+001F where they are.
WHITE_SPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
# As the builder: white space and control characters.
NOT_IN_ID = r"[\s\x00-\x1f\x7f-\x9f]"


@dataclass(frozen=True)
class AtomFilter:
    """Which atoms to keep; None stands for all.

    languages (Collection[str] | None): By LAT.
    sources (Collection[str] | None): By SAB.
    term_types (Collection[str] | None): By TTY.
    suppressed (Suppressed): "keep", or "drop" those with a SUPPRESS other than N.
    max_restriction_level (int | None): By SRL.
    """

    languages: Collection[str] | None = None
    sources: Collection[str] | None = None
    term_types: Collection[str] | None = None
    suppressed: Suppressed = "keep"
    max_restriction_level: int | None = None

    def conditions(self) -> dict[str, pl.Expr]:
        """Write the filter as conditions.

        RETURNS (dict[str, pl.Expr]): By the reason for which an atom that fails it is dropped.
        """
        conditions = {}
        labels = {
            "language": ("LAT", self.languages),
            "source": ("SAB", self.sources),
            "term_type": ("TTY", self.term_types),
        }
        for reason, (column, values) in labels.items():
            if values is not None:
                conditions[reason] = pl.col(column).is_in(sorted(values))
        if self.suppressed == "drop":
            conditions["suppressed"] = pl.col("SUPPRESS") == "N"
        if self.max_restriction_level is not None:
            # A level that is not a number counts as the strictest: what is not known to be free is not passed on.
            level = pl.col("SRL").cast(pl.Int16(), strict=False).fill_null(9)
            conditions["restriction_level"] = level <= self.max_restriction_level
        return conditions

    def check(self, counts: AtomCounts, file: str) -> None:
        """Refuse values that do not occur, which would be spelled wrongly.

        counts (AtomCounts): What was read.
        file (str): Where from.
        RAISES (ValueError): Naming the value and those that there are.
        """
        wanted = {"SAB": self.sources, "LAT": self.languages, "TTY": self.term_types}
        for column, values in wanted.items():
            known = counts.values(column)
            for value in sorted(set(values or ()) - set(known)):
                found = ", ".join(known[:30]) + (", ..." if len(known) > 30 else "")
                raise ValueError(Errors.E125.format(file=file, what=column, value=value, found=found))


@dataclass
class AtomCounts:
    """What was read from MRCONSO.

    ids (pl.Series): All concepts of the release.
    labels (pl.DataFrame): Columns SAB, LAT, TTY, `rows` and `kept`.
    dropped (Counter[str]): Atoms left out, by reason.
    long_names (int): Kept names of more than 1,000 characters.
    """

    ids: pl.Series
    labels: pl.DataFrame
    dropped: Counter[str] = field(default_factory=Counter)
    long_names: int = 0

    def values(self, column: str) -> list[str]:
        """List the values of a label, the most frequent first.

        column (str): "SAB", "LAT" or "TTY".
        RETURNS (list[str]): The values.
        """
        return list(self.by(column))

    def by(self, column: str) -> dict[str, dict[str, int]]:
        """Count rows by the values of a label.

        column (str): "SAB", "LAT" or "TTY".
        RETURNS (dict[str, dict[str, int]]): `rows` and `kept` by value, the most frequent first.
        """
        totals = self.labels.group_by(column).agg(pl.sum("rows", "kept")).sort("rows", column, descending=[True, False])
        return {value: {"rows": rows, "kept": kept} for value, rows, kept in totals.iter_rows()}


def read_atoms(
    folder: RrfFolder,
    wanted: AtomFilter,
    *,
    lower_case: bool,
    retired: pl.DataFrame | None,
    allowed: pl.Series | None,
) -> tuple[pl.DataFrame, AtomCounts]:
    """Read MRCONSO.

    folder (RrfFolder): The release.
    wanted (AtomFilter): Which atoms to keep.
    lower_case (bool): Lower-case names.
    retired (pl.DataFrame | None): Retired concepts to replace.
    allowed (pl.Series | None): Concepts to keep; None for all.
    RETURNS (tuple[pl.DataFrame, AtomCounts]): The atoms, in the order of the file, with the columns CUI, name,
        language, source, term_type, preferred, code and rank (0 for the best name to show); and counts.
    RAISES (ValueError): If the file is damaged, or no atom is left.
    """
    kept, ids, labels = [], [], []
    dropped: Counter[str] = Counter()
    for block in folder.tables("MRCONSO", COLUMNS):
        dropped["bad_id"] += block.height - (block := _with_good_ids(block, folder)).height
        block = remap(block, ("CUI",), retired)
        ids.append(block["CUI"].unique())
        rows = block.height
        all_labels = block.select(LABELS)
        for reason, condition in wanted.conditions().items():
            block = block.filter(condition)
            dropped[reason] += rows - block.height
            rows = block.height
        if allowed is not None:
            block = block.join(allowed.to_frame("CUI"), on="CUI", how="semi", maintain_order="left")
            dropped["semantic_type"] += rows - block.height
            rows = block.height
        block = _as_atoms(block, lower_case)
        dropped["empty_name"] += rows - block.height
        kept.append(block)
        labels.append(_count_labels(all_labels, block))
    counts = AtomCounts(pl.concat(ids).unique(), pl.concat(labels), dropped)
    file = "MRCONSO"
    wanted.check(counts, file)
    atoms = pl.concat(kept)
    if not atoms.height:
        raise ValueError(
            Errors.E124.format(
                file=folder.path / file,
                filters=", ".join(f"{reason}: {n} dropped" for reason, n in dropped.items() if n) or "none",
                languages=", ".join(counts.values("LAT")[:30]),
                sources=", ".join(counts.values("SAB")[:30]),
            )
        )
    counts.long_names = int((atoms["name"].str.len_chars() > LONG).sum())
    return atoms, counts


def _with_good_ids(block: pl.DataFrame, folder: RrfFolder) -> pl.DataFrame:
    """Leave out, or refuse, atoms whose concept id could not be written to a document."""
    is_bad = (pl.col("CUI") == "") | pl.col("CUI").str.contains(NOT_IN_ID)
    bad = block.filter(is_bad)
    if not bad.height:
        return block
    if folder.errors == "raise":
        raise ValueError(Errors.E126.format(file=folder.path / "MRCONSO", id=bad["CUI"][0], name=bad["STR"][0]))
    return block.filter(~is_bad)


def _as_atoms(block: pl.DataFrame, lower_case: bool) -> pl.DataFrame:
    name = pl.col("STR").str.strip_chars(WHITE_SPACE)
    is_best = {column: pl.col(column) == best for column, best in (("TS", "P"), ("STT", "PF"), ("ISPREF", "Y"))}
    # The name to show: English, not suppressed, and the one that UMLS prefers.
    faults = (pl.col("LAT") != "ENG", pl.col("SUPPRESS") != "N", *(~best for best in is_best.values()))
    rank = sum((fault.cast(pl.UInt8()) * 2**place for place, fault in enumerate(reversed(faults))), start=pl.lit(0))
    return block.select(
        "CUI",
        name=name.str.to_lowercase() if lower_case else name,
        language="LAT",
        source="SAB",
        term_type="TTY",
        preferred=pl.all_horizontal(is_best.values()),
        code="CODE",
        rank=rank.cast(pl.UInt8()),
    ).filter(pl.col("name") != "")


def _count_labels(read: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    names = {"source": "SAB", "language": "LAT", "term_type": "TTY"}
    rows = read.group_by(LABELS).len("rows")
    remaining = kept.rename(names).group_by(LABELS).len("kept")
    counts = rows.join(remaining, on=LABELS, how="left").with_columns(pl.col("kept").fill_null(0))
    return counts.cast({"rows": pl.Int64(), "kept": pl.Int64()})
