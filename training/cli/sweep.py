"""The command that compares settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .application import encoding_command, find_config, parse_seeds, read_overrides


@encoding_command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def sweep(
    context: typer.Context,
    config: Annotated[
        Path,
        typer.Argument(
            parser=find_config("sweeps"), metavar="CONFIG", help="A file, or the name of one in training/sweeps"
        ),
    ],
    output: Path,
    tasks: Annotated[
        Path,
        typer.Option(parser=find_config("evaluation"), metavar="CONFIG", help="A config of `measure`: its tasks alone"),
    ] = "encoders",  # type: ignore[assignment]  # parsed as on the command line
    seeds: Annotated[str, typer.Option(help="Seeds in place of the config's, with commas between")] = "",
    run_config: Annotated[
        str, typer.Option(help="The config of the runs in place of the sweep's and of its `settings`, such as sapbert")
    ] = "",
) -> None:
    """Compare settings: many runs, and a table of their scores. Give settings of all runs as `--batch.pairs 128`, and
    those of tasks as `--tasks.held_out.files FILE`.

    Example: python -m training sweep mining output/mining --tasks.held_out.files output/split/held_out.json
    """
    from ..evaluation.config import read_measurement
    from ..sweep import read_sweep, run_sweep

    given = read_overrides(context.args)
    of_tasks = {name: value for name, value in given.items() if name.startswith(("tasks.", "measure."))}
    variants = read_sweep(
        config,
        output,
        {name: value for name, value in given.items() if name not in of_tasks},
        seeds=parse_seeds(seeds),
        run_config=find_config("configs")(run_config) if run_config else None,
    )
    measurement = read_measurement(tasks, of_tasks, needs_systems=False)
    for entry in measurement.missing:
        typer.echo(f"Not measured: {entry.name}: {entry.reason}")
    typer.echo(run_sweep(variants, measurement, output))
