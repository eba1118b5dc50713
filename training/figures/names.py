"""Tables of names for figures and case studies."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.table import SOURCE_SEPARATOR

from ..errors import Errors

# The papers give no numbers. With fewer names a concept is no group to see, with more it hides the others.
N_CONCEPTS, FEWEST_NAMES, MOST_NAMES = 30, 4, 20
NAMES_OF_TYPE = 40


def list_names(
    terminology: Terminology,
    *,
    languages: Collection[str] | None = None,
    sources: Collection[str] | None = None,
    lower_case: bool = True,
) -> pl.DataFrame:
    """List the distinct names of each concept and language.

    terminology (Terminology): Concepts and names.
    languages (Collection[str] | None): LAT of the names to keep; None for all.
    sources (Collection[str] | None): SAB of the names to keep; None for all.
    lower_case (bool): Lower-case them first.
    RETURNS (pl.DataFrame): The columns `id`, `concept` (the concept's canonical name), `name` and `language`, sorted by
        id; of each language the preferred names stand first.
    """
    names = terminology.names
    if languages is not None:
        names = names.filter(pl.col("language").is_in(list(languages)))
    if sources is not None:
        # A name that several sources have is there once.
        names = names.filter(
            pl.col("source").str.split(SOURCE_SEPARATOR).list.set_intersection(list(sources)).list.len() > 0
        )
    if lower_case:
        names = names.with_columns(pl.col("name").str.to_lowercase())
    names = names.sort("concept", "language", ~pl.col("preferred"), maintain_order=True)
    names = names.unique(["concept", "language", "name"], keep="first", maintain_order=True)
    concepts = terminology.concepts
    return names.select(
        id=concepts["id"].gather(names["concept"]),
        concept=concepts["canonical_name"].gather(names["concept"]),
        name="name",
        language="language",
    )


def draw_concepts(
    names: pl.DataFrame,
    n: int = N_CONCEPTS,
    *,
    seed: int = 0,
    ids: Sequence[str] | None = None,
    fewest: int = FEWEST_NAMES,
    most: int = MOST_NAMES,
) -> pl.DataFrame:
    """Draw concepts with all their names. Names that several concepts have are excluded: no vector tells them apart.

    names (pl.DataFrame): At least the columns `id`, `concept` and `name`, as of `list_names`.
    n (int): Concepts to draw.
    seed (int): Seed of the draw.
    ids (Sequence[str] | None): The concepts to take instead. Of those with more than `most` names, so many
        are drawn.
    fewest, most (int): How many names a concept may have that is drawn.
    RETURNS (pl.DataFrame): The columns `id`, `concept` and `name`, sorted by id and name.
    RAISES (ValueError): If there are too few such concepts, an id is unknown, or it has fewer than two unshared names.
    """
    rng = np.random.default_rng(seed)
    table = names if ids is None else names.filter(pl.col("id").is_in(list(ids)))
    table = table.select("id", "concept", "name").unique().filter(pl.col("id").n_unique().over("name") == 1)
    table = table.sort("id", "name")
    counts = table.group_by("id", maintain_order=True).len()
    if ids is not None:
        return _take(table, counts, ids, most, rng)
    eligible = counts.filter(pl.col("len").is_between(fewest, most))["id"].to_numpy()
    if not 1 < n <= len(eligible):
        reason = f"{len(eligible)} have {fewest} to {most} names that no other concept has, and two or more are needed"
        raise ValueError(Errors.E791.format(n=n, group="concept", reason=reason))
    return table.filter(pl.col("id").is_in(rng.permutation(eligible)[:n].tolist()))


def draw_types(
    terminology: Terminology, names: pl.DataFrame, n: int, *, n_names: int = NAMES_OF_TYPE, seed: int = 0
) -> pl.DataFrame:
    """Draw the preferred names of concepts of the most frequent semantic types (CODER, figure 3).

    Concepts with several types are left out, and names that concepts of several types have.

    terminology (Terminology): The concepts, with their types.
    names (pl.DataFrame): The columns `id` and `name`, as of `list_names`.
    n (int): Types to draw.
    n_names (int): Names of each; types with fewer are left out.
    seed (int): Seed of the draw.
    RETURNS (pl.DataFrame): The columns `id` and `concept`, both the type, and `name`, sorted: as of `draw_concepts`,
        with types in place of concepts.
    RAISES (ValueError): If there are too few such types.
    """
    typed = terminology.concepts.filter(pl.col("types").list.len() == 1).select("id", type=pl.col("types").list.first())
    preferred = names.unique("id", keep="first", maintain_order=True)
    table = preferred.join(typed, on="id", how="inner", maintain_order="left").select("type", "name").unique()
    table = table.filter(pl.col("type").n_unique().over("name") == 1).sort("type", "name")
    counts = table.group_by("type", maintain_order=True).len().filter(pl.col("len") >= n_names)
    chosen = counts.sort("len", descending=True, maintain_order=True)["type"].head(n)
    if not 1 < n <= len(chosen):
        reason = f"{counts.height} semantic types have {n_names} names of their own, and two or more are needed"
        raise ValueError(Errors.E791.format(n=n, group="semantic type", reason=reason))
    table = table.filter(pl.col("type").is_in(chosen.implode()))
    table = table.with_columns(key=pl.Series(np.random.default_rng(seed).random(table.height)))
    table = table.filter(pl.col("key").rank().over("type") <= n_names)
    return table.select(id="type", concept="type", name="name")


def limit_names(names: pl.DataFrame, limit: int, *, seed: int = 0, keep: Collection[str] = ()) -> pl.DataFrame:
    """Draw concepts with all their names, up to a number of names.

    names (pl.DataFrame): At least the column `id`, as of `list_names`.
    limit (int): Names wanted at most; 0 for all.
    seed (int): Seed of the draw.
    keep (Collection[str]): Ids of concepts to take in any case.
    RETURNS (pl.DataFrame): Some of the rows, in their order.
    """
    if not 0 < limit < names.height:
        return names
    counts = names.group_by("id").len().sort("id")
    counts = counts.with_columns(key=pl.Series(np.random.default_rng(seed).random(counts.height)))
    counts = counts.sort(~pl.col("id").is_in(list(keep)), "key")
    taken = counts.filter((pl.col("len").cum_sum() <= limit) | pl.col("id").is_in(list(keep)))
    return names.filter(pl.col("id").is_in(taken["id"].implode()))


def _take(
    table: pl.DataFrame, counts: pl.DataFrame, ids: Sequence[str], most: int, rng: np.random.Generator
) -> pl.DataFrame:
    paired = set(counts.filter(pl.col("len") > 1)["id"])
    missing = [single for single in dict.fromkeys(ids) if single not in paired]
    if missing or len(paired) < 2:
        raise ValueError(Errors.E792.format(ids=", ".join(missing or ids)))
    table = table.with_columns(key=pl.Series(rng.random(table.height)))
    return table.filter(pl.col("key").rank().over("id") <= most).drop("key")
