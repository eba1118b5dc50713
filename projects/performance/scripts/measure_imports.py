"""Measure what the plugin adds to `import spacy; spacy.blank("en")`, in new processes."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import typer
from run import start
from subprocesses import run_script
from tqdm import tqdm

from training.data.run_folder import write_json

PROCESSES = 7
WAYS = ("with", "without")


def check_hidden(way: str, measured: dict[str, Any]) -> None:
    """Make sure that the plugin was there, or was not.

    way (str): "with" or "without".
    measured (dict): What the process has printed.
    RAISES (RuntimeError): If the comparison would be void.
    """
    present = measured["factory_is_known"], "spacy_sapbert" in measured["imported"]
    if present != (way == "with",) * 2:
        raise RuntimeError(f"A process {way} the plugin: factory known {present[0]}, package imported {present[1]}.")


def main(run: Path) -> None:
    """Measure blank pipelines with and without the plugin.

    run (Path): The folder of the run.
    """
    start(run)
    measured: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for turn in tqdm(range(-1, PROCESSES), desc="Making blank pipelines", unit="turn"):
        for way in WAYS if turn % 2 else reversed(WAYS):
            process = run_script("blank_once.py", way)
            check_hidden(way, process)
            if turn >= 0:  # the turn before only fills the page cache
                measured[way].append(process)
    seconds = {way: [process["seconds"] for process in processes] for way, processes in measured.items()}
    result = {
        "median_seconds": {way: median(elapsed) for way, elapsed in seconds.items()},
        "added_seconds": median(seconds["with"]) - median(seconds["without"]),
        "imported": {way: processes[0]["imported"] for way, processes in measured.items()},
        "seconds": seconds,
    }
    write_json(run / "imports.json", result)


if __name__ == "__main__":
    typer.run(main)
