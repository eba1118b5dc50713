"""Splits across languages: names of held-out concepts in other languages are searched in the target language."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.terminology import Terminology

from ..errors import Errors
from .language_tasks import TARGET, count_languages, join_tasks, list_language_names, make_language_tasks
from .splits import FOLDER, HELD_OUT_FILE, hold_out, save_split
from .task import Dictionary, LinkingTask


def split_languages(
    terminology: Terminology,
    *,
    held_out: int,
    dictionary: int = 0,
    target: str = TARGET,
    max_queries: int = 0,
    seed: int = 0,
) -> tuple[Terminology, dict[str, LinkingTask]]:
    """Hold out concepts with their names in all languages, before pairs are made.

    terminology (Terminology): Concepts and names of all languages.
    held_out (int): Concepts to hold out, drawn from those with a name in the target language and a valid query in
        another language.
    dictionary (int): Concepts in the dictionary, including the held-out ones; 0 for all with a name in the target.
    target (str): The language (LAT) of the names to search.
    max_queries (int): Queries of a language at most; 0 for all.
    seed (int): Seed of all choices.
    RETURNS (tuple[Terminology, dict[str, LinkingTask]]): The concepts left for training, and the tasks by LAT.
    RAISES (ValueError): If there are too few such concepts, or only one language.
    """
    eligible = list_language_names(terminology, target).askable()["concept"].unique().sort().to_numpy()
    if held_out < 1 or len(eligible) < held_out or len(terminology) <= held_out or 0 < dictionary < held_out:
        message = Errors.E822.format(held_out=held_out, dictionary=dictionary, eligible=len(eligible), target=target)
        raise ValueError(message)
    rows = np.sort(np.random.default_rng(seed).permutation(eligible)[:held_out])
    ids = terminology.concepts["id"].gather(rows).to_list()
    tasks = make_language_tasks(
        terminology, ids, dictionary=dictionary, target=target, max_queries=max_queries, seed=seed
    )
    return hold_out(terminology, rows), tasks


def write_language_split(
    terminology: Terminology,
    path: str | Path,
    *,
    held_out: int,
    dictionary: int = 0,
    target: str = TARGET,
    max_queries: int = 0,
    seed: int = 0,
) -> tuple[Terminology, dict[str, LinkingTask]]:
    """Split a terminology with `split_languages`, and write all parts to one folder.

    terminology (Terminology): Concepts and names of all languages.
    path (str | Path): The folder, for `terminology/`, `held_out_<LAT>.json`, `held_out.json` with the queries of all
        languages, `dictionary_<hash>.json` with the names that all of them search, and the manifest `split.json` with
        the names and concepts of each language before the split.
    held_out (int): Concepts to hold out. See `split_languages`.
    dictionary (int): Concepts in the dictionary; 0 for all with a name in the target.
    target (str): The language (LAT) of the names to search.
    max_queries (int): Queries of a language at most; 0 for all.
    seed (int): Seed of all choices.
    RETURNS (tuple[Terminology, dict[str, LinkingTask]]): The concepts left for training, and the tasks by LAT.
    RAISES (ValueError): As `split_languages`, and if a file name can't contain a language.
    """
    settings: dict[str, Any] = {"dictionary": dictionary, "target": target, "max_queries": max_queries, "seed": seed}
    rest, tasks = split_languages(terminology, held_out=held_out, **settings)
    odd = [language for language in tasks if not re.fullmatch(r"[\w-]+", language)]
    if odd:
        raise ValueError(Errors.E823.format(language=odd[0]))
    files = {name_task_file(language): task for language, task in tasks.items()}
    files[HELD_OUT_FILE] = join_tasks(tasks)
    data = {
        "settings": {"held_out": held_out, **settings},
        "terminology": terminology.fingerprint,
        "languages": count_languages(terminology),
        "tasks": list(tasks),
    }
    save_split(path, rest, files, data, share_dictionary=True)
    return rest, tasks


def read_language_split(path: str | Path) -> tuple[dict[str, dict[str, Any]], dict[str, LinkingTask]]:
    """Load the counts and tasks of a folder written by `write_language_split`.

    path (str | Path): The folder.
    RETURNS (tuple[dict[str, dict], dict[str, LinkingTask]]): Counts and tasks by language (LAT).
    RAISES (OSError): If there is no split, or it is damaged.
    RAISES (ValueError): If it is not a split across languages.
    """
    data = FOLDER.read(path)
    if not {"languages", "tasks"} <= set(data):
        raise ValueError(Errors.E824.format(path=path))
    # The folder is verified as a whole, and the dictionary read once.
    dictionaries: dict[Path, Dictionary] = {}
    tasks = {
        language: LinkingTask.from_disk(Path(path) / name_task_file(language), dictionaries=dictionaries)
        for language in data["tasks"]
    }
    return data["languages"], tasks


def name_task_file(language: str) -> str:
    """Name the file of a language's task.

    language (str): The language (LAT).
    RETURNS (str): The file's name.
    """
    return f"{Path(HELD_OUT_FILE).stem}_{language}{Path(HELD_OUT_FILE).suffix}"
