"""Prepare the inputs of a run: tasks, their distinct mentions, the dictionary as a knowledge base, and settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import srsly
import typer
from dictionary import TASKS_FOLDER
from knowledge_base import make_entities
from measuring import QUERIES_FILE, SETTINGS_FILE

from spacy_sapbert.files import fill_folder, hash_file
from training.corpora.listing import Corpus, read_task
from training.data.mentions import EQUAL_IDS
from training.data.run_folder import write_json
from training.data.task import LinkingTask
from training.encoders.bases import SMALL, find_encoder

KNOWLEDGE_BASE_FILE = "knowledge_base.jsonl"
# Nothing but the dictionary and the mentions as they are.
PROTOCOL = "strict"


def split_list(text: str) -> list[str]:
    """Split what has commas between its parts.

    text (str): The text.
    RETURNS (list[str]): The parts, without spaces around them.
    """
    return [part.strip() for part in text.split(",")]


def read_tasks(tasks: str, mentions: str, dictionary: str) -> dict[str, LinkingTask]:
    """Read what is to be looked up, all in one dictionary.

    tasks (str): Files of linking tasks, with commas between them; empty for none.
    mentions (str): Files of mentions, with commas between them; empty for none. A task has the name of their folder.
    dictionary (str): The dictionary of these mentions.
    RETURNS (dict[str, LinkingTask]): The tasks by name.
    RAISES (ValueError): If there is none, two have one name, or their dictionaries differ.
    """
    files = [Path(file) for file in split_list(tasks) if file]
    found = [(path.stem, LinkingTask.from_disk(path)) for path in files]
    for path in (Path(file) for file in split_list(mentions) if file):
        task = read_task(Corpus([path], Path(dictionary), []), protocol=PROTOCOL)
        task.report["protocol"] = PROTOCOL
        found.append((path.resolve().parent.name, task))
    read = dict(found)
    if not read or len(read) < len(found):
        given = ", ".join(name for name, _ in found) or "none"
        raise ValueError(
            f"There must be tasks, each with a name of its own, but there are: {given}. Set the variable `tasks`, or "
            "`mentions` and `dictionary`; the folder of a file of mentions gives its task the name."
        )
    first = next(iter(read.values()))
    for name, task in read.items():
        if (task.names, task.ids) != (first.names, first.ids):
            raise ValueError(
                f"The task {name} has another dictionary than {next(iter(read))}. Systems build their index once for "
                "all tasks of a run: run the project once for each dictionary."
            )
    return read


def describe_task(task: LinkingTask) -> dict[str, Any]:
    """Tell what decides the figures of a task.

    task (LinkingTask): The task.
    RETURNS (dict): Its `hash`, `protocol`, and counts: `mentions`, `unanswerable`, `names`.
    """
    known = {single for joined in set(task.ids) for single in joined.split(EQUAL_IDS)}
    counts = {
        "mentions": len(set(task.mention_of)) or len(task.queries),
        "unanswerable": sum(known.isdisjoint(gold) for gold in task.gold),
        "names": len(task.names),
    }
    return {"hash": task.hash(), "protocol": "as in its file", **counts, **task.report}


def describe_encoder(name: str) -> dict[str, str]:
    """Tell what an encoder is called in the report, and where it is.

    name (str): A folder, a short name or a hub name; empty for the small one from a Python package.
    RETURNS (dict[str, str]): `label` and `name`.
    """
    label = "/".join(Path(name).resolve().parts[-2:]) if name and Path(name).is_dir() else name or SMALL
    find_encoder(name)  # better an error now than after the first systems
    return {"label": label, "name": name}


def main(
    run: Path,
    tasks: str = "",
    mentions: str = "",
    dictionary: str = "",
    encoders: str = "",
    neighbours: int = 30,
    batch_size: int = 128,
    repeats: int = 3,
    threads: int = 0,
) -> None:
    """Prepare the inputs of a run.

    run (Path): The folder of the run; replaced if it exists.
    tasks (str): Files of linking tasks, with commas between them.
    mentions (str): Files of mentions, with commas between them.
    dictionary (str): The dictionary of these mentions.
    encoders (str): Encoders, with commas between them.
    neighbours (int): Names to find for each mention.
    batch_size (int): Mentions looked up at a time.
    repeats (int): Passes over all mentions.
    threads (int): Processors to use; 0 for all.
    """
    load_average = os.getloadavg()[0]
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    read = read_tasks(tasks, mentions, dictionary)
    inputs = [Path(file) for text in (tasks, mentions, dictionary) for file in split_list(text) if file]
    settings = {
        "tasks": {name: describe_task(task) for name, task in read.items()},
        # Several files can have the same name, but not the same content and another hash.
        "inputs": {f"{path.resolve().parent.name}/{path.name}": hash_file(path) for path in inputs},
        "encoders": [describe_encoder(name) for name in split_list(encoders)],
        "neighbours": neighbours,
        "batch_size": batch_size,
        "repeats": repeats,
        "threads": min(threads, processors) or processors,
        "load_average": round(load_average, 2),
    }
    first = next(iter(read.values()))
    # Replacing the folder takes the results of earlier runs away, so that none can get into this run's table.
    with fill_folder(run) as folder:
        for name, task in read.items():
            task.to_disk(folder / TASKS_FOLDER / f"{name}.json")
        queries = {name: list(dict.fromkeys(task.queries)) for name, task in read.items()}
        (folder / QUERIES_FILE).write_text(json.dumps(queries, ensure_ascii=False), encoding="utf8")
        srsly.write_jsonl(folder / KNOWLEDGE_BASE_FILE, make_entities(first.names, first.ids))
        write_json(folder / SETTINGS_FILE, settings)
    for name, task in read.items():
        print(f"{name}: {len(task.queries):,} mentions, {len(queries[name]):,} distinct; {len(task.names):,} names.")


if __name__ == "__main__":
    typer.run(main)
