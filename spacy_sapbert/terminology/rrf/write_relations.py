"""Make the rows of MRREL: the parents of concepts, and other relations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from ...errors import Errors
from .relations import HAS_TRADENAME, TRADENAME_OF
from .write_atoms import number
from .write_checks import BREAKS

# `read_rrf` makes parents and names of these. Parents are written by themselves.
TAKEN = ("isa", "inverse_isa", TRADENAME_OF, HAS_TRADENAME)


class Relation(NamedTuple):
    """A relation of two concepts.

    head (str): The id of the concept that has the relation.
    label (str): The relation, RELA, such as "part_of".
    tail (str): The id of the other concept.
    source (str): The source, SAB.
    """

    head: str
    label: str
    tail: str
    source: str


def make_relations(concepts: pl.DataFrame, relations: Iterable[Relation] = ()) -> tuple[pl.DataFrame, dict[str, int]]:
    """Make rows: those that begin with the child, those that begin with the parent, and one for each other relation.

    In a row, concept 2 has the relation to concept 1, as in UMLS.

    concepts (pl.DataFrame): The concepts with `CUI`, `SAB` and `parents`.
    relations (Iterable[Relation]): Other relations. Of equal ones, one is kept; those of a concept with itself are left
        out.
    RETURNS (tuple[pl.DataFrame, dict[str, int]]): The rows, and the numbers of `dangling_parents` and
        `dangling_relations`, which are of other concepts and left out.
    RAISES (ValueError): If one is no relation, a label or a source is empty or has a character that cannot be written,
        or a label is of those that readers take for parents or tradenames.
    """
    known = pl.col("CUI1").is_in(concepts["CUI"].implode()) & pl.col("CUI2").is_in(concepts["CUI"].implode())
    pairs = concepts.select("SAB", CUI1="CUI", CUI2="parents").explode("CUI2").drop_nulls("CUI2")
    up = pairs.filter(known).with_columns(REL=pl.lit("PAR"), RELA=pl.lit("inverse_isa"))
    down = up.select("SAB", CUI1="CUI2", CUI2="CUI1", REL=pl.lit("CHD"), RELA=pl.lit("isa"))
    others = _make_table(relations)
    kept = others.filter(known & (pl.col("CUI1") != pl.col("CUI2"))).with_columns(REL=pl.lit("RO"))
    loops = others.filter(pl.col("CUI1") == pl.col("CUI2")).height
    rows = pl.concat([up, down, kept.select(up.columns)])
    common = {"STYPE1": pl.lit("CUI"), "STYPE2": pl.lit("CUI"), "SL": pl.col("SAB")}
    rows = rows.with_columns(**common, RUI=number("R", pl.int_range(1, pl.len() + 1)))
    counts = {
        "dangling_parents": pairs.height - up.height,
        "dangling_relations": others.height - kept.height - loops,
    }
    return rows, counts


def _make_table(relations: Iterable[Relation]) -> pl.DataFrame:
    """Make a table of distinct relations, and refuse those that would not be read as they are."""
    rows = list(relations)
    wrong = [row for row in rows if not (isinstance(row, tuple) and len(row) == 4 and all(map(_is_text, row)))]
    if wrong:
        reason = "relations are not a head, a label, a tail and a source, with text in each"
        raise ValueError(Errors.E141.format(reason=reason, n=len(wrong), example=wrong[0]))
    schema = {"CUI2": pl.String(), "RELA": pl.String(), "CUI1": pl.String(), "SAB": pl.String()}
    table = pl.DataFrame(rows, schema, orient="row").unique(maintain_order=True)
    broken = pl.col("RELA").str.contains(BREAKS) | pl.col("SAB").str.contains(BREAKS)
    taken = pl.col("RELA").is_in(TAKEN)
    for fault, reason in (
        (broken, "relations have a '|' or a line end in their label or source"),
        (taken, f"relations have one of the labels {', '.join(TAKEN)}, which mean parents or shared names to readers"),
    ):
        odd = table.filter(fault)
        if odd.height:
            raise ValueError(Errors.E141.format(reason=reason, n=odd.height, example=odd.row(0)))
    return table


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
