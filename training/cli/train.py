"""Commands that train encoders, list and compare their settings, and export them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .application import (
    TAKES_SETTINGS,
    TRAIN,
    DeviceOption,
    command,
    config_parameter,
    find_config,
    parse_numbers,
    read_overrides,
    refuse_options,
)

if TYPE_CHECKING:
    from ..data.run_folder import RunFolder, RunReport

of_several = partial(typer.Option, rich_help_panel="Options for several encoders")
of_card = partial(typer.Option, rich_help_panel="Options for the encoder's card")


@command(TRAIN, "train quick --paths.pairs PAIRS --paths.output output/quick", context_settings=TAKES_SETTINGS)
def run_training(
    context: typer.Context,
    config: Annotated[Path, config_parameter(typer.Argument, "configs", "A file, or one of training/configs")],
    device: DeviceOption = "auto",
) -> None:
    """Train an encoder.

    Change settings of the config by `--section.name value`. The command
    `settings METHOD` lists them. A stopped run goes on where it was.
    """
    from ..data.run_folder import RunFolder
    from ..encoders.bases import SMALL
    from ..encoders.card import describe_run
    from ..engine.run import train
    from ..figures.curves import try_to_draw
    from ..methods.registry import METHODS, read_settings

    settings = read_settings(config, read_overrides(context.args))
    method = METHODS[settings.run.method]
    folder = RunFolder(settings.paths.output)
    report = train(settings)
    if report is None:
        return
    try_to_draw({folder.path.resolve().name: folder.path}, folder.curves)
    training = report.training
    unit = method.unit
    for line in (f"Started from: {settings.paths.encoder or SMALL}", *describe_run(report, settings.list_changes())):
        typer.echo(line)
    speed = training[f"{unit}_per_second"]
    typer.echo(f"{training['steps']:,} steps, {speed:.4g} {unit}/s; {training['ended']}.")
    for line in _list_scores(report.held_out):
        typer.echo(line)
    # Whole paths, because projects run in folders of their own.
    typer.echo(f"Encoder: {folder.encoder.resolve()}\nReport: {folder.report.resolve()}")
    typer.echo(f"Next: {_write_comparison(settings.paths.encoder, settings.paths.held_out, folder)}")


def _write_comparison(base: str, held_out: str, folder: RunFolder) -> str:
    """Write the command that compares an encoder with its base, for any folder."""
    base, held_out = (str(Path(path).resolve()) if path and Path(path).exists() else path for path in (base, held_out))
    words = ["measure", "encoders", str(folder.path.resolve() / "measured")]
    words += ["--systems.encoders.encoders", f"{base},{folder.encoder.resolve()}"]
    words += ["--tasks.held_out.files", held_out] if held_out else []
    return shlex.join(["python", "-m", "training", *words])


def _list_scores(held_out: dict[str, Any] | None) -> list[str]:
    """Write scores on held-out names, "before" and "after"."""
    from ..data.accuracy import take_headlines

    lines = []
    for label, scores in (held_out or {}).items():
        shares = ", ".join(f"{name} {share:.4f}" for name, share in take_headlines(scores).items())
        lines.append(f"Held-out names {label}: {shares}.")
    return lines


@command(TRAIN, "settings sapbert quick", context_settings=TAKES_SETTINGS)
def settings(
    context: typer.Context,
    method: Annotated[str, typer.Argument(help="sapbert, coder, coder_plusplus, biosyn or static")],
    config: Annotated[str, typer.Argument(help="A config whose values to print instead")] = "",
) -> None:
    """List the settings of a method, or the values in a config.

    For each setting: its default, its bounds and what it means.
    """
    from thinc.api import Config

    from spacy_sapbert.settings import list_settings

    from ..methods.registry import find_method, read_settings

    kind = find_method({"run": {"method": method}}, "the command line").Settings
    if config:
        overrides = {"run.method": method, **read_overrides(context.args)}
        typer.echo(Config(read_settings(find_config("configs")(config), overrides).to_dict()).to_str())
        return
    for row in list_settings(kind):
        default = f"default {row.default}" if row.default else "must be given"
        typer.echo(f"--{row.name}\n    {row.meaning}\n    {row.allowed}; {default}")


@command(TRAIN, "sweep mining output --tasks.held_out.files held_out.json", context_settings=TAKES_SETTINGS)
def sweep(
    context: typer.Context,
    config: Annotated[Path, config_parameter(typer.Argument, "sweeps", "A file, or one of training/sweeps")],
    output: Annotated[Path, typer.Argument(help="The folder for runs and the table")],
    tasks: Annotated[
        Path,
        config_parameter(typer.Option, "evaluation", "A config of `measure`, for its tasks"),
    ] = "encoders",  # type: ignore[assignment]  # parsed as on the command line
    seeds: Annotated[str, typer.Option(help="Seeds with commas between; empty: the config's")] = "",
    run_config: Annotated[str, typer.Option(help="The config of all runs; empty: the sweep's")] = "",
    device: DeviceOption = "auto",
) -> None:
    """Train with many settings, and compare the scores.

    Give settings of all runs as `--batch.pairs 128`, and settings of tasks
    as `--tasks.held_out.files FILE`.
    """
    from ..evaluation.config import read_measurement
    from ..sweep import read_sweep, run_sweep

    overrides = read_overrides(context.args)
    of_tasks = {name: value for name, value in overrides.items() if name.startswith(("tasks.", "measure."))}
    variants = read_sweep(
        config,
        output,
        {name: value for name, value in overrides.items() if name not in of_tasks},
        seeds=tuple(parse_numbers(seeds, "--seeds", int)),
        run_config=find_config("configs")(run_config) if run_config else None,
    )
    measurement = read_measurement(tasks, of_tasks, needs_systems=False)
    for entry in measurement.missing:
        typer.echo(f"Not measured: {entry.name}: {entry.reason}")
    typer.echo(run_sweep(variants, measurement, output))


@command(TRAIN, "export output/quick output/my_encoder --dtype bf16")
def export(
    context: typer.Context,
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="A run or an encoder, or several to average")],
    output: Annotated[Path, typer.Argument(help="The folder for the encoder")],
    dtype: Annotated[str, typer.Option(help="Stored weights: fp32, bf16 or int8; empty: the run's")] = "",
    step: Annotated[int | None, typer.Option(help="The step of the checkpoint; unset: the last")] = None,
    base_share: Annotated[str, typer.Option(help="The share of the base's weights, 0 to 1; empty: the run's")] = "",
    device: DeviceOption = "auto",
    shares: Annotated[str, of_several(help="The share of each, such as 0.5,0.25,0.25; empty: equal shares")] = "",
    held_out: Annotated[str, of_card(help="Held-out names to measure these weights on")] = "",
    results: Annotated[str, of_card(help="A results.parquet of `measure`")] = "",
    licence: Annotated[str, of_card(help="A licence, such as apache-2.0")] = "",
    made_by: Annotated[str, of_card("--command", help="The command that made the encoder")] = "",
    notes: Annotated[str, of_card(help="A Markdown file, such as the data's licences")] = "",
    threshold: Annotated[
        float, typer.Option(min=-1, max=1, help="The score that candidates need in linkers without one")
    ] = 0.0,
) -> None:
    """Write an encoder folder from a run, an encoder or several.

    A run gives the weights of its last checkpoint, or of another step. An encoder is stored with weights of another
    type, and several are averaged.
    """
    from spacy_sapbert.encoder.settings import ENCODER_FILE

    from ..encoders.card import CardNotes
    from ..encoders.export import convert_encoder, set_threshold
    from ..engine.run import export_run
    from ..methods import registry  # noqa: F401  # knows the methods

    several = len(runs) > 1
    is_encoder = not several and (Path(runs[0]) / ENCODER_FILE).is_file()
    of_run = {"base_share", "step", "held_out"}
    kind, refused = ("a mean", of_run) if several else ("one run", {"shares"})
    if is_encoder:
        kind, refused = "one encoder", {"shares", *of_run}
    refuse_options(context, kind, set(context.params) - refused)
    card = CardNotes(licence, made_by, Path(notes).read_text(encoding="utf8") if notes else "")
    stored: dict[str, Any] = {"results": results, "notes": card}
    if several:
        lines = [_export_mean(runs, output, shares, dtype=dtype or "fp32", **stored)]
    elif is_encoder:
        converted = convert_encoder(runs[0], output, dtype=dtype or "fp32", **stored)
        lines = [f"{runs[0]}, {dtype or 'fp32'}: written to {output}. Fingerprint: {converted.fingerprint}."]
    else:
        share = next(iter(parse_numbers(base_share, "--base-share", float)), None)
        report = export_run(runs[0], output, base_share=share, dtype=dtype, step=step, held_out=held_out, **stored)
        lines = [_describe_export(report, output), *_list_scores(report.held_out)]
    set_threshold(output, threshold)
    typer.echo("\n".join(lines))


def _export_mean(names: Sequence[str], output: Path, shares: str, *, dtype: str, **stored: Any) -> str:
    """Write the mean of encoders, and say which part each has."""
    from ..data.run_folder import RunFolder
    from ..encoders.export import average_encoders, check_shares

    # A run stands for its encoder.
    encoders = [str(folder) if (folder := RunFolder(name).encoder).is_dir() else name for name in names]
    weights = parse_numbers(shares, "--shares", float) or None
    mean = average_encoders(encoders, output, shares=weights, dtype=dtype, **stored)
    parts = zip(check_shares(weights, len(encoders)), encoders, strict=True)
    listed = ", ".join(f"{part:g} of {name}" for part, name in parts)
    return f"{listed}, {dtype}: written to {output}. Fingerprint: {mean.fingerprint}."


def _describe_export(report: RunReport, output: Path) -> str:
    export = report.export
    return (
        f"Step {report.training['steps']:,}, share of the base {export['base_share']:g}, {export['dtype']}: written to "
        f"{output}. Fingerprint: {report.encoder['trained']}."
    )
