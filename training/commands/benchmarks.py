"""The command that measures systems on corpora, for the report of the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spacy_sapbert.errors import Errors

from .application import app, parse_files, parse_list
from .measures import BENCHMARKS_OPTION, CORPORA, HELD_OUT_OPTION, MAX_NAMES_OPTION

# So that all corpora are listed as missing.
NOWHERE = "corpus/benchmarks"


@app.command()
def evaluate(
    systems: Annotated[Path, typer.Argument(help="A config file that lists the systems")],
    output: Annotated[Path, typer.Argument(help="A folder for metrics.json, predictions and what the report needs")],
    held_out: Annotated[str, HELD_OUT_OPTION] = "",
    benchmarks: Annotated[str, BENCHMARKS_OPTION] = "",
    terminology: Annotated[str, typer.Option(help="A folder with the names for corpora without a dictionary")] = "",
    corpora: Annotated[Path, typer.Option(help="A config file that lists the corpora and their protocols")] = CORPORA,
    cache: Annotated[str, typer.Option(help="A folder for vectors of strings; empty for none")] = "",
    only: Annotated[str, typer.Option(help="Systems to measure, with commas between them; empty for all")] = "",
    max_names: Annotated[int, MAX_NAMES_OPTION] = 0,
) -> None:
    """Measure systems on all corpora that are there, under each of their protocols."""
    from ..evaluation import read_corpora
    from ..evaluation.suite import make_tasks, read_systems, run_suite
    from ..held_out import read_held_out

    specifications = read_systems(systems)
    chosen = parse_list(only) or list(specifications)
    unknown = [name for name in chosen if name not in specifications]
    if unknown:
        raise ValueError(Errors.E620.format(what="system", value=", ".join(unknown), allowed=", ".join(specifications)))
    found, lacking = read_corpora(corpora, benchmarks or NOWHERE, terminology=terminology or None)
    names = {Path(file).stem: read_held_out(file) for file in parse_files(held_out)}
    tasks = make_tasks(found, names, max_names=max_names)
    if not tasks:
        raise ValueError(Errors.E678.format(benchmarks=benchmarks, path=corpora))
    for name, task in tasks.items():
        typer.echo(f"{name}: {len(task.task.queries):,} queries, {len(task.task.names):,} names.")
    missing = [
        {"corpus": name, "title": corpus.title, "reason": reason, "obtain": corpus.obtain}
        for name, (corpus, reason) in lacking.items()
    ]
    metrics = run_suite(specifications, tasks, output, only=chosen, cache=cache or None, missing=missing)
    for row in metrics["rows"]:
        typer.echo(
            f"{row['system']} on {row['task']}: {row['acc_at_1']:.1%} right at rank 1, {row['acc_at_5']:.1%} at 5."
        )
    for entry in metrics["missing"]:
        typer.echo(
            f"Not measured: {entry.get('corpus') or entry['system'] + ' on ' + entry['task']}: {entry['reason']}"
        )
