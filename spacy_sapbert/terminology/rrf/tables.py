"""Make a terminology's table of concepts from the atoms of a release."""

from __future__ import annotations

import numpy as np
import polars as pl

from ..table import CONCEPT_SCHEMA


def number_concepts(atoms: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """Replace the column CUI by the row of the concept in the terminology, and sort by it.

    atoms (pl.DataFrame): Atoms with the column CUI.
    RETURNS (tuple[pl.Series, pl.DataFrame]): The ids in order, and the atoms with the column `concept`. Atoms of a
        concept keep their order.
    """
    ids = atoms["CUI"].unique().sort().alias("id")
    # A release is nearly sorted by concept, so one look-up for each run of equal ids is much faster.
    runs = atoms["CUI"].rle().struct.unnest()
    rows = find_rows(runs["value"], ids)
    concept = pl.Series("concept", np.repeat(rows, runs["len"].to_numpy()), dtype=pl.UInt32())
    atoms = atoms.drop("CUI").with_columns(concept)
    if not concept.is_sorted():
        atoms = atoms.sort("concept", maintain_order=True)
    return ids, atoms


def find_rows(wanted: pl.Series, ids: pl.Series) -> np.ndarray:
    """Look up ids in a sorted column.

    wanted (pl.Series): The ids to look up.
    ids (pl.Series): Distinct ids in order.
    RETURNS (np.ndarray): The row of each id, int64; -1 if it is missing.
    """
    known = pl.DataFrame({"id": ids, "row": np.arange(len(ids), dtype=np.int64)})
    found = pl.DataFrame({"id": wanted}).join(known, on="id", how="left", maintain_order="left")
    return found["row"].fill_null(-1).to_numpy()


def place(table: pl.DataFrame, ids: pl.Series, *columns: str) -> pl.DataFrame:
    """Keep the rows of a table about concepts of the terminology.

    table (pl.DataFrame): A table with the column CUI.
    ids (pl.Series): The concepts of the terminology, in order.
    *columns (str): The columns to keep.
    RETURNS (pl.DataFrame): These columns and `concept`, the concept's row.
    """
    placed = table.select(pl.Series("concept", find_rows(table["CUI"], ids)), *columns).filter(pl.col("concept") >= 0)
    return placed.cast({"concept": pl.UInt32()})


def make_concepts(ids: pl.Series, atoms: pl.DataFrame, columns: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Make the table of concepts.

    ids (pl.Series): The ids of the concepts, in order.
    atoms (pl.DataFrame): Atoms sorted by concept, with `name` and `rank`; the lowest rank is the canonical name.
    columns (dict[str, pl.DataFrame]): The other columns by name: tables of `concept` and the column, with several rows
        for a concept if the column has lists. A `canonical_name` replaces the name of the lowest rank.
    RETURNS (pl.DataFrame): The concepts.
    """
    best = atoms.select("concept", "name", "rank").sort("concept", "rank", maintain_order=True)
    concepts = best.unique("concept", keep="first", maintain_order=True).select(
        ids, pl.col("name").alias("canonical_name"), "concept"
    )
    columns = dict(columns)
    shown = columns.pop("canonical_name", None)
    if shown is not None:
        first = shown.unique("concept", keep="first", maintain_order=True)
        concepts = concepts.update(first, on="concept", maintain_order="left")
    for name, values in columns.items():
        if isinstance(CONCEPT_SCHEMA[name], pl.List):
            values = values.group_by("concept", maintain_order=True).agg(pl.col(name).unique(maintain_order=True))
        else:
            values = values.unique("concept", keep="first", maintain_order=True)
        concepts = concepts.join(values, on="concept", how="left", maintain_order="left")
        if isinstance(CONCEPT_SCHEMA[name], pl.List):
            concepts = concepts.with_columns(pl.col(name).fill_null([]))
    return concepts.select(CONCEPT_SCHEMA.names()).cast(CONCEPT_SCHEMA)
