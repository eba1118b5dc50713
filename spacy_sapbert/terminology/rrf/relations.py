"""Read parents and tradenames from MRREL. In a row, concept 2 has the relation to concept 1."""

from __future__ import annotations

import polars as pl

from ...types import Suppressed, TradenameDirection, Tradenames
from ..columns import NAME_KEY
from .concepts import remap
from .folder import RrfFolder
from .sources import SourceFilter
from .tables import find_rows

# Concept 2 is the parent of concept 1, or its child.
IS_PARENT = (pl.col("REL") == "PAR") | (pl.col("RELA") == "inverse_isa")
IS_CHILD = (pl.col("REL") == "CHD") | (pl.col("RELA") == "isa")
# Concept 2 is a brand of concept 1, or the generic concept of the brand.
TRADENAME_OF, HAS_TRADENAME = "tradename_of", "has_tradename"
IS_TRADENAME = pl.col("RELA").is_in([TRADENAME_OF, HAS_TRADENAME])


def read_relations(
    folder: RrfFolder, retired: pl.DataFrame | None, source_filter: SourceFilter, suppressed: Suppressed
) -> pl.DataFrame:
    """Read the rows of MRREL about parents and tradenames.

    folder (RrfFolder): The release.
    retired (pl.DataFrame | None): Retired concepts to replace.
    source_filter (SourceFilter): The sources to keep.
    suppressed (Suppressed): "keep", or "drop" rows with a SUPPRESS other than N.
    RETURNS (pl.DataFrame): The columns CUI1, REL, CUI2, RELA and SAB, in the order of the file.
    """
    columns = ("CUI1", "REL", "CUI2", "RELA", "SAB")
    wanted = (IS_PARENT | IS_CHILD | IS_TRADENAME) & source_filter.condition()
    if suppressed == "drop":
        wanted = wanted & (pl.col("SUPPRESS") == "N")
    rows = [pl.DataFrame(schema={column: pl.String() for column in columns})]
    if "MRREL" in folder:
        for block in folder.tables("MRREL", (*columns, "SUPPRESS")):
            rows.append(remap(block.filter(wanted).select(columns), ("CUI1", "CUI2"), retired))
    return pl.concat(rows)


def find_parents(relations: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """Find the parents of each concept.

    relations (pl.DataFrame): The rows that `read_relations` returned.
    ids (pl.Series): The concepts of the terminology, in order.
    RETURNS (pl.DataFrame): The columns `concept` (row) and `parents` (id). Concepts outside the terminology and
        concepts that are their own parents are left out. Parents from rows that begin with the child come first, both
        kinds in the order of the file.
    """
    up = relations.filter(IS_PARENT).select(child="CUI1", parents="CUI2")
    down = relations.filter(IS_CHILD).select(child="CUI2", parents="CUI1")
    pairs = pl.concat([up, down]).filter(pl.col("child") != pl.col("parents")).unique(maintain_order=True)
    pairs = pairs.with_columns(
        pl.Series("concept", find_rows(pairs["child"], ids)), pl.Series("parent", find_rows(pairs["parents"], ids))
    )
    known = pairs.filter(pl.col("concept") >= 0, pl.col("parent") >= 0).sort("concept", maintain_order=True)
    return known.select(pl.col("concept").cast(pl.UInt32()), "parents")


def add_tradenames(
    names: pl.DataFrame, relations: pl.DataFrame, ids: pl.Series, mode: Tradenames, direction: TradenameDirection
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Give brands and their generic concepts each other's names. Given names are not passed on.

    names (pl.DataFrame): The distinct names, sorted by concept.
    relations (pl.DataFrame): The rows that `read_relations` returned.
    ids (pl.Series): The concepts of the terminology, in order.
    mode (Tradenames): "union", or "last": the partner in the last row of concept 1 only.
    direction (TradenameDirection): The concepts that are given names: "both", the "generic" or the "brand".
    RETURNS (tuple[pl.DataFrame, dict[str, int]]): The names, sorted by concept, and the numbers of links, concepts
        and names.
    """
    links = _link(relations, ids, mode, direction)
    given = links.join(names, left_on="partner", right_on="concept", how="inner", maintain_order="left")
    # A preferred name of the partner is not a preferred name of this concept.
    given = given.with_columns(preferred=pl.lit(False)).select(names.columns)
    receivers = links.select("concept").unique()
    touched = names.join(receivers, on="concept", how="semi", maintain_order="left")
    others = names.join(receivers, on="concept", how="anti", maintain_order="left")
    enlarged = pl.concat([touched, given]).unique(NAME_KEY, keep="first", maintain_order=True)
    counts = {"links": links.height, "concepts": receivers.height, "names": enlarged.height - touched.height}
    return pl.concat([others, enlarged]).sort("concept", maintain_order=True), counts


def _link(relations: pl.DataFrame, ids: pl.Series, mode: Tradenames, direction: TradenameDirection) -> pl.DataFrame:
    """Make a table of each `concept` (row) that is given names and the `partner` (row) that they come from."""
    rows = relations.filter(IS_TRADENAME)
    rows = rows.select(
        pl.Series("concept", find_rows(rows["CUI1"], ids)),
        pl.Series("partner", find_rows(rows["CUI2"], ids)),
        is_generic=pl.col("RELA") == TRADENAME_OF,
    ).filter(pl.col("concept") >= 0, pl.col("partner") >= 0, pl.col("concept") != pl.col("partner"))
    if mode == "union":
        # A release has each relation in both directions; a part of a release may have only one.
        turned = rows.select(concept="partner", partner="concept", is_generic=~pl.col("is_generic"))
        rows = pl.concat([rows, turned])
    if direction != "both":
        rows = rows.filter(pl.col("is_generic") == (direction == "generic"))
    if mode == "last":
        rows = rows.unique("concept", keep="last", maintain_order=True)
    return rows.select(pl.col("concept", "partner").cast(pl.UInt32())).unique().sort("concept", "partner")
