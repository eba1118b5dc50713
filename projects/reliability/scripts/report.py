"""Put the lines of a run into one table, and exit with 1 if there is a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import srsly
import typer

from training.data.run_folder import write_json, write_text
from training.machine import describe_machine, find_versions

PACKAGES = ("spacy-sapbert", "spacy", "spacy-transformers", "torch", "transformers", "polars", "hypothesis")
# Failures that the text tells of each check. The data have more.
SHOWN = 3
# Characters of a failure in the text.
LONGEST = 300


def collect(run: Path, parts: list[str]) -> dict[str, Any]:
    """Collect what the scripts have written.

    run (Path): The folder of the run.
    parts (list[str]): The scripts' names for it.
    RETURNS (dict): `config` by part, `checks`, and `missing` parts, which count as failures.
    """
    found = {part: srsly.read_json(run / f"{part}.json") for part in parts if (run / f"{part}.json").is_file()}
    checks = [check for data in found.values() for check in data["checks"]]
    return {
        "config": {part: data["config"] for part, data in found.items()},
        "missing": [part for part in parts if part not in found],
        "checks": checks,
    }


def make_table(checks: list[dict[str, Any]]) -> str:
    """Write the table.

    checks (list[dict]): The lines.
    RETURNS (str): Markdown.
    """
    lines = ["| check | done | failures (target 0) | seconds |", "| --- | --- | ---: | ---: |"]
    for check in checks:
        done = [f"{n:,} {what}" for what, n in check["done"].items()]
        done += [f"{what}: {value:g}" for what, value in check["figures"].items()]
        failures = f"**{check['failures']:,}**" if check["failures"] else "0"
        lines.append(f"| {check['check']} | {', '.join(done)} | {failures} | {check['seconds']:,.0f} |")
    return "\n".join(lines)


def make_text(report: dict[str, Any]) -> str:
    """Write the report: the table, what failed, and what it depends on.

    report (dict): As written to the JSON file.
    RETURNS (str): Markdown.
    """
    lines = [make_table(report["checks"]), ""]
    for check in report["checks"]:
        for failure in check["examples"][:SHOWN]:
            lines.append(f"- {check['check']}: `{' '.join(failure.split())[:LONGEST]}`")
    lines += [f"- Without a result: {part}." for part in report["missing"]]
    versions = ", ".join(f"{package} {number}" for package, number in report["versions"].items())
    settings = "; ".join(
        f"{part} {', '.join(f'{key} {value}' for key, value in config.items())}"
        for part, config in report["config"].items()
    )
    lines += ["", f"- Settings: {settings}.", f"- Processor: {report['processor']}.", f"- Versions: {versions}."]
    return "\n".join(lines)


def main(run: Path, output: Path, parts: list[str]) -> None:
    """Print the table, and write it as text and as data.

    run (Path): The folder of the run.
    output (Path): The files to write, without their endings.
    parts (list[str]): The parts that have to be there.
    """
    report = {**collect(run, parts), "versions": find_versions(PACKAGES), **describe_machine()}
    text = make_text(report)
    write_json(output.with_suffix(".json"), report)
    write_text(output.with_suffix(".md"), text)
    print(text)
    if report["missing"] or any(check["failures"] for check in report["checks"]):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
