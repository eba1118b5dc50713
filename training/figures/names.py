"""Tables of names for figures, and the nearest names of strings, encoders side by side (CODER, tables 6 and 7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.index import exact_search
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.table import SOURCE_SEPARATOR

from .pictures import Vectors

# The papers give no numbers. A concept with fewer names does not show as a group; one with more hides the others.
FEWEST_NAMES = 4
MOST_NAMES = 20
NAMES_OF_TYPE = 40
# How many English names to search, and how many neighbours to show.
MOST_SEARCHED = 50_000
SHOWN = 5
# The mark after a name of the right concept.
MARK = " ✓"


def list_names(
    terminology: Terminology, *, languages: Collection[str] | None = None, sources: Collection[str] | None = None
) -> pl.DataFrame:
    """List the distinct names of each concept and language in lower case, sorted by id, preferred names first.

    The columns are id, concept (its canonical name), name and language.
    """
    names = terminology.names.to_polars()
    if languages is not None:
        names = names.filter(pl.col("language").is_in(list(languages)))
    if sources is not None:
        # A name with several sources has one row.
        own = pl.col("source").str.split(SOURCE_SEPARATOR).list.set_intersection(list(sources))
        names = names.filter(own.list.len() > 0)
    names = names.with_columns(pl.col("name").str.to_lowercase())
    names = names.sort("concept", "language", ~pl.col("preferred"), maintain_order=True)
    names = names.unique(["concept", "language", "name"], keep="first", maintain_order=True)
    id_, title = (
        terminology.concepts.to_polars(column)[column].gather(names["concept"]) for column in ("id", "canonical_name")
    )
    return names.select(id=id_, concept=title, name="name", language="language")


def draw_concepts(names: pl.DataFrame, n: int = 30, *, seed: int = 0) -> pl.DataFrame:
    """Draw concepts with 4 to 20 names each, sorted by id and name.

    Names that several concepts share are left out: no vector could separate them.
    """
    table = names.select("id", "concept", "name").unique().filter(pl.col("id").n_unique().over("name") == 1)
    table = table.sort("id", "name")
    counts = table.group_by("id", maintain_order=True).len()
    eligible = counts.filter(pl.col("len").is_between(FEWEST_NAMES, MOST_NAMES))["id"].to_numpy()
    if not 1 < n <= len(eligible):
        kind = f"have {FEWEST_NAMES} to {MOST_NAMES} names that no other concept has"
        raise ValueError(f"Can't draw {n} concepts: {len(eligible)} {kind}. Ask for fewer (two or more).")
    return table.filter(pl.col("id").is_in(np.random.default_rng(seed).permutation(eligible)[:n].tolist()))


def draw_types(terminology: Terminology, names: pl.DataFrame, n: int, *, seed: int = 0) -> pl.DataFrame:
    """Draw preferred names of concepts of the most frequent semantic types (CODER, figure 3), as `draw_concepts` does.

    Concepts with several types are left out, and so are names that occur with several types.
    """
    types = pl.col("types").list
    has_one = terminology.concepts.to_polars().filter(types.len() == 1)
    typed = has_one.select("id", type=types.first())
    preferred = names.unique("id", keep="first", maintain_order=True)
    table = preferred.join(typed, on="id", how="inner", maintain_order="left")
    table = table.select("type", "name").unique()
    table = table.filter(pl.col("type").n_unique().over("name") == 1).sort("type", "name")
    counts = table.group_by("type", maintain_order=True).len()
    counts = counts.filter(pl.col("len") >= NAMES_OF_TYPE)
    chosen = counts.sort("len", descending=True, maintain_order=True)["type"].head(n)
    if not 1 < n <= len(chosen):
        reason = f"{counts.height} have {NAMES_OF_TYPE} names of their own"
        raise ValueError(f"Can't draw {n} semantic types: {reason}. Ask for fewer, and for two or more.")
    table = table.filter(pl.col("type").is_in(chosen.implode()))
    keys = np.random.default_rng(seed).random(table.height)
    table = table.with_columns(key=pl.Series(keys))
    table = table.filter(pl.col("key").rank().over("type") <= NAMES_OF_TYPE)
    return table.select(id="type", concept="type", name="name")


def limit_concepts(names: pl.DataFrame, limit: int, *, keep: Collection[str] = ()) -> pl.DataFrame:
    """Draw concepts with all their names, up to `limit` names. Those in `keep` are always included."""
    if names.height <= limit:
        return names
    counts = names.group_by("id").len().sort("id")
    counts = counts.with_columns(key=pl.Series(np.random.default_rng(0).random(counts.height)))
    counts = counts.sort(~pl.col("id").is_in(list(keep)), "key")
    chosen = counts.filter((pl.col("len").cum_sum() <= limit) | pl.col("id").is_in(list(keep)))
    return names.filter(pl.col("id").is_in(chosen["id"].implode()))


def find_neighbours(
    vectors: Mapping[str, Vectors], names: pl.DataFrame, queries: Sequence[str], *, k: int = SHOWN
) -> list[dict[str, Any]]:
    """Find the names nearest to each string, one per concept. Returns a table ("title", "columns", "rows") for each.

    The string itself is left out, since every encoder finds it. Names of its own concepts get a mark.
    """
    if not names.height or not queries:
        raise ValueError(f"There is nothing to look up: {len(queries)} strings among {names.height} names.")
    strings, ids = _group(names)
    queries = list(dict.fromkeys(queries))
    written = [_normalise(string) for string in strings]
    own = [{row for row, text in enumerate(written) if text == _normalise(query)} for query in queries]
    right = [{concept for row in rows for concept in ids[row]} for rows in own]
    answers = [_look_up(encode, strings, ids, queries, own, right, k) for encode in vectors.values()]
    among = f"{len(strings):,} names of {names['id'].n_unique():,} concepts"
    return [
        {
            "title": f"Nearest names of “{query}” among {among} (cosine)",
            "columns": ["", *vectors],
            "rows": [[str(rank), *row] for rank, row in enumerate(zip(*columns, strict=True), start=1)],
        }
        for query, *columns in zip(queries, *answers, strict=True)
    ]


def find_translations(
    vectors: Mapping[str, Vectors], names: pl.DataFrame, concept_id: str, *, target: str = "ENG"
) -> dict[str, Any]:
    """Look up a concept's first name in each other language among the names in `target`. The last row counts hits."""
    own = names.filter(pl.col("id") == concept_id)
    asked = own.filter(pl.col("language") != target).unique("language", keep="first", maintain_order=True)
    asked = asked.sort("language")
    n = asked.height
    strings, ids = _group(names.filter(pl.col("language") == target))
    if not n or not strings:
        reason = f"of {concept_id} there are {n} names in other languages"
        raise ValueError(f"There is nothing to look up: {reason}, to find among {len(strings)} in {target}.")
    columns = []
    for encode in vectors.values():
        rows = _look_up(encode, strings, ids, asked["name"].to_list(), [set()] * n, [{concept_id}] * n, 1)
        cells = [cell for (cell,) in rows]
        columns.append([*cells, f"{sum(cell.endswith(MARK) for cell in cells)} of {n}"])
    title = f"Nearest of {len(strings):,} names ({target}) to names of {own['concept'][0]} ({concept_id})"
    first = ([*asked["language"], "Right concept"], [*asked["name"], ""])
    return {
        "title": f"{title} in other languages (cosine)",
        "columns": ["Language", "Name", *vectors],
        "rows": [list(row) for row in zip(*first, *columns, strict=True)],
    }


