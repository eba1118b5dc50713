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
    """Hold out concepts with their names in all languages, before pairs are made."""
    eligible = list_language_names(terminology, target).askable()["concept"].unique().sort().to_numpy()
    if held_out < 1 or len(eligible) < held_out or len(terminology) <= held_out or 0 < dictionary < held_out:
        message = (
            f"Can't hold out {held_out} concepts for a dictionary of {dictionary} (0: all): {len(eligible)} "
            f"have a name in {target} and one in another language that is written differently and that no "
            "other concept has; some have to be left for training, and the dictionary holds the held-out "
            "ones. Hold fewer out, or make the dictionary larger."
        )
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
    """Split a terminology with `split_languages`, and write all parts to one folder."""
    settings: dict[str, Any] = {"dictionary": dictionary, "target": target, "max_queries": max_queries, "seed": seed}
    rest, tasks = split_languages(terminology, held_out=held_out, **settings)
    odd = [language for language in tasks if not re.fullmatch(r"[\w-]+", language)]
    if odd:
        raise ValueError(
            (
                f"The language {odd[0]!r} can't be part of a file's name, and no file of UMLS has such a LAT. The "
                "terminology's languages were probably given wrongly: give LAT as in UMLS (GER), or letters, "
                "digits and hyphens only."
            )
        )
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
    """Load the counts and tasks of a folder written by `write_language_split`."""
    data = FOLDER.read(path)
    if not {"languages", "tasks"} <= set(data):
        raise ValueError(
            (
                f"The split {path} does not ask for names by language. It was probably written by `split`: use "
                "`language-split`, or measure its held_out.json with `measure`."
            )
        )
    # The folder is verified as a whole, and the dictionary read once.
    dictionaries: dict[Path, Dictionary] = {}
    tasks = {
        language: LinkingTask.from_disk(Path(path) / name_task_file(language), dictionaries=dictionaries)
        for language in data["tasks"]
    }
    return data["languages"], tasks


def name_task_file(language: str) -> str:
    """Name the file of a language's task."""
    return f"{Path(HELD_OUT_FILE).stem}_{language}{Path(HELD_OUT_FILE).suffix}"
