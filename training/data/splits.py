"""Splits of a terminology: concepts to train on, and tasks of names held out, by source, at random or by language."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from spacy_sapbert.files import read_manifest
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.edits import remove_concepts
from spacy_sapbert.terminology.names import list_distinct_names
from spacy_sapbert.terminology.storage import FORMAT_VERSION as TERMINOLOGY_VERSION
from spacy_sapbert.terminology.storage import MANIFEST as TERMINOLOGY_MANIFEST

from .folders import DataFolder
from .task import LinkingTask

TERMINOLOGY_FOLDER, HELD_OUT_FILE, SPLIT_MANIFEST = "terminology", "held_out.json", "split.json"
FOLDER = DataFolder(SPLIT_MANIFEST, 2, "`split`")
# The language (LAT) among whose names those of other languages are searched.
TARGET = "ENG"
# A language counts as Latin if more than this share of its letters are Latin.
LATIN_SHARE = 0.5


def read_held_out(path: str | Path) -> LinkingTask:
    """Load a task. If it lies in the folder of a split, verify the whole folder."""
    _verify(Path(path))
    return LinkingTask.from_disk(path)


def _verify(path: Path) -> None:
    """Verify the folder of a split that a file lies in."""
    manifest = path.with_name(SPLIT_MANIFEST)
    if path.is_file() and manifest.is_file() and path.name not in FOLDER.read(manifest.parent)["files"]:
        raise ValueError(
            f"{path} does not belong to the split that it lies with: its concepts may be among those to train "
            "on. Make the split anew with this source (`--sources`), or move the file to another folder to "
            "measure on it all the same."
        )


def split_terminology(
    terminology: Terminology, *, held_out: int, dictionary: int, seed: int = 0, kept: Collection[str] = ()
) -> tuple[Terminology, LinkingTask]:
    """Hold out concepts with all their names, before pairs are made."""
    rng = np.random.default_rng(seed)
    names = list_distinct_names(terminology.names)
    paired, is_eligible = _find_paired(names, len(terminology))
    is_eligible[[terminology.row(id_) for id_ in kept]] = False
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
    task = _make_task(names, terminology.concepts["id"], asked, np.concatenate([asked, rest]), rng)
    return hold_out(terminology, asked), task


def hold_out_source(terminology: Terminology, source: str, *, seed: int = 0) -> tuple[Terminology, LinkingTask]:
    """Hold out all concepts with a name from a source, so that training sees none of its names."""
    task, concepts = make_source_task(terminology, source, seed=seed)
    return hold_out(terminology, concepts), task


def make_source_task(terminology: Terminology, source: str, *, seed: int = 0) -> tuple[LinkingTask, np.ndarray]:
    """Make the task of a source as `hold_out_source` does, and leave the terminology as it is."""
    has_source = terminology.names["source"].cast(pl.String).str.split("|").list.contains(source)
    concepts = terminology.names.filter(has_source)["concept"].unique().sort().to_numpy()
    names = list_distinct_names(terminology.names)
    # A name shared with a training concept is no query: training sees it.
    paired, is_eligible = _find_paired(names, len(terminology))
    asked = paired[is_eligible[paired] & np.isin(paired, concepts)]
    if not len(asked) or len(concepts) == len(terminology):
        known = ", ".join(list_all_sources(terminology))
        raise ValueError(
            f"Can't hold out the source {source!r}: {len(concepts)} concepts have a name of it, {len(asked)} of them "
            "two names with one that is theirs alone, and something has to be left for training. The terminology has "
            f"names of these sources: {known}. Give one of them, or a smaller one."
        )
    return _make_task(names, terminology.concepts["id"], asked, concepts, np.random.default_rng(seed)), concepts


def list_all_sources(terminology: Terminology) -> list[str]:
    """List the sources of a terminology's names."""
    sources = terminology.names["source"].cast(pl.String).unique().str.split("|").explode().unique().sort()
    return [source for source in sources if source]


