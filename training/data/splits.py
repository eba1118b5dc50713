"""Splits of a terminology: concepts to train on, and tasks of names held out, by source, at random or by language."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.edits import remove_concepts
from spacy_sapbert.terminology.names import list_distinct_names

from .folders import DataFolder
from .task import LinkingTask

HELD_OUT_FILE = "held_out.json"
FOLDER = DataFolder("split.json", "split", parts=("held_out*.json", "dictionary_*.json", "terminology"))
# The language (LAT) whose names are searched for names in other languages.
TARGET = "ENG"


def read_held_out(path: str | Path) -> LinkingTask:
    """Load a task. If it lies in the folder of a split, verify the whole folder."""
    path = Path(path)
    folder = path.parent
    if path.is_file() and (folder / FOLDER.manifest).is_file() and path.name not in FOLDER.read(folder)["files"]:
        raise ValueError(
            f"{path} does not belong to the split in its folder: its concepts may be in the training data. "
            "Split again with this source (`--sources`), or move the file to another folder to "
            "measure on it all the same."
        )
    return LinkingTask.from_disk(path)


def split_terminology(
    terminology: Terminology, *, held_out: int, dictionary: int, seed: int = 0
) -> tuple[Terminology, LinkingTask]:
    """Hold out concepts with all their names, before pairs are made."""
    rng = np.random.default_rng(seed)
    names = list_distinct_names(terminology.names.to_polars())
    paired, is_eligible = _find_paired(names, len(terminology))
    paired = rng.permutation(paired)
    eligible = paired[is_eligible[paired]]
    if held_out < 1 or len(eligible) < held_out or len(paired) <= held_out or dictionary < held_out:
        raise ValueError(
            f"Can't hold out {held_out} concepts for a dictionary of {dictionary}: of {len(paired)} concepts "
            f"with two names or more, {len(eligible)} have one that no other concept has; some have to be left"
            " for training, and the dictionary holds the held-out ones. Hold fewer out, or make the "
            "dictionary larger."
        )
    asked = np.sort(eligible[:held_out])
    others = np.setdiff1d(np.arange(len(terminology)), asked)
    rest = rng.permutation(others)[: dictionary - len(asked)]
    return hold_out(terminology, asked), _ask(terminology, names, asked, np.concatenate([asked, rest]), rng)


def make_source_task(terminology: Terminology, source: str, *, seed: int = 0) -> tuple[LinkingTask, np.ndarray]:
    """Make a task of the concepts with a name from a source, and list their rows, which training should not see."""
    has_source = terminology.names.to_polars("source")["source"].cast(pl.String).str.split("|").list.contains(source)
    concepts = terminology.names.to_polars().filter(has_source)["concept"].unique().sort().to_numpy()
    names = list_distinct_names(terminology.names.to_polars())
    # A name shared with a training concept can't be a query: training sees it.
    paired, is_eligible = _find_paired(names, len(terminology))
    asked = paired[is_eligible[paired] & np.isin(paired, concepts)]
    if not len(asked) or len(concepts) == len(terminology):
        sources = ", ".join(list_all_sources(terminology))
        raise ValueError(
            f"Can't hold out the source {source!r}: {len(concepts)} concepts have a name of it, {len(asked)} of them "
            "two names with one that is theirs alone, and something has to be left for training. The terminology has "
            f"names of these sources: {sources}. Give one of them, or a smaller one."
        )
    return _ask(terminology, names, asked, concepts, np.random.default_rng(seed)), concepts


def list_all_sources(terminology: Terminology) -> list[str]:
    """List the sources of a terminology's names."""
    sources = (
        pl.Series(terminology.names["source"].values.to_list(), dtype=pl.String)
        .str.split("|")
        .explode()
        .unique()
        .sort()
    )
    return [source for source in sources if source]


