"""Measure one thing: `python scripts/bench.py NAME`, some of them after `prepare`."""

from __future__ import annotations

import typer
from inputs import OUTPUT, PARTS, prepare
from pipeline import measure_pipeline
from run import measure_encoder, measure_index
from sizes import measure_rrf, measure_size

from spacy_sapbert.command_line import run_app

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command("prepare")(prepare)
app.command("encoder")(measure_encoder)
app.command("index")(measure_index)
app.command("pipeline")(measure_pipeline)
app.command("rrf")(measure_rrf)
app.command("size")(measure_size)


@app.command()
def report() -> None:
    """Put the tables of one run together: output/report.md."""
    parts = [(OUTPUT / f"{part}.md").read_text(encoding="utf8") for part in PARTS]
    (OUTPUT / "report.md").write_text("\n".join(parts), encoding="utf8")


if __name__ == "__main__":
    run_app(app, "In the checkout: pip install -c constraints.txt -e '.[demo,training]'; or give --vars.names.")
