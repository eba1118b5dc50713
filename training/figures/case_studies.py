"""Nearest names of single strings, encoders side by side (CODER, tables 6 and 7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.index import exact_search

from ..errors import Errors
from .vectors import Vectors, compute_vectors

K = 5
# The mark after a name of the right concept.
MARK = " ✓"

Table = dict[str, Any]


def find_neighbours(
    vectors: Mapping[str, Vectors],
    names: pl.DataFrame,
    queries: Sequence[str],
    *,
    k: int = K,
    right: Mapping[str, Collection[str]] | None = None,
) -> list[Table]:
    """Find the nearest names of strings, one of each concept (CODER, table 7).

    Names written as the string itself, but for case, are excluded: every encoder finds them.

    vectors (Mapping[str, Callable]): Functions from strings to normalised vectors, by the title of the column.
    names (pl.DataFrame): The columns `id` and `name`, as of `list_names`.
    queries (Sequence[str]): The strings.
    k (int): Names to show.
    right (Mapping[str, Collection[str]] | None): The right concepts of queries, whose names get a mark. Of other
        queries they are the concepts that have a name written as the query.
    RETURNS (list[dict]): For each string "title", "columns" and "rows" (lists of text).
    RAISES (ValueError): If there are no names or no queries, or vectors can't be used.
    """
    if not names.height or not queries:
        raise ValueError(Errors.E794.format(reason=f"{len(queries)} strings are looked up among {names.height} names"))
    queries = list(dict.fromkeys(queries))
    strings, ids = _group(names)
    written = [_normalise(string) for string in strings]
    own = {query: {row for row, text in enumerate(written) if text == _normalise(query)} for query in queries}
    wanted = {
        query: set((right or {}).get(query, ())) or {single for row in own[query] for single in ids[row]}
        for query in queries
    }
    cells: dict[str, list[list[str]]] = {query: [] for query in queries}
    for label, single in vectors.items():
        dictionary = compute_vectors(label, single, strings)
        for query, vector in zip(queries, compute_vectors(label, single, queries), strict=True):
            found = _find_distinct(dictionary, vector, ids, own[query], k)
            column = [_show(strings[row], cosine, ids[row], wanted[query]) for row, cosine in found]
            cells[query].append(column + [""] * (k - len(column)))
    n_concepts = len({single for group in ids for single in group})
    return [
        {
            "title": f"Nearest names of “{query}” among {len(strings):,} names of {n_concepts:,} concepts (cosine)",
            "columns": ["", *vectors],
            "rows": [[str(rank), *row] for rank, row in enumerate(zip(*cells[query], strict=True), start=1)],
        }
        for query in cells
    ]


def find_translations(
    vectors: Mapping[str, Vectors],
    names: pl.DataFrame,
    concept_id: str,
    *,
    target: str = "ENG",
) -> Table:
    """Find for a concept's name in each language the nearest name in another one (CODER, table 6).

    vectors (Mapping[str, Callable]): Functions from strings to normalised vectors, by the title of the column.
    names (pl.DataFrame): The columns `id`, `concept`, `name` and `language`, as of `list_names`. A concept's first name
        of each language is looked up.
    concept_id (str): The concept.
    target (str): LAT of the names to find.
    RETURNS (dict): "title", "columns" and "rows" (lists of text). The last row counts the right
        ones.
    RAISES (ValueError): If the concept has no name in another language, there are no names in this one, or vectors
        can't be used.
    """
    own = names.filter(pl.col("id") == concept_id)
    asked = own.filter(pl.col("language") != target).unique("language", keep="first", maintain_order=True)
    asked = asked.sort("language")
    strings, ids = _group(names.filter(pl.col("language") == target))
    if not asked.height or not strings:
        reason = f"of {concept_id} there are {asked.height} names in other languages, to look up among {len(strings)}"
        raise ValueError(Errors.E794.format(reason=reason))
    columns, counts = [], []
    for label, single in vectors.items():
        found, scores = exact_search(
            compute_vectors(label, single, strings), compute_vectors(label, single, asked["name"].to_list()), 1
        )
        best = zip(found[:, 0].tolist(), scores[:, 0].tolist(), strict=True)
        columns.append([_show(strings[row], cosine, ids[row], {concept_id}) for row, cosine in best])
        counts.append(f"{sum(concept_id in ids[row] for row in found[:, 0])} of {asked.height}")
    return {
        "title": (
            f"Nearest of {len(strings):,} names ({target}) to names of {own['concept'][0]} ({concept_id}) in other "
            "languages (cosine)"
        ),
        "columns": ["Language", "Name", *vectors],
        "rows": [
            *([*row] for row in zip(asked["language"], asked["name"], *columns, strict=True)),
            ["Right concept", "", *counts],
        ],
    }


def _group(names: pl.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return the distinct names, and the ids of each."""
    grouped = names.group_by("name", maintain_order=True).agg(pl.col("id").unique().sort())
    return grouped["name"].to_list(), grouped["id"].to_list()


def _find_distinct(
    vectors: np.ndarray, query: np.ndarray, ids: Sequence[Sequence[str]], left_out: set[int], k: int
) -> list[tuple[int, float]]:
    """Return rows and cosines of the best names, as long as each has a concept that those before have not."""
    wanted = 10 * k
    while True:
        n = min(wanted, len(vectors))
        rows, cosines = exact_search(vectors, query[None], n)
        found: list[tuple[int, float]] = []
        seen: set[str] = set()
        for row, cosine in zip(rows[0].tolist(), cosines[0].tolist(), strict=True):
            if row not in left_out and not seen.issuperset(ids[row]) and len(found) < k:
                found.append((row, cosine))
                seen.update(ids[row])
        if len(found) == k or n == len(vectors):
            return found
        wanted *= 4


def _show(name: str, cosine: float, ids: Sequence[str], right: Collection[str]) -> str:
    return f"{name} ({cosine:.2f}){'' if set(ids).isdisjoint(right) else MARK}"


def _normalise(text: str) -> str:
    return " ".join(text.casefold().split())
