"""Commands that measure encoders across languages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spacy_sapbert.progress import show_phase

from .application import SEED_OPTION, app, open_terminology


@app.command()
def language_split(
    terminology: Annotated[Path, typer.Argument(help="A folder that `preprocess --languages all` has written")],
    output: Annotated[Path, typer.Argument(help="A folder for terminology/ and a task of each language")],
    held_out: Annotated[int, typer.Option(help="Concepts to hold out, with their names in all languages")] = 2000,
    dictionary: Annotated[int, typer.Option(help="Concepts to search among, the held-out ones included; 0: all")] = 0,
    target: Annotated[str, typer.Option(help="LAT of the names to search")] = "ENG",
    max_queries: Annotated[int, typer.Option(help="Queries of a language at most; 0: one of each concept")] = 0,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Hold concepts out of a terminology, to look up their names in each language among the names in the target."""
    from ..data.language_split import name_task_file, write_language_split

    loaded = open_terminology(terminology)
    with show_phase("Holding concepts out"):
        rest, tasks = write_language_split(
            loaded,
            output,
            held_out=held_out,
            dictionary=dictionary,
            target=target,
            max_queries=max_queries,
            seed=seed,
        )
    for language, task in tasks.items():
        counts = task.report
        typer.echo(
            f"{name_task_file(language)}: {len(task.queries):,} queries of {counts['names']:,} names; left out: "
            f"{counts['identical']:,} written as in {target}, {counts['shared']:,} that another concept has too, "
            f"{counts['not_drawn']:,} not drawn."
        )
    first = next(iter(tasks.values()))
    typer.echo(f"{len(first.names):,} names of {first.report['concepts']:,} concepts to search.")
    typer.echo(f"{len(rest):,} concepts are left for training. Written to {output}.")
