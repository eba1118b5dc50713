"""Normalize the names of a table, and unite what several rows say of a concept or a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import xor

import numpy as np
import polars as pl

from ..text import normalize_name
from .codes import LESSER_SCOPES, SOURCE_SEPARATOR
from .frames import CONCEPT_SCHEMA, RELATION_SCHEMA, make_lists
from .schemas import NAME_KEY

# Only texts with such a character or two spaces in a row can change: below U+0300, all others are in normal form C.
_MAY_CHANGE = r"[^\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff]|  |^ | $"
# The columns of concepts that have values, and those of names that are united.
_VALUES = CONCEPT_SCHEMA.names()[1:]
_UNITED = ("source", "preferred", "term_type")


def normalize_names(names: pl.Series) -> tuple[pl.Series, int]:
    """Normalize many names at once, and count those that this changes. White space around a name does not count."""
    may_change = names.str.contains(_MAY_CHANGE)
    odd = names.filter(may_change)
    written = odd.unique().to_list()
    normal = [normalize_name(name) for name in written]
    if normal == written:
        return names, 0
    pairs = zip(written, normal, strict=True)
    counted = [name for name, new in pairs if new != name.strip()]
    n_changed = odd.is_in(counted).sum()
    return names.replace(written, normal), n_changed


def list_distinct_names(names: pl.DataFrame, *, lower_case: bool = True) -> pl.DataFrame:
    """List the distinct names of each concept, in any language."""
    name = pl.col("name")
    if lower_case:
        name = name.str.to_lowercase()
    # By concept they are sorted already, so that sorting them is faster than hashing them.
    rows = names.select("concept", name).sort("concept", "name")
    row_before = pl.all().shift()
    is_new = pl.all().ne_missing(row_before)
    return rows.filter(pl.any_horizontal(is_new))


def find_rows(wanted: pl.Series, ids: pl.Series) -> np.ndarray:
    """Look up the rows of ids among distinct ids: int64, or -1 if an id is missing."""
    if len(ids) and wanted.is_sorted() and ids.is_sorted():
        places = ids.search_sorted(wanted).to_numpy().astype(np.int64)
        places = np.minimum(places, len(ids) - 1)
        is_there = (ids.gather(places) == wanted).to_numpy()
        return np.where(is_there, places, -1)
    numbers = np.arange(len(ids), dtype=np.int64)
    rows = pl.DataFrame({"id": ids, "row": numbers})
    asked = pl.DataFrame({"id": wanted})
    matches = asked.join(rows, on="id", how="left", maintain_order="left")
    return matches["row"].fill_null(-1).to_numpy()


def find_repeated(rows: pl.DataFrame) -> pl.Series:
    """Mark all rows that equal another one. By chance, others may be marked too: their hashes are compared, which is
    much faster."""
    of_columns = [rows[name].hash(seed) for seed, name in enumerate(rows.columns)]
    hashes = reduce(xor, of_columns)
    ordered = np.sort(hashes.to_numpy())
    behind = ordered[1:]
    is_repeated = behind == ordered[:-1]
    repeated = pl.Series(behind[is_repeated])
    return hashes.is_in(repeated.implode())


def keep_first(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Keep the first of rows with the same key, in their order."""
    keys = rows.select(key)
    is_repeated = find_repeated(keys)
    repeated = keys.with_row_index("row").filter(is_repeated)
    firsts = repeated.unique(key, keep="first")
    is_first = (~is_repeated).scatter(firsts["row"].sort(), True)
    return rows.filter(is_first)


