"""Put the results of a run into one table: `report.md`, and with all that was measured, `report.json`."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import srsly
import typer
from rows import Row, make_rows
from run import Settings, start, write_json

RESULTS = ("encoder", "build", "index", "filters", "pipeline", "loading", "imports")
PACKAGES = (
    *("spacy-sapbert", "spacy", "spacy-transformers", "thinc", "torch", "transformers", "tokenizers"),
    *("scann", "polars", "pyarrow", "numpy"),
)


def find_versions() -> dict[str, str]:
    """Find the versions of what was measured.

    RETURNS (Dict[str, str]): Version by package; "-" for packages that are not installed.
    """
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "-"
    return found


def find_processor() -> str:
    """Find the name of the processor.

    RETURNS (str): Its model.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def describe_machine() -> dict[str, Any]:
    """Describe what the measurements ran on.

    RETURNS (dict): Versions, processor and platform.
    """
    return {
        "versions": find_versions(),
        "processor": find_processor(),
        "processors": os.cpu_count(),
        "platform": platform.platform(),
    }


def make_text(rows: list[Row], facts: list[str]) -> str:
    """Write a table with remarks below.

    rows (List[Row]): The rows.
    facts (List[str]): The remarks.
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
    temporary = output / f".{name}.md.new"
    temporary.write_text(text, encoding="utf8")
    os.replace(temporary, output / f"{name}.md")
    print(text)


def make_report(settings: Settings, report: dict[str, Any], rows: list[Row]) -> str:
    """Write the report.

    settings (Settings): The settings of the run.
    report (dict): What `report.json` holds.
    rows (List[Row]): The rows of the table.
    RETURNS (str): Markdown.
    """
    versions = ", ".join(f"{package} {number}" for package, number in report["versions"].items())
    index, encoder = report["results"]["index"], report["results"]["encoder"]
    facts = [
        f"Names: {settings.names}. Mentions: {settings.mentions}. Seed {settings.seed}.",
        f"Encoder: {Path(settings.encoder).name}, {encoder['pooling']} pooling, {encoder['max_length']} tokens, "
        f"{encoder['fingerprint'][:8]}.",
        f"Index: {', '.join(f'{key} {value}' for key, value in index['configuration'].items())}.",
        f"Processor: {report['processor']}, {settings.threads} of {report['processors']} used, load average "
        f"{settings.load_average:g} before the run.",
        f"Versions: {versions}.",
    ]
    return make_text(rows, facts)


def main(run: Path, output: Path) -> None:
    """Print the table and write the report.

    run (Path): The folder of the run.
    output (Path): The folder for `report.md` and `report.json`.
    """
    machine = describe_machine()
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
