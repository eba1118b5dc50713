"""Read the types, definitions, codes and retired ids of a release's concepts."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ..names import normalize_names
from .folder import RrfFolder
from .settings import RrfSettings
from .sources import SourceFilter

# Attributes of MRSAT that `write_rrf` uses: a concept's code in a source without a name of the concept, and a canonical
# name that the flags of MRCONSO cannot mark.
XREF = "XREF"
CANONICAL_NAME = "CANONICAL_NAME"
# In UMLS, all names and codes have a source. `write_rrf` gives this one to names and codes without a source.
NO_SOURCE = "NOSAB"
# In UMLS, the code of an atom without a code in its source.
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
    """Read definitions from MRDEF. Suppressed definitions and those in other languages are left out.

    folder (RrfFolder): The release.
    retired (pl.DataFrame | None): Retired concepts to replace.
    source_filter (SourceFilter): The sources to keep.
    settings (RrfSettings): The languages to keep and the preferred sources of definitions.
    RETURNS (pl.DataFrame): The columns CUI, `definition` and SAB, with the best definition of a concept first.
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
    """Read from MRSAT the codes of sources without names, and canonical names.

    folder (RrfFolder): The release.
    retired (pl.DataFrame | None): Retired concepts to replace.
    RETURNS (tuple[pl.DataFrame, pl.DataFrame]): The columns CUI and `codes`, as "SOURCE:CODE"; and CUI and
        `canonical_name`.
    """
    wanted = pl.col("ATN").is_in([XREF, CANONICAL_NAME])
    table = remap(folder.table("MRSAT", ("CUI", "ATN", "SAB", "ATV")).filter(wanted), ("CUI",), retired)
    code = pl.when(pl.col("SAB") == NO_SOURCE).then("ATV").otherwise(pl.concat_str("SAB", "ATV", separator=":"))
    codes = table.filter(pl.col("ATN") == XREF).select("CUI", codes=code)
    names = table.filter(pl.col("ATN") == CANONICAL_NAME).select("CUI", canonical_name="ATV")
    return codes, names.with_columns(normalize_names(names["canonical_name"]))


def read_retired(folder: RrfFolder, living: pl.Series | None = None) -> pl.DataFrame:
    """Read from MRCUI the retired concepts that were merged into others.

    folder (RrfFolder): The release.
    living (pl.Series | None): The concepts in MRCONSO, which are not retired even if MRCUI lists them.
    RETURNS (pl.DataFrame): The columns `retired` and CUI, the concept that it was merged into. Concepts that were
        deleted, or mapped to broader, narrower or related ones, have no row.
    """
    table = folder.table("MRCUI", ("CUI1", "REL", "CUI2")).filter(pl.col("REL") == "SY", pl.col("CUI2") != "")
    if living is not None:
        table = table.filter(~pl.col("CUI1").is_in(living.implode()))
    merged = dict(table.select("CUI1", "CUI2").iter_rows())
    current = {}
    for start, end in merged.items():
        seen = {start}
        # A concept may have been merged into one that was merged later. Circular merges are left out.
        while end in merged and end not in seen:
            seen.add(end)
            end = merged[end]
        if end not in seen:
            current[start] = end
    schema = {"retired": pl.String(), "CUI": pl.String()}
    return pl.DataFrame({"retired": list(current), "CUI": list(current.values())}, schema=schema)


def remap(table: pl.DataFrame, columns: Sequence[str], retired: pl.DataFrame | None) -> pl.DataFrame:
    """Replace retired concepts by those that they were merged into.

    table (pl.DataFrame): Any table.
    columns (Sequence[str]): Its columns of concept ids.
    retired (pl.DataFrame | None): The table that `read_retired` returned; None to replace nothing.
    RETURNS (pl.DataFrame): The table with current ids.
    """
    if retired is None or not retired.height:
        return table
    return table.with_columns(pl.col(column).replace(retired["retired"], retired["CUI"]) for column in columns)
