"""Commands that train encoders, list their settings and export them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .application import ConfigPath, app, encoding_command, find_config, read_overrides


@encoding_command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def train(context: typer.Context, config: ConfigPath) -> None:
    """Train an encoder. Settings of the config are changed by `--section.name value`; `settings METHOD` lists them.

    Example: python -m training train quick --paths.pairs PAIRS --paths.output output/quick
    """
    from ..data.run_folder import RunFolder
    from ..encoders.bases import SMALL
    from ..engine.run import train as train_encoder
    from ..figures.curves import try_to_draw
    from ..methods.registry import METHODS, read_settings

    settings = read_settings(config, read_overrides(context.args))
    method, folder = METHODS[settings.run.method], RunFolder(settings.paths.output)
    report = train_encoder(settings)
    if report is None:
        return
    try_to_draw({folder.path.resolve().name: folder.path}, folder.curves)
    training, unit = report.training, method.unit
    for line in (f"Started from: {settings.paths.encoder or SMALL}", *method.describe(report).lines):
        typer.echo(line)
    speed = training[f"{unit}_per_second"]
    typer.echo(f"{training['steps']:,} steps, {speed:.4g} {unit}/s; {training['ended']}.")
    echo_scores(report.held_out)
    typer.echo(f"Encoder: {folder.encoder}\nReport: {folder.report}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def settings(
    context: typer.Context,
    method: Annotated[str, typer.Argument(help="sapbert, coder, coder_plusplus, biosyn or static")],
    config: Annotated[str, typer.Argument(metavar="[CONFIG]", help="A config, to print all values of")] = "",
) -> None:
    """List the settings of a method: default, bounds and meaning of each. With a config, print all its values.

    Example: python -m training settings sapbert quick
    """
    from thinc.api import Config

    from spacy_sapbert.settings import list_settings

    from ..methods.registry import find_method, read_settings

    known = find_method({"run": {"method": method}}, "the command line").Settings
    if config:
        overrides = {"run.method": method, **read_overrides(context.args)}
        typer.echo(Config(read_settings(find_config("configs")(config), overrides).to_dict()).to_str())
        return
    for row in list_settings(known):
        default = f"default {row.default}" if row.default else "must be given"
        typer.echo(f"--{row.name}\n    {row.meaning}\n    {row.allowed}; {default}")


@encoding_command()
def export(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="A run; or several runs or encoders to average")],
    output: Annotated[Path, typer.Argument(help="The encoder folder to make")],
    base_share: Annotated[
        str, typer.Option(help="Share of the base's weights, 0 to 1; empty: as the run's settings say")
    ] = "",
    shares: Annotated[str, typer.Option(help="The share of each encoder, as 0.5,0.25,0.25; empty: equal ones")] = "",
    dtype: Annotated[
        str, typer.Option(help="Type of the stored weights: fp32, or bf16 for half the size; empty: the method's")
    ] = "",
    step: Annotated[int | None, typer.Option(help="Of which checkpoint; unset: the last")] = None,
    held_out: Annotated[str, typer.Option(help="Held-out names to measure these weights on, for the card")] = "",
    results: Annotated[str, typer.Option(help="For the card: a results.parquet of `measure`")] = "",
    licence: Annotated[str, typer.Option(help="For the card, such as apache-2.0")] = "",
    command: Annotated[str, typer.Option(help="For the card: the command that made the encoder")] = "",
    notes: Annotated[str, typer.Option(help="For the card: a file of Markdown, such as the data's licences")] = "",
) -> None:
    """Make an encoder folder of a run's checkpoint, or of the mean of several encoders' weights.

    Example: python -m training export output/quick output/my_encoder --dtype bf16
    """
    from ..encoders.card import CardNotes

    if notes and not Path(notes).is_file():
        raise FileNotFoundError(f"There is no file {notes} (seen from {Path.cwd()}), given as --notes.")
    facts = CardNotes(licence, command, Path(notes).read_text(encoding="utf8") if notes else "")
    of_one = {"--base-share": base_share, "--step": "" if step is None else step, "--held-out": held_out}
    for option, value in ({"--shares": shares} if len(runs) == 1 else of_one).items():
        if value != "":
            wanted = "two encoders or more" if option == "--shares" else "one run alone"
            raise ValueError(f"{option} is {value!r}, but goes with {wanted}. Leave it out.")
    if len(runs) > 1:
        _average(runs, output, shares, dtype, results, facts)
        return
    from ..engine.run import export_run
    from ..methods import registry  # noqa: F401  # knows the methods

    report = export_run(
        runs[0],
        output,
        base_share=_read_numbers(base_share, "--base-share")[0] if base_share.strip() else None,
        dtype=dtype,
        step=step,
        held_out=held_out,
        results=results,
        notes=facts,
    )
    made = report.export
    typer.echo(
        f"Step {report.training['steps']:,}, share of the base {made['base_share']:g}, {made['dtype']}: written to "
        f"{output}. Fingerprint: {report.encoder['trained']}."
    )
    echo_scores(report.held_out)


def _average(names: list[str], output: Path, shares: str, dtype: str, results: str, notes: Any) -> None:
    from ..data.run_folder import RunFolder
    from ..encoders.export import average_encoders, check_shares

    # A run stands for its encoder.
    encoders = [str(folder) if (folder := RunFolder(name).encoder).is_dir() else name for name in names]
    given = _read_numbers(shares, "--shares") if shares.strip() else None
    made = average_encoders(encoders, output, shares=given, dtype=dtype or "fp32", results=results, notes=notes)
    listed = ", ".join(
        f"{share:g} of {name}" for share, name in zip(check_shares(given, len(encoders)), encoders, strict=True)
    )
    typer.echo(f"{listed}, {dtype or 'fp32'}: written to {output}. Fingerprint: {made.fingerprint}.")


def _read_numbers(text: str, option: str) -> list[float]:
    """Read numbers from a project's variable."""
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        allowed = "numbers from 0 to 1 with commas between them"
        raise ValueError(f"{option} is {text!r}, but has to be {allowed}.") from error


def echo_scores(held_out: dict[str, Any] | None) -> None:
    """Print scores on held-out names, "before" and "after"."""
    from ..data.accuracy import take_headlines

    for label, scores in (held_out or {}).items():
        shares = ", ".join(f"{name} {share:.4f}" for name, share in take_headlines(scores).items())
        typer.echo(f"Held-out names {label}: {shares}.")
