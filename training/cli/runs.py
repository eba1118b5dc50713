"""Commands that train encoders, export them and draw their curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import Errors
from .application import ConfigPath, app, encoding_command, read_overrides

if TYPE_CHECKING:
    from ..encoders.card import CardNotes

ResultsOption = Annotated[
    str, typer.Option(help='Other results for the card: {"fingerprint": "...", "scores": {name: share}}')
]
LicenceOption = Annotated[str, typer.Option(help="For the card, such as apache-2.0")]
MadeByOption = Annotated[str, typer.Option(help="For the card: the command that made the encoder")]
NotesOption = Annotated[str, typer.Option(help="For the card: a file of Markdown, such as the data's licences")]


@encoding_command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def train(context: typer.Context, config: ConfigPath) -> None:
    """Train an encoder. Settings are given as `--batch.pairs 128`, over those of the config file; the command
    `settings` lists them.
    """
    from ..data.run_folder import RunFolder
    from ..encoders.bases import SMALL
    from ..methods.registry import METHODS, read_settings
    from ..runner import train as train_method

    settings = read_settings(config, read_overrides(context.args))
    method, folder = METHODS[settings.run.method], RunFolder(settings.paths.output)
    report = train_method(settings)
    if report is None:
        return
    typer.echo(f"Started from: {settings.paths.encoder or SMALL}")
    training, speed = report.training, report.training[f"{method.unit}_per_second"]
    for line in method.summarise(report):
        typer.echo(line)
    typer.echo(f"{training['steps']:,} steps, {speed:.4g} {method.unit}/s; {training['ended']}.")
    echo_scores(report.held_out)
    if folder.encoder.is_dir():
        typer.echo(f"Encoder: {folder.encoder}")
    typer.echo(f"Report: {folder.report}")


@app.command()
def settings(method: Annotated[str, typer.Argument(help="sapbert, coder, coder_plusplus, biosyn or static")]) -> None:
    """List the settings of a method: values, default and meaning of each."""
    from spacy_sapbert.settings import list_settings

    from ..methods.registry import find_method

    for row in list_settings(find_method({"run": {"method": method}}, "the command line").Settings):
        default = f"default {row.default}" if row.default else "must be given"
        typer.echo(f"--{row.name}\n    {row.meaning}\n    {row.allowed}; {default}")


def parse_share(text: str) -> float | None:
    """Read the share of the base's weights from a project's variable.

    text (str): A number, or nothing.
    RETURNS (float | None): The share; None if there is none.
    RAISES (ValueError): If it is no number.
    """
    try:
        return float(text) if text.strip() else None
    except ValueError as error:
        raise ValueError(Errors.E748.format(value=text)) from error


def read_notes(licence: str, command: str, notes: str) -> CardNotes:
    """Read the facts for a card from options.

    licence (str): The hub's identifier of the licence.
    command (str): The command that made the encoder.
    notes (str): A file of Markdown; empty for none.
    RETURNS (CardNotes): The facts.
    RAISES (FileNotFoundError): If there is no such file.
    """
    from ..encoders.card import CardNotes

    if notes and not Path(notes).is_file():
        raise FileNotFoundError(Errors.E102.format(file=notes, cwd=Path.cwd()))
    return CardNotes(licence, command, Path(notes).read_text(encoding="utf8") if notes else "")


@encoding_command()
def export(
    run: Path,
    output: Path,
    base_share: Annotated[
        str, typer.Option(help="Share of the base's weights, 0 to 1; empty: as the run's settings say")
    ] = "",
    dtype: Annotated[
        str,
        typer.Option(
            help="Type of the stored weights: fp32, or bf16 for half the size; empty: as the method stores them"
        ),
    ] = "",
    step: Annotated[int | None, typer.Option(help="Of which checkpoint; unset: the last")] = None,
    held_out: Annotated[str, typer.Option(help="Held-out names to measure these weights on, for the card")] = "",
    results: ResultsOption = "",
    licence: LicenceOption = "",
    command: MadeByOption = "",
    notes: NotesOption = "",
) -> None:
    """Make an encoder folder of a run's checkpoint, whether the run has ended or not."""
    from ..run_export import export_run

    report = export_run(
        run,
        output,
        base_share=parse_share(base_share),
        dtype=dtype,
        step=step,
        held_out=held_out,
        results=results,
        notes=read_notes(licence, command, notes),
    )
    made = report.export
    typer.echo(
        f"Step {report.training['steps']:,}, share of the base {made['base_share']:g}, {made['dtype']}: written to "
        f"{output}. Fingerprint: {report.encoder['trained']}."
    )
    echo_scores(report.held_out)


@app.command()
def curves(
    runs: Annotated[list[str], typer.Argument(help="Folders of runs, or NAME=FOLDER for another name in the legend")],
    output: Annotated[Path, typer.Option(help="The picture: .svg, .pdf or .png")] = Path("curves.svg"),
) -> None:
    """Draw loss and held-out accuracy of runs into one picture."""
    from ..figures.curves import draw_curves, name_runs

    draw_curves(name_runs(runs), output)
    typer.echo(f"Drawn to {output}.")


def echo_scores(held_out: dict[str, Any] | None) -> None:
    """Print scores on held-out names.

    held_out (dict[str, Any] | None): Scores "before" and "after".
    """
    from ..data.headlines import format_figures, list_headlines

    for label, scores in (held_out or {}).items():
        shares = {name: scores[name] for name in list_headlines(scores)}
        typer.echo(f"Held-out names {label}: {format_figures(shares, '.4f')}.")
