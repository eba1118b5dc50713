"""Normalize the names of a table, and unite the rows of a name that several sources give."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ..normalization import normalize_name
from .table import NAME_KEY, SOURCE_SEPARATOR

# Only texts with such a character or two spaces in a row can change: below U+0300, all others are in normal form C.
_MAY_CHANGE = r"[^\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff]|  |^ | $"


def normalize_names(names: pl.Series) -> pl.Series:
    """Normalize many names at once.

    names (pl.Series): The names.
    RETURNS (pl.Series): What `normalize_name` returns for each.
    """
    distinct = names.filter(names.str.contains(_MAY_CHANGE)).unique()
    normal = {name: normalize_name(name) for name in distinct.to_list()}
    changed = {name: new for name, new in normal.items() if name != new}
    return names.replace(list(changed), list(changed.values())) if changed else names


def unite_names(names: pl.DataFrame, key: Sequence[str] = NAME_KEY) -> pl.DataFrame:
    """Keep one row for each distinct name, with all sources that give it.

    Sources are joined by "|", in the order of the rows, each once and without empty ones. A name that all its rows
    give the same source keeps this source as it is. A name is preferred if any of its rows is. All other columns are
    those of the first row.

    names (pl.DataFrame): With the columns of the key, `source` and `preferred`, and any others.
    key (Sequence[str]): The columns that make a name distinct.
    RETURNS (pl.DataFrame): The same columns, in the order of each name's first row.
    """
    others = [column for column in names.columns if column not in (*key, "preferred")]
    # Most names have one source: collecting lists for the others only is several times as fast.
    united = (
        names.with_row_index("first_row")
        .group_by(key)
        .agg(pl.first("first_row", *others), pl.any("preferred"), pl.n_unique("source").alias("n_sources"))
        .sort("first_row")
    )
    several = united.filter(pl.col("n_sources") > 1).select(key)
    if several.height:
        parts = pl.col("source").str.split(SOURCE_SEPARATOR).explode()
        joined = (
            names.join(several, on=key, how="semi", maintain_order="left")
            .group_by(key)
            .agg(parts.filter(parts != "").unique(maintain_order=True).alias("parts"))
            .select(*key, joined=pl.col("parts").list.join(SOURCE_SEPARATOR))
        )
        united = united.join(joined, on=key, how="left", maintain_order="left")
        united = united.with_columns(source=pl.coalesce("joined", "source"))
    return united.select(names.columns)
