"""The command that trains CODER."""

from __future__ import annotations

from pathlib import Path

import typer

from .application import app, read_overrides
from .runs import echo_scores


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def coder(context: typer.Context, config: Path) -> None:
    """Train CODER on names and triples. Settings are given as for `pretrain`, over those of the config file."""
    from ..coder import read_coder_settings, train_coder

    report = train_coder(read_coder_settings(config, read_overrides(context.args)))
    if report:
        training, data = report["training"], report["data"]
        rare = sum(data["rare_labels"].values())
        typer.echo(
            f"{data['triples']:,} of {data['triples_read']:,} triples, {len(data['labels']):,} labels; left out: "
            f"{data['unknown_concept']:,} of unknown concepts, {data['head_without_names']:,} with a head and "
            f"{data['tail_without_names']:,} with a tail without names, {rare:,} of {len(data['rare_labels']):,} rare "
            "labels."
        )
        times = training["batches_drawn_per_second"] / max(training["batches_per_second"], 1e-9)
        typer.echo(
            f"{training['steps']:,} updates, {training['triplets_per_second']:.0f} triplets/s; {training['ended']}. "
            f"Batches are drawn {times:.0f} times as fast as learned."
        )
        echo_scores(report["held_out"])
