"""Measure loading of the saved pipeline in new processes, after moving its folder."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import typer
from run import start
from subprocesses import run_script
from tqdm import tqdm

from training.data.run_folder import write_json

PROCESSES = 5


def load_moved(run: Path, threads: int) -> list[dict[str, Any]]:
    """Load the pipeline from another place, once for the page cache and then for the measurement.

    run (Path): The folder of the run.
    threads (int): Processors to use.
    RETURNS (list[dict]): What each process but the first has measured.
    """
    with TemporaryDirectory(dir=run, prefix="moved ") as folder:
        moved = Path(folder) / "elsewhere"
        os.replace(run / "pipeline", moved)
        try:
            measured = []
            for _ in tqdm(range(PROCESSES + 1), desc="Loading the pipeline", unit="process"):
                measured.append(run_script("load_once.py", str(moved), str(run / "docs.spacy"), str(threads)))
            return measured[1:]
        finally:
            os.replace(moved, run / "pipeline")


def main(run: Path) -> None:
    """Measure import time, load time, memory and size on disk.

    run (Path): The folder of the run.
    """
    settings = start(run)
    measured = load_moved(run, settings.threads)
    if any(process["linked"] == 0 for process in measured):
        raise RuntimeError("The moved pipeline links nothing.")
    states = measured[0]["memory"]
    result = {
        "import_seconds": median(process["seconds"]["import"] for process in measured),
        "load_seconds": median(process["seconds"]["load"] for process in measured),
        "peak_bytes": {state: max(process["memory"][state] for process in measured) for state in states},
        "disk_bytes": sum(path.stat().st_size for path in (run / "pipeline").rglob("*") if path.is_file()),
        "processes": measured,
    }
    write_json(run / "loading.json", result)


if __name__ == "__main__":
    typer.run(main)
