"""Put the results of a run into one table: `report.md`, and with all that was measured, `report.json`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import srsly
import typer
from rows import Row, make_rows
from run import Settings, start

from training.data.run_folder import write_json, write_text
from training.machine import describe_machine, find_versions

RESULTS = ("encoder", "build", "index", "recall", "filters", "pipeline", "loading", "imports")
PACKAGES = (
    *("spacy-sapbert", "spacy", "spacy-transformers", "thinc", "torch", "transformers", "tokenizers"),
    *("scann", "usearch", "polars", "pyarrow", "numpy"),
)


def make_text(rows: list[Row], facts: list[str]) -> str:
    """Write a table with remarks below.

    rows (list[Row]): The rows.
    facts (list[str]): The remarks.
    RETURNS (str): Markdown.
    """
    head = ["| | | measured | target | met |", "| --- | --- | ---: | ---: | --- |"]
    return "\n".join([*head, *(row.to_markdown() for row in rows), "", *(f"* {fact}" for fact in facts), ""])


def write_report(output: Path, name: str, report: dict[str, Any], text: str) -> None:
    """Write the two files of a report, and print it.

    output (Path): The folder.
    name (str): Their name, without ending.
    report (dict): What was measured.
    text (str): The table with its remarks.
    """
    write_json(output / f"{name}.json", report)
    write_text(output / f"{name}.md", text)
    print(text)


def make_report(settings: Settings, report: dict[str, Any], rows: list[Row]) -> str:
    """Write the report.

    settings (Settings): The settings of the run.
    report (dict): What `report.json` holds.
    rows (list[Row]): The rows of the table.
    RETURNS (str): Markdown.
    """
    index, encoder = report["results"]["index"], report["results"]["encoder"]
    names, *machine = describe_run(settings, report)
    facts = [
        names,
        f"Encoder: {Path(settings.encoder).name}, {encoder['pooling']} pooling, {encoder['max_length']} tokens, "
        f"{encoder['fingerprint'][:8]}.",
        f"Index: {', '.join(f'{key} {value}' for key, value in index['configuration'].items())}.",
        *machine,
    ]
    return make_text(rows, facts)


def describe_run(settings: Settings, report: dict[str, Any]) -> list[str]:
    """Describe a run's input and machine in writing.

    settings (Settings): The settings of the run.
    report (dict): Holds the versions of packages and the machine.
    RETURNS (list[str]): Remarks.
    """
    versions = ", ".join(f"{package} {number}" for package, number in report["versions"].items())
    return [
        f"Names: {settings.names}. Mentions: {settings.mentions}. Seed {settings.seed}.",
        f"Processor: {report['processor']}, {settings.threads} of {report['processors']} used, load average "
        f"{settings.load_average:g} before the run.",
        f"Versions: {versions}.",
    ]


def main(run: Path, output: Path) -> None:
    """Print the table and write the report.

    run (Path): The folder of the run.
    output (Path): The folder for `report.md` and `report.json`.
    """
    machine = {"versions": find_versions(PACKAGES), **describe_machine()}
    settings = start(run)
    results = {name: srsly.read_json(run / f"{name}.json") for name in RESULTS}
    rows = make_rows(results)
    report = {
        "settings": asdict(settings),
        **machine,
        "table": [row.to_dict() for row in rows],
        "results": results,
    }
    write_report(output, "report", report, make_report(settings, report, rows))


if __name__ == "__main__":
    typer.run(main)
