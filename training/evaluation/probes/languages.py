"""Names of concepts in many languages, each looked for among the names in one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology

from ...data.task import LinkingTask
from ...errors import Errors
from ..linking.accuracy import RANKS

TARGET = "ENG"
# A language counts as written in Latin letters if more than this share of its letters are.
LATIN_SHARE = 0.5


class LanguageNames(NamedTuple):
    """The names of a terminology, lower-cased as those of a split, and the ones that can be asked for.

    names (DataFrame): The columns `concept` (row), `language` and `name`, sorted by all three, each row once.
    questions (DataFrame): Those of them that are in another language than the target, of concepts with a name in the
        target; besides `identical`, whether the concept has the same name in the target, and `shared`, whether another
        concept has it in any language.
    """

    names: pl.DataFrame
    questions: pl.DataFrame

    def askable(self) -> pl.DataFrame:
        """List the questions that can tell something: one who knows no other language can't answer them.

        RETURNS (DataFrame): `concept`, `language` and `name`, in the order of `questions`.
        """
        return self.questions.filter(~pl.col("identical"), ~pl.col("shared")).drop("identical", "shared")


def list_language_names(terminology: Terminology, target: str = TARGET) -> LanguageNames:
    """List names by language, and which of them can be asked for.

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
    """Ask for names of held-out concepts in each language, among the names in one of them.

    Queries are one name of each concept and language. A name that is a name of its concept in the target as well, but
    for capitals, would always be found, and one that another concept has too could not be told from it: neither is
    asked for. All tasks have the same dictionary: the names in the target of the held-out concepts and of others.

    terminology (Terminology): Concepts and names of all languages, the held-out concepts' among them.
    held_out (Collection[str]): The ids of the concepts to ask for. Those without a name in the target are left out.
    dictionary (int): Concepts to search among, the held-out ones included; the others are drawn; 0 for all that have a
        name in the target.
    target (str): The language (LAT) of the names to search.
    max_queries (int): Queries of a language at most, drawn at random; 0 for all.
    seed (int): Of all choices.
    RETURNS (Dict[str, LinkingTask]): A task for each language with something to ask for, by LAT. Reports count
        `concepts` to search, held-out `names` in the language, and those left out: `identical`, `shared`, `not_drawn`.
    RAISES (ValueError): If the target has no names, there is no other language, or nothing to ask for.
    RAISES (KeyError): If there is no concept with one of the ids.
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
    """Take the names in the target of the concepts that are asked for, and of others up to the number given."""
    in_target = names.filter(pl.col("language") == target).select("concept", "name")
    named = in_target["concept"].unique().to_numpy()
    others = rng.permutation(np.setdiff1d(named, asked))
    if n_concepts:
        others = others[: max(0, n_concepts - int(np.isin(asked, named).sum()))]
    return in_target.filter(pl.col("concept").is_in(np.concatenate([asked, others]).astype(np.uint32)))


def _draw_queries(askable: pl.DataFrame, asked: np.ndarray, limit: int, rng: np.random.Generator) -> pl.DataFrame:
    """Draw one name of each concept and language, and so many of each language at most."""
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
    """Join tasks with one dictionary: the queries of all languages, for a curve while an encoder is trained.

    tasks (Mapping[str, LinkingTask]): What `make_language_tasks` returned.
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
    RETURNS (Dict[str, dict]): By LAT, most names first: `names`, `concepts`, and `latin`, whether most letters of the
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


def format_languages(
    counts: Mapping[str, Mapping[str, Any]], rows: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> str:
    """Write a table of languages: names and concepts, and acc@1/@5 of each encoder in percent.

    Behind the figures of all encoders but the first stands how many times as high as the first one's acc@1 theirs is.
    At the end stand means over languages, each language counting alike.

    counts (Mapping[str, Mapping]): What `count_languages` returned.
    rows (Mapping[str, Mapping]): For each encoder the scores (`acc_at_1`, `acc_at_5`, `queries`) of languages, by LAT;
        languages without are those with nothing to ask for.
    RETURNS (str): Markdown.
    """
    lines = [
        "| language | letters | names | concepts | queries | "
        + " | ".join(f"{label} acc@1/@5" for label in rows)
        + " |",
        "| --- | --- |" + " ---: |" * (3 + len(rows)),
    ]
    measured = next(iter(rows.values()))
    for language, count in counts.items():
        queries = f"{measured[language]['queries']:,}" if language in measured else "-"
        letters = "Latin" if count["latin"] else "other"
        cells = [language or "unknown", letters, f"{count['names']:,}", f"{count['concepts']:,}", queries]
        lines.append(_format_line(cells, rows, [language] if language in measured else []))
    latin = [language for language in measured if counts[language]["latin"]]
    for title, languages in (("mean, Latin letters", latin), ("mean, all", list(measured))):
        lines.append(_format_line([f"{title} ({len(languages)})", "", "", "", ""], rows, languages))
    return "\n".join(lines) + "\n"


def _format_line(
    cells: list[str], rows: Mapping[str, Mapping[str, Mapping[str, Any]]], languages: Sequence[str]
) -> str:
    """Put an encoder's mean accuracies over languages behind what a line begins with."""
    first = None
    for scores in rows.values():
        if not languages:
            cells.append("-")
            continue
        shares = [mean(scores[language][f"acc_at_{rank}"] for language in languages) for rank in RANKS]
        cell = "/".join(f"{100 * share:.1f}" for share in shares)
        cells.append(f"{cell} (×{shares[0] / first:.1f})" if first else cell)
        first = shares[0] if first is None else first
    return "| " + " | ".join(cells) + " |"
