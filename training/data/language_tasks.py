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
        """List the valid queries: neither identical to a name in the target nor shared with another concept."""
        return self.questions.filter(~pl.col("identical"), ~pl.col("shared")).drop("identical", "shared")


def list_language_names(terminology: Terminology, target: str = TARGET) -> LanguageNames:
    """List names by language, and the candidates for queries."""
    lower_case = pl.col("name").str.to_lowercase()
    names = terminology.names.select("concept", "language", lower_case).unique().sort("concept", "language", "name")
    languages = names["language"].unique().sort().to_list()
    if target not in languages or len(languages) < 2:
        raise ValueError(
            (
                f"Can't ask across languages: names in {target} are to be searched for others, and the terminology"
                f" has names in {', '.join(filter(None, languages)) or 'none'}. It was probably read for one "
                "language. Read it with `preprocess --languages all`, or choose another target."
            )
        )
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
    """Make a task for each language: names of held-out concepts, searched among the names in the target."""
    listed = list_language_names(terminology, target)
    rng = np.random.default_rng(seed)
    rows = np.unique(np.array([terminology.row(concept) for concept in held_out], dtype=np.uint32))
    searched = _draw_dictionary(listed.names, rows, dictionary, target, rng)
    chosen = _draw_queries(listed.askable(), rows, max_queries, rng)
    if not chosen.height:
        raise ValueError(
            (
                f"None of the {len(rows)} concepts has a name to ask for: it needs one in {target}, and one in "
                "another language that is written differently and that no other concept has. Give other concepts,"
                " or a larger limit of queries."
            )
        )
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
    """Join the queries of all languages into one task, for evaluation during training."""
    first = next(iter(tasks.values()))
    return LinkingTask(
        [query for task in tasks.values() for query in task.queries],
        [gold for task in tasks.values() for gold in task.gold],
        first.names,
        first.ids,
        report={"concepts": first.report["concepts"], "languages": len(tasks)},
    )


def count_languages(terminology: Terminology) -> dict[str, dict[str, Any]]:
    """Count names and concepts by language."""
    name = pl.col("name")
    counts = terminology.names.group_by("language").agg(
        pl.len().alias("names"),
        pl.col("concept").n_unique().alias("concepts"),
        latin=name.str.count_matches(r"\p{Latin}").sum() > LATIN_SHARE * name.str.count_matches(r"\p{L}").sum(),
    )
    rows = counts.sort(["names", "language"], descending=[True, False]).to_dicts()
    return {row.pop("language"): row for row in rows}
