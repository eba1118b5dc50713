"""The source vocabularies of a release: what they are, and which of them may be used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from .folder import RrfFolder

# What is not known to be free counts as restricted as what is most.
STRICTEST = 9


def read_sources(folder: RrfFolder) -> dict[str, dict[str, Any]]:
    """Read from MRSAB what the sources are and how far they may be used.

    folder (RrfFolder): The release.
    RETURNS (dict[str, dict[str, Any]]): By source abbreviation: `name`, `version`, `licence`, `language` and
        `restriction_level`, None where it is not given. UMLS's levels are 0 (none beyond UMLS's own licence) to 4, and
        9 (SNOMED CT).
    """
    columns = ("RSAB", "SON", "SVER", "SLC", "SRL", "LAT", "CURVER")
    sources = {}
    for row in folder.table("MRSAB", columns).iter_rows(named=True):
        if row["CURVER"] not in ("", "Y"):
            continue
        sources[row["RSAB"]] = {
            "name": row["SON"],
            "version": row["SVER"],
            "licence": row["SLC"],
            "language": row["LAT"],
            "restriction_level": parse_level(row["SRL"]),
        }
    return sources


def parse_level(text: str) -> int | None:
    """Read a restriction level.

    text (str): SRL, as in the file.
    RETURNS (int | None): The level; None if it is not a number.
    """
    return int(text) if text.strip().isdigit() else None


@dataclass(frozen=True)
class SourceFilter:
    """Which sources may give anything: names, definitions or relations.

    wanted (Collection[str] | None): The sources to keep; None for all.
    max_level (int | None): The highest restriction level to keep; None for all.
    sources (Mapping[str, Mapping[str, Any]]): What is known of the sources.
    """

    wanted: Collection[str] | None = None
    max_level: int | None = None
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def condition(self) -> pl.Expr:
        """Write the filter as a condition on the column SAB.

        RETURNS (pl.Expr): True where a row may be used.
        """
        condition = pl.lit(True) if self.wanted is None else pl.col("SAB").is_in(sorted(self.wanted))
        if self.max_level is None:
            return condition
        free = [name for name, source in self.sources.items() if _level(source) <= self.max_level]
        return condition & pl.col("SAB").is_in(sorted(free))


def describe_used(
    used: Collection[str], sources: Mapping[str, dict[str, Any]], levels: Mapping[str, int | None]
) -> dict[str, dict[str, Any]]:
    """Describe the sources that something was taken from, those that MRSAB does not tell of as well.

    used (Collection[str]): Their abbreviations.
    sources (Mapping[str, dict[str, Any]]): What `read_sources` gave.
    levels (Mapping[str, int | None]): Restriction levels as the atoms give them.
    RETURNS (dict[str, dict[str, Any]]): As `read_sources`, sorted.
    """
    described = {}
    for name in sorted(used):
        source = {"name": name, "version": "", "licence": "", "language": "", **sources.get(name, {})}
        if source.get("restriction_level") is None:
            source["restriction_level"] = levels.get(name)
        described[name] = source
    return described


def _level(source: Mapping[str, Any]) -> int:
    level = source.get("restriction_level")
    return STRICTEST if level is None else level
