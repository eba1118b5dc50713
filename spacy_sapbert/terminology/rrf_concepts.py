"""What a release says of its concepts beside their names: types, definitions, codes, sources, retired ids."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import polars as pl

from ..errors import Errors
from .rrf_folder import RrfFolder

# Attributes of MRSAT that the writer of this package uses: the code of a concept in a source that gives it no name, and
# the name to show where no flag of MRCONSO can point to it.
XREF = "XREF"
CANONICAL_NAME = "CANONICAL_NAME"
# UMLS has no names and codes without a source. The writer gives those of a terminology this one.
NO_SOURCE = "NOSAB"
# UMLS's own word for an atom without a code in its source.
NO_CODE = "NOCODE"


def read_types(folder: RrfFolder, retired: pl.DataFrame | None) -> pl.DataFrame:
    """Read semantic types from MRSTY.

    folder (RrfFolder): The release.
    retired (pl.DataFrame | None): Retired concepts to replace.
    RETURNS (pl.DataFrame): The columns CUI, TUI and STY.
    """
    return remap(folder.table("MRSTY", ("CUI", "TUI", "STY")), ("CUI",), retired)


def find_concepts_of_types(types: pl.DataFrame, wanted: Collection[str] | None, folder: RrfFolder) -> pl.Series | None:
    """Find the concepts that have one of some semantic types.

    types (pl.DataFrame): What `read_types` gave.
    wanted (Collection[str] | None): The types (TUI); None for all.
    folder (RrfFolder): Where they were read.
    RETURNS (pl.Series | None): Their CUIs; None for all concepts.
    RAISES (ValueError): If a type does not occur.
    """
    if wanted is None:
        return None
    known = types["TUI"].value_counts(sort=True)["TUI"].to_list()
    for value in sorted(set(wanted) - set(known)):
        found = ", ".join(known[:30]) + (", ..." if len(known) > 30 else "")
        raise ValueError(Errors.E125.format(file=folder.path / "MRSTY", what="semantic type", value=value, found=found))
    return types.filter(pl.col("TUI").is_in(sorted(wanted)))["CUI"].unique()


def read_definitions(folder: RrfFolder, retired: pl.DataFrame | None, preferred: Sequence[str]) -> pl.DataFrame:
    """Read definitions from MRDEF, without suppressed ones.

    folder (RrfFolder): The release.
    retired (pl.DataFrame | None): Retired concepts to replace.
    preferred (Sequence[str]): Sources whose definitions come first.
    RETURNS (pl.DataFrame): The columns CUI and DEF, of each concept the best first.
    """
    table = remap(folder.table("MRDEF", ("CUI", "SAB", "DEF", "SUPPRESS")), ("CUI",), retired)
    rank = pl.col("SAB").replace_strict(list(preferred), range(len(preferred)), default=len(preferred))
    table = table.with_columns(pl.col("DEF").str.strip_chars(), rank=rank if preferred else pl.lit(0))
    table = table.filter(pl.col("SUPPRESS") == "N", pl.col("DEF") != "")
    return table.sort("rank", maintain_order=True).select("CUI", "DEF")


def read_xrefs(folder: RrfFolder, retired: pl.DataFrame | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read from MRSAT the codes of sources that give no names, and names to show.

    folder (RrfFolder): The release.
    retired (pl.DataFrame | None): Retired concepts to replace.
    RETURNS (tuple[pl.DataFrame, pl.DataFrame]): The columns CUI and `codes`, as "SOURCE:CODE"; and CUI and
        `canonical_name`.
    """
    wanted = pl.col("ATN").is_in([XREF, CANONICAL_NAME])
    table = remap(folder.table("MRSAT", ("CUI", "ATN", "SAB", "ATV")).filter(wanted), ("CUI",), retired)
    code = pl.when(pl.col("SAB") == NO_SOURCE).then("ATV").otherwise(pl.concat_str("SAB", "ATV", separator=":"))
    codes = table.filter(pl.col("ATN") == XREF).select("CUI", codes=code)
    return codes, table.filter(pl.col("ATN") == CANONICAL_NAME).select("CUI", canonical_name="ATV")


def read_sources(folder: RrfFolder) -> dict[str, dict[str, Any]]:
    """Read from MRSAB what the sources are and how far they may be used.

    folder (RrfFolder): The release.
    RETURNS (dict[str, dict[str, Any]]): By source abbreviation: `name`, `version`, `licence` and `restriction_level`,
        None where it is not given. UMLS's levels are 0 (none beyond UMLS's own licence) to 4, and 9 (SNOMED CT).
    """
    columns = ("RSAB", "SON", "SVER", "SLC", "SRL", "CURVER")
    sources = {}
    for row in folder.table("MRSAB", columns).iter_rows(named=True):
        if row["CURVER"] not in ("", "Y"):
            continue
        level = row["SRL"].strip()
        sources[row["RSAB"]] = {
            "name": row["SON"],
            "version": row["SVER"],
            "licence": row["SLC"],
            "restriction_level": int(level) if level.isdigit() else None,
        }
    return sources


def read_retired(folder: RrfFolder) -> pl.DataFrame:
    """Read from MRCUI which retired concepts were merged into which others.

    folder (RrfFolder): The release.
    RETURNS (pl.DataFrame): The columns `retired` and CUI: the concept that it is now part of. Concepts that were
        deleted, or mapped to broader, narrower or related ones, have no row.
    """
    table = folder.table("MRCUI", ("CUI1", "REL", "CUI2")).filter(pl.col("REL") == "SY", pl.col("CUI2") != "")
    merged = dict(table.select("CUI1", "CUI2").iter_rows())
    current = {}
    for start, end in merged.items():
        seen = {start}
        # A concept may have been merged into one that was merged later. Circles lead nowhere and are left out.
        while end in merged and end not in seen:
            seen.add(end)
            end = merged[end]
        if end not in seen:
            current[start] = end
    schema = {"retired": pl.String(), "CUI": pl.String()}
    return pl.DataFrame({"retired": list(current), "CUI": list(current.values())}, schema=schema)


def remap(table: pl.DataFrame, columns: Sequence[str], retired: pl.DataFrame | None) -> pl.DataFrame:
    """Replace retired concepts by those they were merged into.

    table (pl.DataFrame): Any table.
    columns (Sequence[str]): Its columns of concept ids.
    retired (pl.DataFrame | None): What `read_retired` gave; None to leave all as it is.
    RETURNS (pl.DataFrame): The table.
    """
    if retired is None or not retired.height:
        return table
    return table.with_columns(pl.col(column).replace(retired["retired"], retired["CUI"]) for column in columns)
