"""Systems measured on tasks: what has been measured is not measured again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ...data.run_folder import list_versions, write_json, write_text
from ...errors import Errors
from ..corpora.listing import read_seen
from ..linking.accuracy import MEASUREMENT, find, judge, summarise
from ..linking.protocols import get_protocol, process_mentions
from ..systems import DictionaryBackoff, LinkerSystem, System
from .making import SystemMaker
from .predictions import write_predictions
from .specification import SystemSpecification
from .tasks import SuiteTask

RANKS = (1, 3, 5)
METRICS_FILE = "metrics.json"
TASKS_FOLDER = "tasks"
RESULTS_FOLDER = "results"
PREDICTIONS_FOLDER = "predictions"


def run_suite(
    systems: Mapping[str, SystemSpecification],
    tasks: Mapping[str, SuiteTask],
    output: str | Path,
    *,
    only: Collection[str] | None = None,
    cache: str | Path | None = None,
    missing: list[dict[str, str]] | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure systems on tasks, and write predictions, tasks and `metrics.json`.

    systems (Mapping[str, SystemSpecification]): The systems by name.
    tasks (Mapping[str, SuiteTask]): The tasks by name.
    output (str | Path): The folder to write to. What it has of the same system and task is kept.
    only (Optional[Collection[str]]): The systems to measure; None for all.
    cache (Optional[str | Path]): A folder for vectors of strings.
    missing (Optional[List[Dict[str, str]]]): Corpora that are not there, with the reason and where to get them.
    settings (Optional[dict]): What the caller has decided, for the report.
    RETURNS (dict): What is in `metrics.json`.
    """
    output = Path(output)
    begin = time.perf_counter()
    # Of a run that does not come to its end, predictions and metrics would not belong together.
    (output / METRICS_FILE).unlink(missing_ok=True)
    for name, task in tasks.items():
        _write_task(output / TASKS_FOLDER / f"{name}.json", task)
        _write_seen_ids(output / TASKS_FOLDER / f"{name}.seen_ids.json", task)
    maker = SystemMaker(systems, cache)
    measured = [system for name, system in systems.items() if only is None or name in only]
    wanted = [(system, task) for system in measured for task in tasks.values() if system.is_for(task.name)]
    rows, lacking, fingerprints = [], list(missing or []), {}
    with tqdm(wanted, desc="Measuring", unit=" tasks") as bar:
        previous = None
        for system, task in bar:
            if previous not in (None, system.name):
                maker.forget()
            previous = system.name
            bar.set_postfix_str(f"{system.name} on {task.name}")
            try:
                identity = maker.identify(system, task)
            except FileNotFoundError as error:
                lacking.append({"system": system.name, "task": task.name, "title": system.title, "reason": str(error)})
                continue
            fingerprints[system.name] = identity
            row = _measure(maker, system, task, identity, output)
            rows.append({"system": system.name, "task": task.name, **row})
    metrics = {
        "settings": {"measurement": MEASUREMENT, **(settings or {})},
        "versions": list_versions(),
        "seconds": round(time.perf_counter() - begin, 1),
        "systems": {name: _describe(systems[name], identity) for name, identity in fingerprints.items()},
        "tasks": {name: task.describe() for name, task in tasks.items()},
        "missing": lacking,
        "rows": rows,
    }
    write_json(output / METRICS_FILE, metrics)
    return metrics


def _write_task(path: Path, task: SuiteTask) -> None:
    """Write a task, unless it is there: some have half a million names."""
    mark = path.with_suffix(".sha256")
    digest = task.task.hash()
    if not (path.is_file() and mark.is_file() and mark.read_text() == digest):
        mark.unlink(missing_ok=True)
        task.task.to_disk(path)
        mark.write_text(digest)


def _write_seen_ids(path: Path, task: SuiteTask) -> None:
    """Write the concepts of the parts that a system may learn from, if there are such parts."""
    path.unlink(missing_ok=True)
    if task.corpus and task.corpus.seen:
        processed = process_mentions(read_seen(task.corpus), get_protocol("strict"))
        write_text(path, json.dumps(sorted({single for _, ids in processed for single in ids})))


def _measure(
    maker: SystemMaker, system: SystemSpecification, task: SuiteTask, identity: dict[str, Any], output: Path
) -> dict[str, Any]:
    key = hashlib.sha256(json.dumps([MEASUREMENT, RANKS, identity, task.task.hash()]).encode()).hexdigest()
    path = output / RESULTS_FOLDER / system.name / f"{task.name}.json"
    predictions = output / PREDICTIONS_FOLDER / system.name / f"{task.name}.jsonl.gz"
    if path.is_file() and predictions.is_file():
        kept = read_result(path)
        if kept["key"] == key:
            return kept["row"]
    begin = time.perf_counter()
    made = maker.make(system, task)
    found = find(made, task.task)
    seconds = time.perf_counter() - begin
    hits = judge(task.task, found, RANKS)
    row = {
        **summarise(task.task, hits),
        "similarity": system.options.get("similarity", ""),
        **_describe_search(made),
        "seconds": round(seconds, 2),
    }
    # The result comes last: without it, nobody trusts the predictions.
    path.unlink(missing_ok=True)
    write_predictions(predictions, task.task, found, hits)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"key": key, "row": row})
    return row


def _describe_search(system: System) -> dict[str, Any]:
    if isinstance(system, LinkerSystem):
        recall = system.index["recall"].get("at_1")
        return {"search": system.index["scoring"], "recall": recall}
    if isinstance(system, DictionaryBackoff):
        return {"search": "exact", "decided": dict(system.decided)}
    return {"search": "exact"}


def read_result(path: Path) -> dict[str, Any]:
    """Read what was measured of a system on a task.

    path (Path): The file.
    RETURNS (dict): `key`, a hash of all that decides the result, and `row`, as in `metrics.json`.
    RAISES (ValueError): If it is of another form.
    """
    try:
        # Not srsly, whose numbers differ in the last digit.
        result = json.loads(path.read_text(encoding="utf8"))
        if set(result) >= {"key", "row"}:
            return result
        reason: Any = "no key or no row"
    except (ValueError, TypeError) as error:
        reason = error
    raise ValueError(Errors.E747.format(path=path, reason=reason))


def _describe(system: SystemSpecification, identity: dict[str, Any]) -> dict[str, Any]:
    return {
        "title": system.title,
        "kind": system.kind,
        "description": system.description,
        "published": system.published or None,
        "group": system.group,
        "seed": system.seed,
        "identity": identity,
        "fingerprint": str(identity.get("encoder", "")).partition(" ")[0],
    }
