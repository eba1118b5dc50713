"""Make a terminology's table of concepts from the atoms of a release."""

from __future__ import annotations

import numpy as np
import polars as pl

from ..columns import CONCEPT_SCHEMA
from ..names import find_repeated
from ..storage import make_lists


def number_concepts(atoms: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """Replace the column CUI by the row of the concept in the terminology, and sort by it.

    atoms (pl.DataFrame): Atoms with the column CUI.
    RETURNS (tuple[pl.Series, pl.DataFrame]): The ids in order, and the atoms with the column `concept`. Atoms of a
        concept keep their order.
    """
    # A release is nearly sorted by concept, so one look-up for each run of equal ids is much faster.
    runs = atoms["CUI"].rle().struct.unnest()
    if runs["value"].is_sorted():
        ids, rows = runs["value"].alias("id"), np.arange(runs.height)
    else:
        ids = runs["value"].unique().sort().alias("id")
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
    concepts = pl.DataFrame([ids, _choose_names(atoms)]).with_row_index("concept")
    columns = dict(columns)
    shown = columns.pop("canonical_name", None)
    if shown is not None:
        first = shown.unique("concept", keep="first", maintain_order=True)
        concepts = concepts.update(first, on="concept", maintain_order="left")
    for name, values in columns.items():
        if isinstance(CONCEPT_SCHEMA[name], pl.List):
            concepts = concepts.with_columns(_make_lists(values, name, len(ids)))
        else:
            first = values.unique("concept", keep="first", maintain_order=True)
            concepts = concepts.join(first, on="concept", how="left", maintain_order="left")
    return concepts.select(CONCEPT_SCHEMA.names()).cast(CONCEPT_SCHEMA)


def _choose_names(atoms: pl.DataFrame) -> pl.Series:
    """Choose the canonical name of each concept: the first atom with the lowest rank. Atoms are sorted by concept."""
    concept = atoms["concept"].to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], concept[1:] != concept[:-1]]))
    # Rank and row in one number, so that the lowest is the first atom of the lowest rank.
    places = (atoms["rank"].to_numpy().astype(np.int64) << 48) | np.arange(atoms.height)
    best = np.minimum.reduceat(places, starts) & ((1 << 48) - 1)
    return atoms["name"].gather(best).alias("canonical_name")


def _make_lists(values: pl.DataFrame, name: str, n_concepts: int) -> pl.Series:
    """List the distinct values of each concept in their order; concepts without any have an empty list."""
    values = values.select("concept", name)
    may_repeat = find_repeated(values)
    is_kept = ~may_repeat
    few = values.filter(pl.Series(may_repeat))
    is_kept[may_repeat] = few.select(pl.struct(pl.all()).is_first_distinct()).to_series().to_numpy()
    values = values.filter(pl.Series(is_kept))
    if not values["concept"].is_sorted():
        values = values.sort("concept", maintain_order=True)
    counts = np.bincount(values["concept"].to_numpy(), minlength=n_concepts)
    return make_lists(values[name], counts).alias(name)
