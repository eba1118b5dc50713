"""Tables of names for figures, and the nearest names of strings, encoders side by side (CODER, tables 6 and 7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.index import exact_search
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.table import SOURCE_SEPARATOR

from .pictures import Vectors, compute_vectors

# The papers give no numbers. With fewer names a concept is no group to see, with more it hides the others.
FEWEST_NAMES, MOST_NAMES = 4, 20
NAMES_OF_TYPE = 40
# The mark after a name of the right concept.
MARK = " ✓"

TextTable = dict[str, Any]


def list_names(
    terminology: Terminology, *, languages: Collection[str] | None = None, sources: Collection[str] | None = None
) -> pl.DataFrame:
    """List the distinct names of each concept and language, in lower case: the columns id, concept (its canonical
    name), name and language, sorted by id; of each language the preferred names stand first.
    """
    names = terminology.names
    if languages is not None:
        names = names.filter(pl.col("language").is_in(list(languages)))
    if sources is not None:
        # A name that several sources have is there once.
        own = pl.col("source").str.split(SOURCE_SEPARATOR).list.set_intersection(list(sources))
        names = names.filter(own.list.len() > 0)
    names = names.with_columns(pl.col("name").str.to_lowercase())
    names = names.sort("concept", "language", ~pl.col("preferred"), maintain_order=True)
    names = names.unique(["concept", "language", "name"], keep="first", maintain_order=True)
    concepts = terminology.concepts
    id_, title = (concepts[column].gather(names["concept"]) for column in ("id", "canonical_name"))
    return names.select(id=id_, concept=title, name="name", language="language")


def draw_concepts(names: pl.DataFrame, n: int = 30, *, seed: int = 0, most: int = MOST_NAMES) -> pl.DataFrame:
    """Draw concepts of 4 to `most` names, with all of them, sorted by id and name.

    Names that several of them have are excluded: no vector tells them apart.
    """
    table = names.select("id", "concept", "name").unique().filter(pl.col("id").n_unique().over("name") == 1)
    table = table.sort("id", "name")
    counts = table.group_by("id", maintain_order=True).len()
    eligible = counts.filter(pl.col("len").is_between(FEWEST_NAMES, most))["id"].to_numpy()
    if not 1 < n <= len(eligible):
        kind = f"have {FEWEST_NAMES} to {most} names that no other concept has"
        raise ValueError(f"Can't draw {n} concepts: {len(eligible)} {kind}. Ask for fewer (two or more).")
    return table.filter(pl.col("id").is_in(np.random.default_rng(seed).permutation(eligible)[:n].tolist()))


def draw_types(
    terminology: Terminology, names: pl.DataFrame, n: int, *, n_names: int = NAMES_OF_TYPE, seed: int = 0
) -> pl.DataFrame:
    """Draw preferred names of concepts of the most frequent semantic types (CODER, figure 3), as of `draw_concepts`.

    Concepts with several types are left out, and names that concepts of several types have.
    """
    typed = terminology.concepts.filter(pl.col("types").list.len() == 1).select("id", type=pl.col("types").list.first())
    preferred = names.unique("id", keep="first", maintain_order=True)
    table = preferred.join(typed, on="id", how="inner", maintain_order="left").select("type", "name").unique()
    table = table.filter(pl.col("type").n_unique().over("name") == 1).sort("type", "name")
    counts = table.group_by("type", maintain_order=True).len().filter(pl.col("len") >= n_names)
    chosen = counts.sort("len", descending=True, maintain_order=True)["type"].head(n)
    if not 1 < n <= len(chosen):
        reason = f"{counts.height} have {n_names} names of their own"
        raise ValueError(f"Can't draw {n} semantic types: {reason}. Ask for fewer, and for two or more.")
    table = table.filter(pl.col("type").is_in(chosen.implode()))
    table = table.with_columns(key=pl.Series(np.random.default_rng(seed).random(table.height)))
    table = table.filter(pl.col("key").rank().over("type") <= n_names)
    return table.select(id="type", concept="type", name="name")


def limit_concepts(names: pl.DataFrame, limit: int, *, seed: int = 0, keep: Collection[str] = ()) -> pl.DataFrame:
    """Draw concepts with all their names, up to a number of names (0 for all). Concepts in `keep` are among them."""
    if not 0 < limit < names.height:
        return names
    counts = names.group_by("id").len().sort("id")
    counts = counts.with_columns(key=pl.Series(np.random.default_rng(seed).random(counts.height)))
    counts = counts.sort(~pl.col("id").is_in(list(keep)), "key")
    taken = counts.filter((pl.col("len").cum_sum() <= limit) | pl.col("id").is_in(list(keep)))
    return names.filter(pl.col("id").is_in(taken["id"].implode()))


def find_neighbours(
    vectors: Mapping[str, Vectors], names: pl.DataFrame, queries: Sequence[str], *, k: int = 5
) -> list[TextTable]:
    """Find the nearest names of strings, one of each concept: a table for each string ("title", "columns", "rows").

    Names written as the string itself, but for case, are excluded: every encoder finds them. Names of its concepts have
    a mark.
    """
    if not names.height or not queries:
        raise ValueError(f"There is nothing to look up: {len(queries)} strings among {names.height} names.")
    strings, ids = _group(names)
    written = [_normalise(string) for string in strings]
    cells: dict[str, list[list[str]]] = {query: [] for query in queries}
    for label, single in vectors.items():
        dictionary = compute_vectors(label, single, strings)
        for query, vector in zip(cells, compute_vectors(label, single, list(cells)), strict=True):
            own = {row for row, text in enumerate(written) if text == _normalise(query)}
            right = {concept for row in own for concept in ids[row]}
            found = _find_distinct(dictionary, vector, ids, own, k)
            column = [_show(strings[row], cosine, ids[row], right) for row, cosine in found]
            cells[query].append(column + [""] * (k - len(column)))
    among = f"{len(strings):,} names of {names['id'].n_unique():,} concepts"
    return [
        {
            "title": f"Nearest names of “{query}” among {among} (cosine)",
            "columns": ["", *vectors],
            "rows": [[str(rank), *row] for rank, row in enumerate(zip(*columns, strict=True), start=1)],
        }
        for query, columns in cells.items()
    ]


def find_translations(
    vectors: Mapping[str, Vectors], names: pl.DataFrame, concept_id: str, *, target: str = "ENG"
) -> TextTable:
    """Find the nearest name in a language for a concept's first name in each other one. The last row counts hits."""
    own = names.filter(pl.col("id") == concept_id)
    asked = own.filter(pl.col("language") != target).unique("language", keep="first", maintain_order=True)
    asked = asked.sort("language")
    strings, ids = _group(names.filter(pl.col("language") == target))
    if not asked.height or not strings:
        reason = f"of {concept_id} there are {asked.height} names in other languages"
        raise ValueError(f"There is nothing to look up: {reason}, to find among {len(strings)} in {target}.")
    columns, counts = [], []
    for label, single in vectors.items():
        found, scores = exact_search(
            compute_vectors(label, single, strings), compute_vectors(label, single, asked["name"].to_list()), 1
        )
        best = list(zip(found[:, 0].tolist(), scores[:, 0].tolist(), strict=True))
        columns.append([_show(strings[row], cosine, ids[row], {concept_id}) for row, cosine in best])
        counts.append(f"{sum(concept_id in ids[row] for row, _ in best)} of {asked.height}")
    title = f"Nearest of {len(strings):,} names ({target}) to names of {own['concept'][0]} ({concept_id})"
    rows = [[*row] for row in zip(asked["language"], asked["name"], *columns, strict=True)]
    return {
        "title": f"{title} in other languages (cosine)",
        "columns": ["Language", "Name", *vectors],
        "rows": [*rows, ["Right concept", "", *counts]],
    }


def _group(names: pl.DataFrame) -> tuple[list[str], list[list[str]]]:
    """List the distinct names, and the ids of each."""
    grouped = names.group_by("name", maintain_order=True).agg(pl.col("id").unique().sort())
    return grouped["name"].to_list(), grouped["id"].to_list()


def _find_distinct(
    vectors: np.ndarray, query: np.ndarray, ids: Sequence[Sequence[str]], left_out: set[int], k: int
) -> list[tuple[int, float]]:
    """List rows and cosines of the best names, as long as each has a concept that those before have not."""
    rows, cosines = exact_search(vectors, query[None], len(vectors))
    found: list[tuple[int, float]] = []
    seen: set[str] = set()
    for row, cosine in zip(rows[0].tolist(), cosines[0].tolist(), strict=True):
        if row not in left_out and not seen.issuperset(ids[row]):
            found.append((row, cosine))
            seen.update(ids[row])
            if len(found) == k:
                break
    return found


def _show(name: str, cosine: float, ids: Sequence[str], right: Collection[str]) -> str:
    return f"{name} ({cosine:.2f}){'' if set(ids).isdisjoint(right) else MARK}"


def _normalise(text: str) -> str:
    return " ".join(text.casefold().split())
