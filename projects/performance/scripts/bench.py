"""Measure one thing beside its plain implementation: `python scripts/bench.py NAME`, some of them after `prepare`."""

from __future__ import annotations

import inputs
import loading
import matcher
import rrf
import run
import size
import srsly
import steps
import typer

from training.bench import Entry, make_table, write_report

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command("prepare")(inputs.prepare)
app.command("matcher")(matcher.main)
app.command("training")(steps.main)
app.command("encoder")(run.measure_encoder)
app.command("index")(run.measure_index)
app.command("pipeline")(run.measure_documents)
app.command("filters")(run.measure_filters)
for bench in (loading, size, rrf):
    app.command(bench.__name__)(bench.main)  # type: ignore[attr-defined]


@app.command()
def report() -> None:
    """Put the tables of one run together: output/report.md and output/report.json."""
    described = inputs.read_settings()["described"]
    parts = ("encoder", "prepare", "index", "filters", "pipeline", "loading")
    found = {name: srsly.read_json(inputs.OUTPUT / f"{name}.json") for name in parts}
    rows = [Entry(**{key: row[key] for key in Entry._fields}) for part in found.values() for row in part["table"]]
    facts = [fact for name in ("prepare", "encoder", "index") for fact in found[name]["facts"]]
    write_report(inputs.OUTPUT / "report", make_table(rows), facts, described, {"parts": found})


if __name__ == "__main__":
    app()