def sort_by_concept(rows: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by `concept`, those of a concept in their order."""
    # What comes from a release is often sorted, and looking is much faster than sorting.
    if rows["concept"].is_sorted():
        return rows
    return rows.sort("concept", maintain_order=True)


def list_values(values: pl.DataFrame, n_concepts: int) -> pl.Series:
    """List the distinct values of each concept, in the order of the rows: `concept`, a row, and the value."""
    ordered = sort_by_concept(values)
    distinct = keep_first(ordered, values.columns)
    concepts = distinct["concept"].to_numpy()
    n_values = np.bincount(concepts, minlength=n_concepts)
    return make_lists(distinct.drop("concept").to_series(), n_values)


def place_rows(rows: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """Replace the `id` of rows by `concept`, its row among distinct ids. Rows of other ids are left out."""
    places = find_rows(rows["id"], ids)
    concept = pl.Series("concept", places)
    placed = rows.select(concept, pl.exclude("id"))
    is_there = pl.col("concept") >= 0
    return placed.filter(is_there).cast({"concept": pl.UInt32()})


def make_concept_frame(ids: pl.Series, columns: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Make the table of concepts from a table for each of its columns: `concept`, a row of `ids`, and the value. The
    first text of a concept counts, and a list has all its values."""
    n_concepts = len(ids)
    lists = {column: list_values(columns[column], n_concepts) for column in _VALUES}
    concepts = pl.DataFrame({"id": ids, **lists})
    texts = pl.col("canonical_name", "definition")
    return concepts.with_columns(texts.list.first())


def split_columns(concepts: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """List the values of each column of concepts, with the `id`."""
    return {column: _list_rows(concepts, column) for column in _VALUES}


def _list_rows(concepts: pl.DataFrame, column: str) -> pl.DataFrame:
    """List the values of a column of concepts, with the `id`."""
    rows = concepts.select("id", column)
    if rows[column].dtype.is_nested():
        rows = rows.explode(column)
    return rows.drop_nulls()


def unite_concept_frames(ids: pl.Series, columns: Mapping[str, pl.DataFrame]) -> tuple[pl.DataFrame, int]:
    """Make the table of concepts likewise of tables with `id`. Concepts that are their own parents are no parents; they
    are counted."""
    parents = columns["parents"]
    is_self = parents["parents"] == parents["id"]
    n_self = int(is_self.sum())
    others = {**columns, "parents": parents.filter(~is_self)}
    placed = {column: place_rows(rows, ids) for column, rows in others.items()}
    return make_concept_frame(ids, placed), n_self


def unite_rows(tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Unite rows with equal ids, and sort them. The first text of a column counts, and lists are joined. For few rows,
    this is faster than `unite_concept_frames`."""
    texts = pl.col(pl.String()).drop_nulls()
    values = pl.col(pl.List(pl.String())).explode().drop_nulls()
    lists = values.unique(maintain_order=True)
    rows = pl.concat(tables)
    united = rows.group_by("id").agg(texts.first(), lists)
    return united.select(rows.columns).sort("id")


def unite_retired_frames(tables: Iterable[pl.DataFrame], living: pl.Series) -> pl.DataFrame:
    """Unite tables of retired ids. Of several concepts that took an id's place, the first counts. An id that a concept
    has again is not retired."""
    rows = unite_rows(tables)
    places = find_rows(rows["id"], living)
    return rows.filter(places < 0)


def unite_relations(tables: Iterable[tuple[pl.DataFrame, pl.Series]], ids: pl.Series) -> pl.DataFrame:
    """Unite tables of relations, each with the ids that its concepts get. Relations of a concept to itself, and to one
    that is not there, go."""
    parts = [pl.DataFrame(schema=RELATION_SCHEMA)]
    for relations, new_ids in tables:
        if relations.is_empty():
            continue
        places = pl.Series(find_rows(new_ids, ids))
        ends = [places.gather(relations[end]).alias(end) for end in ("head", "tail")]
        head = pl.col("head")
        tail = pl.col("tail")
        is_valid = (head >= 0) & (tail >= 0) & (head != tail)
        placed = relations.with_columns(ends).filter(is_valid)
        parts.append(placed.cast(RELATION_SCHEMA))
    return sort_relations(pl.concat(parts))


def sort_relations(relations: pl.DataFrame) -> pl.DataFrame:
    """Sort relations, each once."""
    columns = RELATION_SCHEMA.names()
    rows = relations.select(columns).cast(RELATION_SCHEMA)
    return rows.unique().sort(columns)


def unite_name_frames(names: pl.DataFrame) -> pl.DataFrame:
    """Keep one row for each distinct name, with all sources that give it. Sources are joined by "|", in the order of
    the rows, each once and without empty ones. A name that all its rows give the same source keeps this source as it
    is. A name is preferred if any of its rows is, and has the first term type that is not a lesser scope, if there is
    one. All other columns are those of the first row."""
    is_repeated = find_repeated(names.select(NAME_KEY))
    if not is_repeated.any():
        return names
    # Of the table, only what changes is copied.
    rows = names.select(*NAME_KEY, *_UNITED).with_row_index("first_row")
    repeated = rows.filter(is_repeated)
    united = repeated.group_by(NAME_KEY, maintain_order=True).agg(
        pl.first("first_row"),
        pl.col("source").unique(maintain_order=True),
        pl.col("preferred").any(),
        _choose_term_type(),
    )
    united = united.with_columns(_join_sources(united["source"]))
    first_rows = united["first_row"]
    changes = [names[column].clone().scatter(first_rows, united[column]) for column in _UNITED]
    is_first = (~is_repeated).scatter(first_rows, True)
    return names.with_columns(changes).filter(is_first)


def _choose_term_type() -> pl.Expr:
    """Choose the first term type that is not a lesser scope, or else the first."""
    term_type = pl.col("term_type")
    scopes = "|".join(LESSER_SCOPES)
    is_lesser = term_type.str.contains(f"^(?:{scopes})(?: |$)")
    greater = term_type.filter(~is_lesser)
    return pl.coalesce(greater.first(), term_type.first())


def _join_sources(sources: pl.Series) -> pl.Series:
    """Join the sources of each name."""
    has_several = sources.list.len() > 1
    joined = sources.filter(has_several).list.join(SOURCE_SEPARATOR)
    parts = joined.str.split(SOURCE_SEPARATOR).list.unique(maintain_order=True)
    part = pl.element()
    filled = parts.list.eval(part.filter(part != ""))
    rows = has_several.arg_true()
    return sources.list.first().scatter(rows, filled.list.join(SOURCE_SEPARATOR))
