"""The commands that train CODER and CODER++."""

from __future__ import annotations

import typer

from .application import ConfigPath, app, read_overrides
from .runs import echo_scores


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def coder(context: typer.Context, config: ConfigPath) -> None:
    """Train CODER on names and triples. Settings are given as for `pretrain`, over those of the config file."""
    from ..methods.coder import read_coder_settings, train_coder

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


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def coder_plusplus(context: typer.Context, config: ConfigPath) -> None:
    """Train CODER++ on names beside their nearest ones. Settings are given as for `pretrain`."""
    from ..methods.coder_plusplus import read_coder_plusplus_settings, train_coder_plusplus

    report = train_coder_plusplus(read_coder_plusplus_settings(config, read_overrides(context.args)))
    if report:
        training, data = report["training"], report["data"]
        typer.echo(
            f"{data['distinct_names']:,} names of {data['concepts']:,} concepts; no anchors: "
            f"{data['names_without_synonyms']:,} without synonyms. {data['homonyms']:,} names have several concepts."
        )
        seconds = sum(refresh["seconds"] for refresh in training["refreshes"])
        typer.echo(
            f"{training['steps']:,} updates, {training['groups_per_second']} groups/s, {seconds:.0f} s of them looking "
            f"for neighbours; {training['ended']}."
        )
        echo_scores(report["held_out"])
