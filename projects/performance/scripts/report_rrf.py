"""Put the measurements of RRF into one table: `rrf.md`, and with all that was measured, `rrf.json`."""

from __future__ import annotations

from pathlib import Path

import srsly
import typer
from report import PACKAGES, make_text, write_report
from rrf_rows import make_rrf_rows

from training.machine import describe_machine, find_versions


def main(run: Path, output: Path) -> None:
    """Print the table and write the report.

    run (Path): The folder of the run.
    output (Path): The folder for `rrf.md` and `rrf.json`.
    """
    machine = {"versions": find_versions(PACKAGES), **describe_machine()}
    result = srsly.read_json(run / "rrf.json")
    settings = result["settings"]
    rows = make_rrf_rows(result)
    versions = ", ".join(f"{package} {number}" for package, number in machine["versions"].items())
    facts = [
        f"Names and pairs in lower case, English, without tradenames; seed {settings['seed']}.",
        f"Processor: {machine['processor']}, {settings['threads']} of {machine['processors']} used, load average "
        f"{settings['load_average']:g} before the run.",
        f"Versions: {versions}.",
    ]
    report = {**machine, "table": [row.to_dict() for row in rows], **result}
    write_report(output, "rrf", report, make_text(rows, facts))


if __name__ == "__main__":
    typer.run(main)
