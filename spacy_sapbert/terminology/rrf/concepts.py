"""What a release says of its concepts beside their names: types, definitions, codes, retired ids."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from .folder import RrfFolder
from .settings import RrfSettings
from .sources import SourceFilter

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


def read_definitions(
    folder: RrfFolder, retired: pl.DataFrame | None, source_filter: SourceFilter, settings: RrfSettings
) -> pl.DataFrame:
    """Read definitions from MRDEF, without suppressed ones and those in languages that are not wanted.

    folder (RrfFolder): The release.
    retired (pl.DataFrame | None): Retired concepts to replace.
    source_filter (SourceFilter): Which sources to use.
    settings (RrfSettings): Languages, and sources whose definitions come first.
    RETURNS (pl.DataFrame): The columns CUI, `definition` and SAB, of each concept the best first.
    """
    table = remap(folder.table("MRDEF", ("CUI", "SAB", "DEF", "SUPPRESS")), ("CUI",), retired)
    table = table.with_columns(pl.col("DEF").str.strip_chars())
    table = table.filter(pl.col("SUPPRESS") == "N", pl.col("DEF") != "", source_filter.condition())
    if settings.languages is not None:
        languages = {name: source.language for name, source in source_filter.sources.items()}
        foreign = [name for name, language in languages.items() if language and language not in settings.languages]
        table = table.filter(~pl.col("SAB").is_in(foreign))
    preferred = list(dict.fromkeys(settings.definition_sources))
    rank = pl.lit(0)
    if preferred:
        rank = pl.col("SAB").replace_strict(preferred, range(len(preferred)), default=len(preferred))
    table = table.with_columns(rank=rank).sort("rank", maintain_order=True)
    return table.select("CUI", "SAB", definition="DEF")


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


def read_retired(folder: RrfFolder, living: pl.Series | None = None) -> pl.DataFrame:
    """Read from MRCUI which retired concepts were merged into which others.

    folder (RrfFolder): The release.
    living (pl.Series | None): The concepts that MRCONSO has: whatever MRCUI says, these are not retired.
    RETURNS (pl.DataFrame): The columns `retired` and CUI: the concept that it is now part of. Concepts that were
        deleted, or mapped to broader, narrower or related ones, have no row.
    """
    table = folder.table("MRCUI", ("CUI1", "REL", "CUI2")).filter(pl.col("REL") == "SY", pl.col("CUI2") != "")
    if living is not None:
        table = table.filter(~pl.col("CUI1").is_in(living.implode()))
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
