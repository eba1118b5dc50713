"""Normalize the names of a table, and unite the rows of a name that several sources give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ..text import normalize_name
from .table import NAME_KEY, SOURCE_SEPARATOR

# Only texts with such a character or two spaces in a row can change: below U+0300, all others are in normal form C.
_MAY_CHANGE = r"[^\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff]|  |^ | $"


def normalize_names(names: pl.Series) -> pl.Series:
    """Normalize many names at once."""
    distinct = names.filter(names.str.contains(_MAY_CHANGE)).unique()
    normal = {name: normalize_name(name) for name in distinct.to_list()}
    changed = {name: new for name, new in normal.items() if name != new}
    return names.replace(list(changed), list(changed.values())) if changed else names


def list_distinct_names(names: pl.DataFrame, *, lower_case: bool = True) -> pl.DataFrame:
    """List the distinct names of each concept, whatever their language."""
    name = pl.col("name").str.to_lowercase() if lower_case else pl.col("name")
    # Names are sorted by concept already, so that sorting them is faster than hashing them.
    listed = names.select("concept", name).sort("concept", "name")
    is_repeated = (pl.col("concept") == pl.col("concept").shift()) & (pl.col("name") == pl.col("name").shift())
    return listed.filter(~is_repeated.fill_null(False))


def find_repeated(rows: pl.DataFrame) -> np.ndarray:
    """Find the rows that may occur several times, by their hashes."""
    # A table of about four places for each row is filled with rows: where another one stands, two share a place. This
    # is several times as fast as sorting hashes.
    bits = max(8, (4 * rows.height).bit_length())
    places = (rows.hash_rows().to_numpy() >> np.uint64(64 - bits)).astype(np.int64)
    numbers = np.arange(rows.height, dtype=np.uint32)
    owners = np.zeros(1 << bits, dtype=np.uint32)
    owners[places] = numbers
    is_shared = np.zeros(1 << bits, dtype=bool)
    is_shared[places[owners[places] != numbers]] = True
    is_repeated: np.ndarray = is_shared[places]
    return is_repeated


def unite_names(names: pl.DataFrame, key: Sequence[str] = NAME_KEY) -> pl.DataFrame:
    """Keep one row for each distinct name, with all sources that give it.

    Sources are joined by "|", in the order of the rows, each once and without empty ones. A name that all its rows
    give the same source keeps this source as it is. A name is preferred if any of its rows is. All other columns are
    those of the first row.
    """
    rows, groups = _group_repeated(names.select(key))
    if not len(rows):
        return names
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    kept = np.ones(names.height, dtype=bool)
    kept[np.delete(rows, starts)] = False
    preferred = names["preferred"].to_numpy().copy()
    preferred[rows[starts]] = np.logical_or.reduceat(preferred[rows], starts)
    source = names["source"].gather(rows)
    has_several = np.logical_or.reduceat((source != source.gather(starts).gather(groups)).to_numpy(), starts)
    united = names.with_columns(pl.Series("preferred", preferred))
    if has_several.any():
        table = pl.DataFrame({"row": rows[starts][groups], "part": source}).filter(pl.Series(has_several[groups]))
        # Splitting takes time, and the sources of a release are single ones.
        if table["part"].unique().str.contains(SOURCE_SEPARATOR, literal=True).any():
            table = table.with_columns(pl.col("part").str.split(SOURCE_SEPARATOR)).explode("part")
        joined = (
            table.filter(pl.col("part") != "")
            .unique(maintain_order=True)
            .group_by("row", maintain_order=True)
            .agg(pl.col("part").str.join(SOURCE_SEPARATOR))
        )
        # Where all parts are empty, nothing is joined.
        sources = united["source"].scatter(rows[starts][has_several], "").scatter(joined["row"], joined["part"])
        united = united.with_columns(sources)
    return united.filter(pl.Series(kept))


def _group_repeated(keys: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows whose key occurs several times, sorted by group and row, and number the groups."""
    may_repeat = np.flatnonzero(find_repeated(keys))
    # The groups of these few rows: equal keys have equal hashes, and different keys nearly always different ones.
    few = keys[may_repeat]
    hashes = few.hash_rows().to_numpy()
    order = np.argsort(hashes, kind="stable")
    ordered = few[order]
    is_same = ordered.select(pl.all_horizontal(pl.all() == pl.all().shift()).fill_null(False)).to_series().to_numpy()
    ends = hashes[order][1:] != hashes[order][:-1]
    if len(order) and (is_same[1:] == ends).any():
        # Two keys share a hash: number the keys themselves.
        numbers = few.select(pl.struct(pl.all()).rank("dense")).to_series().to_numpy()
        order = np.argsort(numbers, kind="stable")
        ends = numbers[order][1:] != numbers[order][:-1]
    groups = np.cumsum(np.concatenate([[0], ends])) if len(order) else np.zeros(0, dtype=np.int64)
    return may_repeat[order], groups
