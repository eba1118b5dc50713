"""Link a column of a table that has labels of laboratories."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..terminology.table import Terminology
from .linking import LaboratoryLink, link_laboratory_items

COLUMNS = ("linked_id", "linked_name", "linked_how", "linked_note", "linked_others")


def link_laboratory_table(
    terminology: Terminology,
    table: pl.DataFrame,
    column: str = "label",
    *,
    specimen_column: str | None = None,
    unit_column: str | None = None,
) -> pl.DataFrame:
    """Link a column of labels of laboratories, as `link_laboratory_items` does.

    terminology (Terminology): LOINC, UMLS with LOINC's names, or a table of long common names.
    table (pl.DataFrame): The table.
    column (str): The column of labels.
    specimen_column (str | None): The column of specimens.
    unit_column (str | None): The column of units.
    RETURNS (pl.DataFrame): The table with `linked_id`, `linked_name`, `linked_how`, `linked_note` and `linked_others`.
        `linked_how` is "name" or "parts"; where nothing is linked "no name", "other parts" if the label contradicts all
        tests of its analyte, "several tests", "unknown specimen", or "empty". `linked_note` says what was read.
    RAISES (ValueError): If there is no such column, it does not hold text, or the table has the new columns already.
    """
    if clashes := set(COLUMNS).intersection(table.columns):
        raise ValueError(f"The table has a column {min(clashes)!r} already. Rename it, or leave it out.")
    labels, specimens, units = (_list_cells(table, name) for name in (column, specimen_column, unit_column))
    links = link_laboratory_items(terminology, labels, specimens, units)
    schema = dict.fromkeys(COLUMNS, pl.String)
    return table.hstack(pl.DataFrame(list(map(_make_cells, links)), schema, orient="row"))


def _list_cells(table: pl.DataFrame, column: str | None) -> list[str]:
    if column is None:
        return [""] * table.height
    if column not in table.columns:
        raise ValueError(f"The table has no column {column!r}. It has: {', '.join(table.columns)}.")
    if table[column].dtype not in (pl.String, pl.Null):
        raise ValueError(f"The column {column!r} holds {table[column].dtype}, but has to hold text.")
    cells: list[str] = table[column].cast(pl.String).fill_null("").to_list()
    return cells


def _make_cells(link: LaboratoryLink) -> tuple[Any, ...]:
    others = "; ".join(f"{test.id} {test.name}" for test in link.others) or None
    test = (link.test.id, link.test.name) if link.test else (None, None)
    return *test, link.how, link.item.describe() or None, others