def _find_paired(names: pl.DataFrame, n_concepts: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the concepts with two or more names, and for each concept whether it has an unshared name."""
    concept = names["concept"].to_numpy()
    counts = np.bincount(concept, minlength=n_concepts)
    n_shared = np.bincount(concept[names["name"].is_duplicated().to_numpy()], minlength=n_concepts)
    # A concept that shares all its names has no query.
    return np.flatnonzero(counts >= 2), counts > n_shared


def _make_task(
    names: pl.DataFrame, ids: pl.Series, asked: np.ndarray, searched: np.ndarray, rng: np.random.Generator
) -> LinkingTask:
    dictionary = names.filter(pl.col("concept").is_in(searched.astype(np.uint32)))
    own = names.filter(pl.col("concept").is_in(asked.astype(np.uint32)), ~pl.col("name").is_duplicated())
    chosen = own.with_columns(key=pl.Series(rng.random(own.height))).sort("concept", "key")
    chosen = chosen.unique("concept", keep="first", maintain_order=True).select("concept", "name")
    dictionary = dictionary.join(chosen, on=["concept", "name"], how="anti", maintain_order="left")
    return LinkingTask(
        chosen["name"].to_list(),
        [[gold] for gold in ids.gather(chosen["concept"]).to_list()],
        dictionary["name"].to_list(),
        ids.gather(dictionary["concept"]).to_list(),
        report={"concepts": len(searched)},
    )


def hold_out(terminology: Terminology, rows: np.ndarray) -> Terminology:
    """Remove concepts with all their names."""
    return remove_concepts(terminology, terminology.concepts["id"].gather(rows).to_list()).terminology


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
    rest, tasks = terminology, {}
    for source in sources:
        rest, tasks[f"held_out_{source}.json"] = hold_out_source(rest, source, seed=seed)
    if held_out:
        rest, tasks[HELD_OUT_FILE] = split_terminology(rest, held_out=held_out, dictionary=dictionary, seed=seed)
    settings = {"held_out": held_out, "dictionary": dictionary, "seed": seed, "sources": list(sources)}
    save_split(path, rest, tasks, {"settings": settings, "terminology": terminology.fingerprint})
    return rest, tasks


def save_split(
    path: str | Path,
    rest: Terminology,
    tasks: Mapping[str, LinkingTask],
    data: Mapping[str, Any],
    *,
    share_dictionary: bool = False,
) -> None:
    """Write the parts of a split to one folder."""
    hashes: dict[str, str] = {}
    with FOLDER.write(path, data, hashes=hashes) as temporary:
        for name, task in tasks.items():
            task.to_disk(temporary / name, share_dictionary=share_dictionary)
        rest.to_disk(temporary / TERMINOLOGY_FOLDER)
        manifest = temporary / TERMINOLOGY_FOLDER / TERMINOLOGY_MANIFEST
        saved = read_manifest(manifest, TERMINOLOGY_VERSION, check_files=False)
        hashes |= {f"{TERMINOLOGY_FOLDER}/{name}": digest for name, digest in saved["files"].items()}


def check_held_out(task: LinkingTask, concepts: Collection[str], path: str | Path) -> None:
    """Raise an error if training data contain held-out concepts."""
    seen = {gold for ids in task.gold for gold in ids} & set(concepts)
    if seen:
        raise ValueError(
            f"{len(seen)} concepts with pairs in {path} are held out, the first is '{min(seen)}', so "
            "evaluation would look too good. Make the pairs of the terminology that `python -m training "
            "split` has written, or give their own held-out names."
        )


class LanguageNames(NamedTuple):
    """The lower-cased names of a terminology by language, and the candidates for queries.

    names (pl.DataFrame): The columns `concept` (row), `language` and `name`, sorted by all three, each row once.
    questions (pl.DataFrame): The names in other languages than English, of concepts with a name in English, with
        two more columns: `identical`, whether the concept has the same name in English, and `shared`, whether
        another concept has the name in any language.
    """

    names: pl.DataFrame
    questions: pl.DataFrame

    def askable(self) -> pl.DataFrame:
        """List the valid queries: neither identical to a name in English nor shared with another concept."""
        return self.questions.filter(~pl.col("identical"), ~pl.col("shared")).drop("identical", "shared")


def list_language_names(terminology: Terminology) -> LanguageNames:
    """List names by language, and the candidates for queries."""
    lower_case = pl.col("name").str.to_lowercase()
    names = terminology.names.select("concept", "language", lower_case).unique().sort("concept", "language", "name")
    languages = names["language"].unique().sort().to_list()
    if TARGET not in languages or len(languages) < 2:
        raise ValueError(
            f"Can't ask across languages: names in {TARGET} are to be searched for others, and the terminology"
            f" has names in {', '.join(filter(None, languages)) or 'none'}. It was probably read for one "
            "language. Read it with `preprocess --languages all`."
        )
    searched = names.filter(pl.col("language") == TARGET).select("concept", "name")
    shared = names.select("concept", "name").unique().filter(pl.col("name").is_duplicated())["name"].unique()
    others = names.filter(pl.col("language") != TARGET, pl.col("language") != "")
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
    max_queries: int = 0,
    seed: int = 0,
) -> dict[str, LinkingTask]:
    """Make a task for each language: names of held-out concepts, searched among the names in English."""
    listed = list_language_names(terminology)
    rng = np.random.default_rng(seed)
    rows = np.unique(np.array([terminology.row(concept) for concept in held_out], dtype=np.uint32))
    searched = _draw_dictionary(listed.names, rows, dictionary, rng)
    chosen = _draw_queries(listed.askable(), rows, max_queries, rng)
    if not chosen.height:
        raise ValueError(
            f"None of the {len(rows)} concepts has a name to ask for: it needs one in {TARGET}, and one in "
            "another language that is written differently and that no other concept has. Give other concepts,"
            " or a larger limit of queries."
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


def _draw_dictionary(names: pl.DataFrame, asked: np.ndarray, n_concepts: int, rng: np.random.Generator) -> pl.DataFrame:
    """Choose the names in English of the held-out concepts, and of other concepts up to the given number."""
    in_target = names.filter(pl.col("language") == TARGET).select("concept", "name")
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


def split_languages(
    terminology: Terminology,
    *,
    held_out: int,
    dictionary: int = 0,
    max_queries: int = 0,
    seed: int = 0,
) -> tuple[Terminology, dict[str, LinkingTask]]:
    """Hold out concepts with their names in all languages, before pairs are made."""
    eligible = list_language_names(terminology).askable()["concept"].unique().sort().to_numpy()
    if held_out < 1 or len(eligible) < held_out or len(terminology) <= held_out or 0 < dictionary < held_out:
        message = (
            f"Can't hold out {held_out} concepts for a dictionary of {dictionary} (0: all): {len(eligible)} "
            f"have a name in {TARGET} and one in another language that is written differently and that no "
            "other concept has; some have to be left for training, and the dictionary holds the held-out "
            "ones. Hold fewer out, or make the dictionary larger."
        )
        raise ValueError(message)
    rows = np.sort(np.random.default_rng(seed).permutation(eligible)[:held_out])
    ids = terminology.concepts["id"].gather(rows).to_list()
    tasks = make_language_tasks(terminology, ids, dictionary=dictionary, max_queries=max_queries, seed=seed)
    return hold_out(terminology, rows), tasks


def write_language_split(
    terminology: Terminology,
    path: str | Path,
    *,
    held_out: int,
    dictionary: int = 0,
    max_queries: int = 0,
    seed: int = 0,
) -> tuple[Terminology, dict[str, LinkingTask]]:
    """Split a terminology with `split_languages`, and write all parts to one folder."""
    settings: dict[str, Any] = {"dictionary": dictionary, "max_queries": max_queries, "seed": seed}
    rest, tasks = split_languages(terminology, held_out=held_out, **settings)
    odd = [language for language in tasks if not re.fullmatch(r"[\w-]+", language)]
    if odd:
        raise ValueError(
            f"The language {odd[0]!r} can't be part of a file's name, and no file of UMLS has such a LAT. The "
            "terminology's languages were probably given wrongly: give LAT as in UMLS (GER), or letters, "
            "digits and hyphens only."
        )
    files = {name_task_file(language): task for language, task in tasks.items()}
    files[HELD_OUT_FILE] = join_tasks(tasks)
    data = {
        "settings": {"held_out": held_out, "target": TARGET, **settings},
        "terminology": terminology.fingerprint,
        "languages": count_languages(terminology),
        "tasks": list(tasks),
    }
    save_split(path, rest, files, data, share_dictionary=True)
    return rest, tasks


def name_task_file(language: str) -> str:
    """Name the file of a language's task."""
    return f"{Path(HELD_OUT_FILE).stem}_{language}{Path(HELD_OUT_FILE).suffix}"
