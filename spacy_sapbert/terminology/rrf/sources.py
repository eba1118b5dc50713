"""Read and filter the source vocabularies of a release."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import polars as pl

from ..licences import Source
from .folder import RrfFolder


def read_sources(folder: RrfFolder) -> dict[str, Source]:
    """Read the current sources of a release from MRSAB.

    folder (RrfFolder): The release.
    RETURNS (dict[str, Source]): The sources by abbreviation.
    """
    columns = ("RSAB", "SON", "SVER", "SLC", "SRL", "LAT", "CURVER")
    sources = {}
    for row in folder.table("MRSAB", columns).iter_rows(named=True):
        if row["CURVER"] not in ("", "Y"):
            continue
        sources[row["RSAB"]] = Source(row["SON"], row["SVER"], row["SLC"], row["LAT"], parse_level(row["SRL"]))
    return sources


def read_version(folder: RrfFolder) -> str:
    """Read the version of a release from MRDOC, such as "2017AA" for UMLS.

    folder (RrfFolder): The release.
    RETURNS (str): The version; empty if the release has no MRDOC, or it does not say.
    """
    rows = folder.table("MRDOC", ("DOCKEY", "VALUE", "EXPL"))
    found = rows.filter((pl.col("DOCKEY") == "RELEASE") & (pl.col("VALUE") == "umls.release.name"))
    return str(found["EXPL"][0]).strip() if found.height else ""


def parse_level(text: str) -> int | None:
    """Read a restriction level.

    text (str): The field SRL.
    RETURNS (int | None): The level; None if the field is not a number.
    """
    return int(text) if text.strip().isdigit() else None


@dataclass(frozen=True)
class SourceFilter:
    """The sources whose names, definitions and relations are kept.

    wanted (Collection[str] | None): The sources to keep; None for all.
    max_level (int | None): The highest restriction level to keep; None for all.
    sources (Mapping[str, Source]): The known sources by abbreviation.
    """

    wanted: Collection[str] | None = None
    max_level: int | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)

    def condition(self) -> pl.Expr:
        """Express the filter as a condition on the column SAB.

        RETURNS (pl.Expr): True for rows of a source that is kept.
        """
        condition = pl.lit(True) if self.wanted is None else pl.col("SAB").is_in(sorted(self.wanted))
        if self.max_level is None:
            return condition
        free = [name for name, source in self.sources.items() if source.strictness <= self.max_level]
        return condition & pl.col("SAB").is_in(sorted(free))


def describe_used(
    used: Collection[str], sources: Mapping[str, Source], levels: Mapping[str, int | None]
) -> dict[str, Source]:
    """Describe the sources that are used, including those that MRSAB does not list.

    used (Collection[str]): The abbreviations of the sources.
    sources (Mapping[str, Source]): The sources that `read_sources` returned.
    levels (Mapping[str, int | None]): Restriction levels according to the atoms, for sources without one in MRSAB.
    RETURNS (dict[str, Source]): The sources by abbreviation, sorted.
    """
    described = {}
    for abbreviation in sorted(used):
        source = sources.get(abbreviation, Source(abbreviation))
        if source.restriction_level is None:
            source = source._replace(restriction_level=levels.get(abbreviation))
        described[abbreviation] = source
    return described
