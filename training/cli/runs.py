"""Commands that train, and that make something of what was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import Errors
from .application import ConfigPath, app, read_overrides


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def pretrain(context: typer.Context, config: ConfigPath) -> None:
    """Train an encoder on pairs of names. Settings are given as `--batch.pairs 128`, over those of the config file."""
    from ..engine.settings import read_settings
    from ..methods.sapbert.run import pretrain as train

    report = train(read_settings(config, read_overrides(context.args)))
    if report:
        training = report["training"]
        typer.echo(f"{training['steps']:,} steps, {training['pairs_per_second']:.0f} pairs/s; {training['ended']}.")
        echo_scores(report["held_out"])


def parse_share(text: str) -> float | None:
    """Read the share of the base's weights from a project's variable.

    text (str): A number, or nothing.
    RETURNS (Optional[float]): The share; None if there is none.
    RAISES (ValueError): If it is no number.
    """
    try:
        return float(text) if text.strip() else None
    except ValueError as error:
        raise ValueError(Errors.E748.format(value=text)) from error


@app.command()
def export(
    run: Path,
    output: Path,
    base_share: Annotated[
        str, typer.Option(help="Share of the base's weights, 0 to 1; empty: as the run's settings say")
    ] = "",
    dtype: Annotated[str, typer.Option(help="What weights are stored as: fp32, or bf16 for half the size")] = "fp32",
    step: Annotated[int | None, typer.Option(help="Of which checkpoint; unset: the last")] = None,
    held_out: Annotated[str, typer.Option(help="Held-out names to measure these weights on, for the card")] = "",
    results: Annotated[
        str, typer.Option(help='What else was measured, for the card: {"fingerprint": "...", "scores": {name: share}}')
    ] = "",
    licence: Annotated[str, typer.Option(help="For the card, such as apache-2.0")] = "",
    command: Annotated[str, typer.Option(help="For the card: what was called to make the encoder")] = "",
    notes: Annotated[str, typer.Option(help="For the card: a file of Markdown, such as the data's licences")] = "",
) -> None:
    """Make an encoder folder of a run's checkpoint, whether the run has ended or not."""
    from ..encoders.card import CardNotes
    from ..encoders.run_export import export_run

    if notes and not Path(notes).is_file():
        raise FileNotFoundError(Errors.E102.format(file=notes, cwd=Path.cwd()))
    text = Path(notes).read_text(encoding="utf8") if notes else ""
    report = export_run(
        run,
        output,
        base_share=parse_share(base_share),
        dtype=dtype,
        step=step,
        held_out=held_out,
        results=results,
        notes=CardNotes(licence, command, text),
    )
    made = report["export"]
    typer.echo(
        f"Step {report['training']['steps']:,}, share of the base {made['base_share']:g}, {made['dtype']}: written to "
        f"{output}. Fingerprint: {report['encoder']['trained']}."
    )
    echo_scores(report["held_out"])


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
    """Print what was measured on held-out names.

    held_out (Optional[dict]): Scores by "before" and "after".
    """
    for label, scores in (held_out or {}).items():
        typer.echo(f"Held-out names {label}: acc@1 {scores['acc_at_1']:.4f}, acc@5 {scores['acc_at_5']:.4f}.")
