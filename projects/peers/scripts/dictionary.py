"""The dictionary of a run, which all its tasks share."""

from __future__ import annotations

from pathlib import Path

from training.data.task import LinkingTask

TASKS_FOLDER = "tasks"


def read_dictionary(run: Path) -> tuple[list[str], list[str]]:
    """Read the dictionary.

    run (Path): The folder of the run.
    RETURNS (tuple[list[str], list[str]]): Names, and the concept of each.
    """
    task = LinkingTask.from_disk(min((run / TASKS_FOLDER).glob("*.json")))
    return task.names, task.ids
