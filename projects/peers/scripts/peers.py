"""Collect the measurements of all systems, and score them with one measure."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from measuring import Ranking
from rankings import StoredRankings, read_rankings, share_of_equal_firsts

from training.data.task import LinkingTask
from training.evaluation.measure import measure_linking

# The systems in the order of the table, by the beginnings of their keys.
ORDER = ("exact-match", "tfidf", "scispacy", "plain-loop", "exact-index-fp32", "exact-index", "scann-index")
# That with which the others that have the same encoder should agree.
REFERENCE = "exact-index-fp32"


def collect(run: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Judge all systems of a run on all tasks, by one measure.

    run (Path): The folder of the run.
    settings (dict): The settings of the run.
    RETURNS (list[dict]): A flat dict for each system and task: see `describe`.
    """
    tasks = {name: LinkingTask.from_disk(run / "tasks" / f"{name}.json") for name in settings["tasks"]}
    measured = {path.stem: json.loads(path.read_text(encoding="utf8")) for path in (run / "measured").glob("*.json")}
    references = {one["encoder"]: key for key, one in measured.items() if key.startswith(REFERENCE)}
    peers = []
    for key in sorted(measured, key=_place):
        reference = references.get(measured[key]["encoder"])
        for name, task in tasks.items():
            found = read_rankings(run / "rankings" / key / f"{name}.jsonl")
            expected = read_rankings(run / "rankings" / reference / f"{name}.jsonl") if reference else None
            peers.append({"task": name, **describe(task, measured[key], measured[key]["tasks"][name], found, expected)})
    return peers


def describe(
    task: LinkingTask,
    measurement: dict[str, Any],
    timed: dict[str, Any],
    found: dict[str, Ranking],
    expected: dict[str, Ranking] | None,
) -> dict[str, Any]:
    """Describe how a system did on a task.

    task (LinkingTask): The task.
    measurement (dict): What `measuring.write_measurement` has written of the system.
    timed (dict): The same of this task: `queries` and `seconds`.
    found (dict[str, Ranking]): What the system has found for each query.
    expected (dict[str, Ranking] | None): What exact search with the same encoder has found.
    RETURNS (dict): `system`, `encoder`, `precision`, `neighbours`; `acc_at_1`, `acc_at_5` (distinct concepts),
        `acc_at_1_any_tied`, `row_acc_at_5` (names; None where a system only gives concepts); `mentions`,
        `distinct_mentions`, `mentions_per_second` (of distinct ones, in the median pass), `build_seconds` (None if each
        search builds), `load_seconds` (None if nothing is saved), `peak_bytes`, `peak_bytes_of_imports`;
        `same_first_concept`, the share of distinct mentions for which the first concept is that of `expected`.
    """
    scores = measure_linking(StoredRankings(task.ids, found), task)
    settings, memory = measurement["settings"], measurement["memory"]
    return {
        "system": measurement["system"],
        "encoder": measurement["encoder"],
        "precision": settings.get("precision"),
        "neighbours": settings["k"],
        "acc_at_1": scores["acc_at_1"],
        "acc_at_5": scores["acc_at_5"],
        "acc_at_1_any_tied": scores["acc_at_1_any_tied"],
        "row_acc_at_5": scores["row_acc_at_5"] if measurement["ranks"] == "names" else None,
        "mentions": scores["mentions"],
        "distinct_mentions": timed["queries"],
        "mentions_per_second": timed["queries"] / median(timed["seconds"]),
        "build_seconds": None if measurement["build"] is None else sum(measurement["build"].values()),
        "load_seconds": measurement["load"],
        "peak_bytes": memory["searched"],
        "peak_bytes_of_imports": memory["imported"],
        "same_first_concept": share_of_equal_firsts(found, expected) if expected else None,
    }


def _place(key: str) -> tuple[int, str]:
    # The longest beginning counts: "exact-index-fp32" is no "exact-index".
    fitting = [start for start in ORDER if key.startswith(start)]
    return ORDER.index(max(fitting, key=len)), key