def _find_paired(names: pl.DataFrame, n_concepts: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the concepts with two or more names, and for each concept whether it has an unshared name."""
    concept = names["concept"].to_numpy()
    counts = np.bincount(concept, minlength=n_concepts)
    n_shared = np.bincount(concept[names["name"].is_duplicated().to_numpy()], minlength=n_concepts)
    # A concept that shares all its names has no query.
    return np.flatnonzero(counts >= 2), counts > n_shared


def _ask(
    terminology: Terminology, names: pl.DataFrame, asked: np.ndarray, searched: np.ndarray, rng: np.random.Generator
) -> LinkingTask:
    """Ask for one unshared name of each concept, among the other names of those that are searched."""
    own = names.filter(pl.col("concept").is_in(asked), ~pl.col("name").is_duplicated())
    queries = _draw_names(own, "concept", ["concept"], rng)
    dictionary = names.filter(pl.col("concept").is_in(searched))
    dictionary = dictionary.join(queries, on=["concept", "name"], how="anti", maintain_order="left")
    return _make_task(terminology, queries, dictionary, {"concepts": len(searched)})


def _draw_names(names: pl.DataFrame, by: str, groups: list[str], rng: np.random.Generator) -> pl.DataFrame:
    """Draw one name of each group of rows, in the order of a column."""
    drawn = names.with_columns(key=pl.Series(rng.random(names.height))).sort(by, "key")
    return drawn.unique(groups, keep="first", maintain_order=True)


def _make_task(
    terminology: Terminology, queries: pl.DataFrame, dictionary: pl.DataFrame, report: dict[str, Any]
) -> LinkingTask:
    ids = terminology.concepts.to_polars("id")["id"]
    gold = [[id_] for id_ in ids.gather(queries["concept"])]
    dictionary_ids = ids.gather(dictionary["concept"]).to_list()
    return LinkingTask(queries["name"].to_list(), gold, dictionary["name"].to_list(), dictionary_ids, report=report)


def hold_out(terminology: Terminology, rows: np.ndarray) -> Terminology:
    """Remove concepts with all their names."""
    return remove_concepts(terminology, terminology.concepts["id"][rows].to_list()).terminology


def write_split(
    terminology: Terminology,
    path: str | Path,
    *,
    held_out: int,
    dictionary: int,
    seed: int = 0,
    sources: Sequence[str] = (),
) -> tuple[Terminology, dict[str, LinkingTask]]:
    """Split a terminology, and write all parts to one folder."""
    rest = terminology
    tasks = {}
    for source in sources:
        tasks[f"held_out_{source}.json"], concepts = make_source_task(rest, source, seed=seed)
        rest = hold_out(rest, concepts)
    if held_out:
        rest, tasks[HELD_OUT_FILE] = split_terminology(rest, held_out=held_out, dictionary=dictionary, seed=seed)
    settings = {"held_out": held_out, "dictionary": dictionary, "seed": seed, "sources": list(sources)}
    _save_split(path, terminology, rest, tasks, settings)
    return rest, tasks


def _save_split(
    path: str | Path,
    terminology: Terminology,
    rest: Terminology,
    tasks: Mapping[str, LinkingTask],
    settings: Mapping[str, Any],
) -> None:
    with FOLDER.write(path, {"settings": settings, "terminology": terminology.fingerprint}) as folder:
        for name, task in tasks.items():
            # The languages of one split are searched in one dictionary.
            task.to_disk(folder / name, share_dictionary="target" in settings)
        rest.to_disk(folder / "terminology")


def check_held_out(task: LinkingTask, concepts: Collection[str], path: str | Path) -> None:
    """Raise an error if training data contain held-out concepts."""
    overlap = {gold for ids in task.gold for gold in ids} & set(concepts)
    if overlap:
        raise ValueError(
            f"{len(overlap)} concepts with pairs in {path} are held out, the first is '{min(overlap)}', so "
            "evaluation would look too good. Make the pairs of the terminology that `python -m training "
            "split` has written, or give their own held-out names."
        )


def make_language_tasks(
    terminology: Terminology, *, held_out: int, dictionary: int = 0, max_queries: int = 0, seed: int = 0
) -> tuple[np.ndarray, dict[str, LinkingTask]]:
    """Choose concepts, and make a task for each language: their names in it, searched among the names in English."""
    lower_case = pl.col("name").str.to_lowercase()
    names = (
        terminology.names.to_polars()
        .select("concept", "language", lower_case)
        .unique()
        .sort("concept", "language", "name")
    )
    languages = names["language"].unique().sort().to_list()
    if TARGET not in languages or len(languages) < 2:
        raise ValueError(
            f"Can't ask across languages: names in {TARGET} are to be searched for others, and the terminology"
            f" has names in {', '.join(filter(None, languages)) or 'none'}. It was probably read for one "
            "language. Read it with `preprocess --languages all`."
        )
    english = names.filter(pl.col("language") == TARGET).select("concept", "name")
    named = english["concept"].unique().sort()
    # Skip names spelled like an English name of their concept (trivial), and names that another concept shares.
    others = names.filter(~pl.col("language").is_in([TARGET, ""]), pl.col("concept").is_in(named.implode()))
    marked = english.with_columns(identical=True)
    others = others.join(marked, on=["concept", "name"], how="left", maintain_order="left")
    distinct = names.select("concept", "name").unique()["name"]
    shared = distinct.filter(distinct.is_duplicated()).unique()
    is_shared = pl.col("name").is_in(shared.implode())
    others = others.with_columns(pl.col("identical").fill_null(False), shared=is_shared)
    askable = others.filter(~pl.col("identical"), ~pl.col("shared"))
    eligible = askable["concept"].unique().sort().to_numpy()
    if held_out < 1 or len(eligible) < held_out or len(terminology) <= held_out or 0 < dictionary < held_out:
        raise ValueError(
            f"Can't hold out {held_out} concepts for a dictionary of {dictionary} (0: all): {len(eligible)} "
            f"have a name in {TARGET} and one in another language that is written differently and that no "
            "other concept has; some have to be left for training, and the dictionary holds the held-out "
            "ones. Hold fewer out, or make the dictionary larger."
        )
    asked = np.sort(np.random.default_rng(seed).permutation(eligible)[:held_out])
    rng = np.random.default_rng(seed)
    rest = rng.permutation(np.setdiff1d(named.to_numpy(), asked))
    if dictionary:
        rest = rest[: dictionary - held_out]
    searched = english.filter(pl.col("concept").is_in(np.concatenate([asked, rest])))
    is_asked = pl.col("concept").is_in(asked)
    # One name of each concept and language.
    drawn = _draw_names(askable.filter(is_asked), "language", ["language", "concept"], rng)
    if max_queries:
        drawn = drawn.group_by("language", maintain_order=True).head(max_queries)
    drawn = drawn.sort("language", "concept")
    tasks = {}
    for (language,), queries in drawn.partition_by("language", as_dict=True).items():
        own = others.filter(is_asked, pl.col("language") == language)
        counts = {"identical": own["identical"].sum(), "shared": (own["shared"] & ~own["identical"]).sum()}
        report = {"concepts": searched["concept"].n_unique(), "names": own.height, **counts}
        report["not_drawn"] = own.height - sum(counts.values()) - queries.height
        tasks[str(language)] = _make_task(terminology, queries, searched, report)
    return asked, tasks


def write_language_split(
    terminology: Terminology, path: str | Path, *, held_out: int, **choice: int
) -> tuple[Terminology, dict[str, LinkingTask]]:
    """Hold out concepts with their names in all languages, and write all parts to one folder: a task for each language,
    and one of all their queries, for evaluation during training."""
    asked, tasks = make_language_tasks(terminology, held_out=held_out, **choice)
    rest = hold_out(terminology, asked)
    first, *_ = tasks.values()
    queries = [query for task in tasks.values() for query in task.queries]
    gold = [ids for task in tasks.values() for ids in task.gold]
    report = {"concepts": first.report["concepts"], "languages": len(tasks)}
    files = {f"held_out_{language}.json": task for language, task in tasks.items()}
    files[HELD_OUT_FILE] = LinkingTask(queries, gold, first.names, first.ids, report=report)
    _save_split(path, terminology, rest, files, {"held_out": held_out, "target": TARGET, **choice})
    return rest, tasks