def _group(names: pl.DataFrame) -> tuple[list[str], list[list[str]]]:
    """List the distinct names, and the ids of each."""
    grouped = names.group_by("name", maintain_order=True).agg(pl.col("id").unique().sort())
    return grouped["name"].to_list(), grouped["id"].to_list()


def _look_up(
    encode: Vectors,
    strings: Sequence[str],
    ids: Sequence[Sequence[str]],
    queries: Sequence[str],
    left_out: Sequence[set[int]],
    right: Sequence[set[str]],
    k: int,
) -> list[list[str]]:
    """Write the k nearest strings of each query, without those that add no concept."""
    nearest = exact_search(encode(strings), encode(queries), len(strings))
    columns = []
    for query, (rows, cosines) in enumerate(zip(*nearest, strict=True)):
        cells: list[str] = []
        concepts: set[str] = set()
        for row, cosine in zip(rows.tolist(), cosines.tolist(), strict=True):
            if len(cells) == k:
                break
            if row not in left_out[query] and not concepts.issuperset(ids[row]):
                cells.append(f"{strings[row]} ({cosine:.2f}){'' if right[query].isdisjoint(ids[row]) else MARK}")
                concepts.update(ids[row])
        columns.append(cells + [""] * (k - len(cells)))
    return columns


def _normalise(text: str) -> str:
    return " ".join(text.casefold().split())
