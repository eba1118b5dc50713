"""The command that measures encoders on opposites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .application import encoding_command, require_files

TABLE = "opposites.md"


@encoding_command()
def opposites(
    encoders: Annotated[str, typer.Argument(help="Folders or hub names, with commas between; empty for the small one")],
    pairs: Annotated[str, typer.Argument(help="Files that `split --opposites` wrote, with commas between")],
    output: Annotated[Path, typer.Argument(help=f"A folder for {TABLE}; results that it has are kept")],
) -> None:
    """Measure whether encoders tell concepts from their opposites: left from right, type 1 from type 2."""
    from ..data.run_folder import write_text
    from ..data.splits import read_held_out_opposites
    from ..evaluation.measure import ResultStore, measure
    from ..evaluation.probes.opposites import OppositesTask, list_rows
    from ..evaluation.report.writing import format_rows
    from ..evaluation.side_by_side import list_encoders

    files = require_files(pairs, "pairs of opposites", "opposites", "pairs")
    tasks = {Path(file).stem: OppositesTask(read_held_out_opposites(file)) for file in files}
    results = measure(list_encoders(encoders), tasks, ResultStore(output))
    sections = []
    for name in tasks:
        rows = list_rows([of_tasks[name].figures for of_tasks in results.values()])
        sections.append(f"## {name}\n\n{format_rows(['kind', 'pairs', *results], rows, n_text_columns=1)}")
    table = "\n".join(sections)
    write_text(output / TABLE, table)
    typer.echo(table)
    typer.echo(f"The table is {output / TABLE}.")
