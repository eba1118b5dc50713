"""Code common to all measurements. It only uses the standard library, because scispaCy's environment runs it too."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SETTINGS_FILE = "settings.json"
QUERIES_FILE = "queries.json"
# ru_maxrss is in bytes on macOS, else in kibibytes.
UNIT = 1 if sys.platform == "darwin" else 1024

Ranking = tuple[list[str], list[float]]


def start(run: Path) -> dict[str, Any]:
    """Read the settings of a run, and use as many processors as they say. To be called before NumPy is imported.

    run (Path): The folder of the run.
    RETURNS (dict): The settings that `prepare.py` has written.
    """
    settings = json.loads((run / SETTINGS_FILE).read_text(encoding="utf8"))
    threads = settings["threads"]
    # nmslib and ScaNN start threads of their own: narrowing the process down is all that limits them.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    return settings


def peak_memory() -> int:
    """Return the most memory that the process has had in place so far.

    RETURNS (int): Bytes, mapped files included.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        # Unlike `getrusage` it does not count what the process that started this one had in place.
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT


def time_passes(
    search: Callable[[Sequence[str]], list[Ranking]], queries: Sequence[str], *, batch_size: int, repeats: int
) -> tuple[list[float], list[Ranking]]:
    """Look up all queries several times.

    search (Callable): Gives the ranking of each of some queries. It must not remember any.
    queries (Sequence[str]): The queries.
    batch_size (int): Queries at a time; 0 for all.
    repeats (int): Passes.
    RETURNS (tuple[list[float], list[Ranking]]): The seconds of each pass, and the rankings of the last one.
    """
    size = batch_size or len(queries)
    batches = [queries[begin : begin + size] for begin in range(0, len(queries), size)]
    # What libraries do only once is no part of any pass.
    search(batches[0][:1])
    seconds: list[float] = []
    found: list[Ranking] = []
    for _ in range(repeats):
        begin = time.perf_counter()
        found = [ranking for batch in batches for ranking in search(batch)]
        seconds.append(time.perf_counter() - begin)
    return seconds, found


def measure_tasks(
    run: Path, key: str, search: Callable[[Sequence[str]], list[Ranking]], *, batch_size: int, repeats: int
) -> dict[str, dict[str, Any]]:
    """Look up the mentions of each task, and write what was found.

    run (Path): The folder of the run.
    key (str): The system's.
    search (Callable): Gives the ranking of each of some queries.
    batch_size (int): Queries at a time; 0 for all.
    repeats (int): Passes.
    RETURNS (dict): For each task the number of `queries`, and the `seconds` of each pass.
    """
    tasks = {}
    for task, queries in json.loads((run / QUERIES_FILE).read_text(encoding="utf8")).items():
        seconds, found = time_passes(search, queries, batch_size=batch_size, repeats=repeats)
        write_rankings(run, key, task, queries, found)
        tasks[task] = {"queries": len(queries), "seconds": seconds}
    return tasks


def write_rankings(run: Path, key: str, task: str, queries: Sequence[str], found: Sequence[Ranking]) -> None:
    """Write what a system has found for each query as JSON lines: `query`, `ids`, best first, and their `scores`.

    run (Path): The folder of the run.
    key (str): The system's.
    task (str): The task's name.
    queries (Sequence[str]): The queries.
    found (Sequence[Ranking]): The ids and scores of each.
    """
    folder = run / "rankings" / key
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"query": query, "ids": ids, "scores": scores}, ensure_ascii=False)
        for query, (ids, scores) in zip(queries, found, strict=True)
    ]
    _write(folder / f"{task}.jsonl", "".join(f"{line}\n" for line in lines))


def write_measurement(run: Path, key: str, measurement: dict[str, Any]) -> None:
    """Write what was measured of a system.

    run (Path): The folder of the run.
    key (str): The system's.
    measurement (dict): `system`, `encoder`, `ranks` ("names" or "concepts"), `settings`, `versions`, `build` (seconds
        of its parts; None if building is part of the search), `load` (seconds to load what was saved; None if nothing
        is), `memory` (peak bytes after each step), and `tasks`, as `measure_tasks` gives them.
    """
    folder = run / "measured"
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"{key}.json", json.dumps(measurement, indent=2, ensure_ascii=False))


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf8")
    temporary.replace(path)
