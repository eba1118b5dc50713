"""Make a terminology of data frames."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from .builder import complete
from .frames import NAME_SCHEMA
from .names import (
    normalize_names,
    place_rows,
    sort_by_concept,
    unite_concept_frames,
    unite_name_frames,
    unite_retired_frames,
)
from .rows import Table
from .schemas import CONCEPTS, NAMES, RELATIONS, RETIRED
from .table import Terminology


def assemble(
    names: pl.DataFrame,
    columns: Mapping[str, pl.DataFrame],
    retired: pl.DataFrame,
    n_concepts: int,
    report: Mapping[str, Any],
) -> Terminology:
    """Make a terminology of long tables: names, a table for each column of concepts, and retired ids, all with `id`.
    Names are normalized. Duplicate names and concepts without names are dropped and counted."""
    normal, n_normalized = normalize_names(names["name"])
    given = names.with_columns(normal).filter(pl.col("name") != "")
    ids = given["id"].unique().sort()
    united = unite_name_frames(sort_by_concept(place_rows(given, ids)))
    concepts, n_self_parents = unite_concept_frames(ids, columns)
    # Without a canonical name, the first preferred name counts, or else the first one.
    best = united.sort("concept", ~pl.col("preferred"), maintain_order=True).unique(
        "concept", keep="first", maintain_order=True
    )
    concepts = concepts.with_columns(pl.col("canonical_name").fill_null(best["name"]))
    dropped = {
        "empty_names": names.height - given.height,
        "duplicate_names": given.height - united.height,
        "concepts_without_names": n_concepts - len(ids),
        "self_parents": n_self_parents,
    }
    counts = {"dropped": {**report.get("dropped", {}), **dropped}, "normalized_names": n_normalized}
    gone = unite_retired_frames([_choose_successors(retired)], ids)
    return complete_frames(concepts, united, gone, {**report, **counts})


def _choose_successors(retired: pl.DataFrame) -> pl.DataFrame:
    """Of several concepts that took an id's place, nobody knows which is meant, so they are to be considered."""
    both = pl.col("replaced_by", "consider").explode().drop_nulls().unique(maintain_order=True)
    rows = retired.group_by("id").agg(both)
    is_one, several = pl.col("replaced_by").list.len() == 1, pl.concat_list("replaced_by", "consider")
    return rows.select(
        "id",
        replaced_by=pl.when(is_one).then(pl.col("replaced_by").list.first()),
        consider=pl.when(is_one).then("consider").otherwise(several.list.unique(maintain_order=True)),
    )


def complete_frames(
    concepts: pl.DataFrame,
    names: pl.DataFrame,
    retired: pl.DataFrame,
    report: Mapping[str, Any],
    relations: pl.DataFrame | None = None,
) -> Terminology:
    """Make a terminology of data frames with the columns of its tables, and maybe others, and count in its report what
    they have and the parents that they lack."""
    parents = concepts["parents"].explode().drop_nulls()
    return complete(
        Table.from_polars(concepts, CONCEPTS),
        Table.from_polars(names.select(NAME_SCHEMA.names()), NAMES),
        Table.from_polars(retired, RETIRED),
        report,
        None if relations is None else Table.from_polars(relations, RELATIONS),
        n_dangling=int((~parents.is_in(concepts["id"].implode())).sum()),
    )
