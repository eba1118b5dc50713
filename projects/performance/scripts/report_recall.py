"""Put the measurements of the indexes into one table: `recall.md`, and with all that was measured, `recall.json`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import srsly
import typer
from recall_table import describe_recall, make_recall_table
from report import PACKAGES, describe_run, write_report
from run import start

from training.machine import describe_machine, find_versions


def main(run: Path, output: Path) -> None:
    """Print the table and write the report.

    run (Path): The folder of the run.
    output (Path): The folder for `recall.md` and `recall.json`.
    """
    settings = start(run)
    measured = srsly.read_json(run / "recall.json")
    report = {"settings": asdict(settings), "versions": find_versions(PACKAGES), **describe_machine(), **measured}
    facts = [*describe_recall(measured), *describe_run(settings, report)]
    text = "\n".join([*make_recall_table(measured), "", *(f"* {fact}" for fact in facts), ""])
    write_report(output, "recall", report, text)


if __name__ == "__main__":
    typer.run(main)
