"""The command that trains BioSyn."""

from __future__ import annotations

import typer

from .application import ConfigPath, app, read_overrides


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def biosyn(context: typer.Context, config: ConfigPath) -> None:
    """Train BioSyn on the mentions of a corpus. Settings are given as for `pretrain`, over those of the config file."""
    from ..methods.biosyn import read_biosyn_settings, train_biosyn

    report = train_biosyn(read_biosyn_settings(config, read_overrides(context.args)))
    training = report["training"]
    last = training["of_epochs"][-1]
    typer.echo(
        f"{training['steps']:,} steps, {training['epochs']:.2f} epochs, {training['seconds'] / 60:.1f} minutes; "
        f"{training['ended']}. In the last epoch: loss {last['loss']:.4f}, {100 * last['with_positive']:.1f} % of the "
        f"mentions with a right candidate. Weight of shared characters: {report['sparse_weight']:.4f}."
    )
