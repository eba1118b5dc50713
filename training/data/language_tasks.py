"""Linking tasks across languages: the queries are in other languages, the dictionary is in the target language."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology

from ..errors import Errors
from .task import LinkingTask

TARGET = "ENG"
# A language counts as Latin if more than this share of its letters are Latin.
LATIN_SHARE = 0.5


class LanguageNames(NamedTuple):
    """The lower-cased names of a terminology by language, and the candidates for queries.

    names (pl.DataFrame): The columns `concept` (row), `language` and `name`, sorted by all three, each row once.
    questions (pl.DataFrame): The names in other languages than the target, of concepts with a name in the target, with
        two more columns: `identical`, whether the concept has the same name in the target, and `shared`, whether
        another concept has the name in any language.
    """

    names: pl.DataFrame
    questions: pl.DataFrame

    def askable(self) -> pl.DataFrame:
        """List the valid queries: neither identical to a name in the target nor shared with another concept.

        RETURNS (pl.DataFrame): `concept`, `language` and `name`, in the order of `questions`.
        """
        return self.questions.filter(~pl.col("identical"), ~pl.col("shared")).drop("identical", "shared")


def list_language_names(terminology: Terminology, target: str = TARGET) -> LanguageNames:
    """List names by language, and the candidates for queries.

    terminology (Terminology): Concepts and names.
    target (str): The language (LAT) of the names to search.
    RETURNS (LanguageNames): The names and the questions.
    RAISES (ValueError): If the target has no names, or there is no other language.
    """
    lower_case = pl.col("name").str.to_lowercase()
    names = terminology.names.select("concept", "language", lower_case).unique().sort("concept", "language", "name")
    languages = names["language"].unique().sort().to_list()
    if target not in languages or len(languages) < 2:
        raise ValueError(Errors.E820.format(target=target, languages=", ".join(filter(None, languages)) or "none"))
    searched = names.filter(pl.col("language") == target).select("concept", "name")
    shared = names.select("concept", "name").unique().filter(pl.col("name").is_duplicated())["name"].unique()
    others = names.filter(pl.col("language") != target, pl.col("language") != "")
    questions = others.filter(pl.col("concept").is_in(searched["concept"].unique().implode()))
    known = searched.with_columns(identical=True)
    questions = questions.join(known, on=["concept", "name"], how="left", maintain_order="left")
    return LanguageNames(
        names,
        questions.with_columns(pl.col("identical").fill_null(False), shared=pl.col("name").is_in(shared.implode())),
    )


def make_language_tasks(
    terminology: Terminology,
    held_out: Collection[str],
    *,
    dictionary: int = 0,
    target: str = TARGET,
    max_queries: int = 0,
    seed: int = 0,
) -> dict[str, LinkingTask]:
    """Make a task for each language: names of held-out concepts, searched among the names in the target.

    The queries are one name per concept and language. Names that their concept also has in the target, ignoring case,
    are excluded, because every encoder finds them. Names shared with another concept are excluded, because no vector
    can distinguish the two. All tasks share one dictionary: names in the target of the held-out concepts and of others.

    terminology (Terminology): Concepts and names of all languages, the held-out concepts' among them.
    held_out (Collection[str]): The ids of the held-out concepts. Concepts without a name in the target are excluded.
    dictionary (int): Concepts in the dictionary: the held-out ones, and others drawn at random; 0 for all with a name
        in the target.
    target (str): The language (LAT) of the names to search.
    max_queries (int): Queries of a language at most, drawn at random; 0 for all.
    seed (int): Seed of all choices.
    RETURNS (dict[str, LinkingTask]): A task for each language with queries, by LAT. Reports count
        `concepts` to search, held-out `names` in the language, and excluded names: `identical`, `shared`, `not_drawn`.
    RAISES (ValueError): If the target has no names, there is no other language, or no query.
    RAISES (KeyError): If an id is unknown.
    """
    listed = list_language_names(terminology, target)
    rng = np.random.default_rng(seed)
    rows = np.unique(np.array([terminology.row(concept) for concept in held_out], dtype=np.uint32))
    searched = _draw_dictionary(listed.names, rows, dictionary, target, rng)
    chosen = _draw_queries(listed.askable(), rows, max_queries, rng)
    if not chosen.height:
        raise ValueError(Errors.E821.format(n=len(rows), target=target))
    ids = terminology.concepts["id"]
    names, name_ids = searched["name"].to_list(), ids.gather(searched["concept"]).to_list()
    own = listed.questions.filter(pl.col("concept").is_in(rows))
    tasks = {}
    for (language,), queries in sorted(chosen.partition_by("language", as_dict=True).items()):
        gold = [[concept] for concept in ids.gather(queries["concept"]).to_list()]
        report = _count_questions(own.filter(pl.col("language") == language), queries.height)
        report = {"concepts": searched["concept"].n_unique(), **report}
        tasks[str(language)] = LinkingTask(queries["name"].to_list(), gold, names, name_ids, report=report)
    return tasks


def _draw_dictionary(
    names: pl.DataFrame, asked: np.ndarray, n_concepts: int, target: str, rng: np.random.Generator
) -> pl.DataFrame:
    """Choose the names in the target of the held-out concepts, and of other concepts up to the given number."""
    in_target = names.filter(pl.col("language") == target).select("concept", "name")
    named = in_target["concept"].unique().to_numpy()
    others = rng.permutation(np.setdiff1d(named, asked))
    if n_concepts:
        others = others[: max(0, n_concepts - int(np.isin(asked, named).sum()))]
    return in_target.filter(pl.col("concept").is_in(np.concatenate([asked, others]).astype(np.uint32)))


def _draw_queries(askable: pl.DataFrame, asked: np.ndarray, limit: int, rng: np.random.Generator) -> pl.DataFrame:
    """Draw one name per concept and language, and at most `limit` per language."""
    own = askable.filter(pl.col("concept").is_in(asked))
    own = own.with_columns(key=pl.Series(rng.random(own.height))).sort("language", "key")
    own = own.unique(["language", "concept"], keep="first", maintain_order=True)
    if limit:
        own = own.group_by("language", maintain_order=True).head(limit)
    return own.sort("language", "concept")


def _count_questions(own: pl.DataFrame, n_queries: int) -> dict[str, int]:
    identical = int(own["identical"].sum())
    shared = own.filter(pl.col("shared"), ~pl.col("identical")).height
    left = {"identical": identical, "shared": shared, "not_drawn": own.height - identical - shared - n_queries}
    return {"names": own.height, **left}


def join_tasks(tasks: Mapping[str, LinkingTask]) -> LinkingTask:
    """Join the queries of all languages into one task, for evaluation during training.

    tasks (Mapping[str, LinkingTask]): The result of `make_language_tasks`.
    RETURNS (LinkingTask): All queries, language by language.
    """
    first = next(iter(tasks.values()))
    return LinkingTask(
        [query for task in tasks.values() for query in task.queries],
        [gold for task in tasks.values() for gold in task.gold],
        first.names,
        first.ids,
        report={"concepts": first.report["concepts"], "languages": len(tasks)},
    )


def count_languages(terminology: Terminology) -> dict[str, dict[str, Any]]:
    """Count names and concepts by language.

    terminology (Terminology): Concepts and names.
    RETURNS (dict[str, dict]): By LAT, most names first: `names`, `concepts`, and `latin`, whether most letters of the
        names are Latin.
    """
    name = pl.col("name")
    counts = terminology.names.group_by("language").agg(
        pl.len().alias("names"),
        pl.col("concept").n_unique().alias("concepts"),
        latin=name.str.count_matches(r"\p{Latin}").sum() > LATIN_SHARE * name.str.count_matches(r"\p{L}").sum(),
    )
    rows = counts.sort(["names", "language"], descending=[True, False]).to_dicts()
    return {row.pop("language"): row for row in rows}
