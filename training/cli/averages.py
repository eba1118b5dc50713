"""The command that averages encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import Errors
from .application import app, parse_files
from .runs import LicenceOption, MadeByOption, NotesOption, ResultsOption, read_notes


def parse_shares(text: str, n: int) -> list[float] | None:
    """Read the share of each encoder from a project's variable.

    text (str): Numbers with commas between them, or nothing.
    n (int): The number of encoders.
    RETURNS (list[float] | None): The shares; None if there are none.
    RAISES (ValueError): If something is no number.
    """
    try:
        return [float(share) for share in text.split(",")] if text.strip() else None
    except ValueError as error:
        raise ValueError(Errors.E673.format(shares=text, n=n)) from error


@app.command()
def average(
    encoders: Annotated[str, typer.Argument(help="Encoder folders trained from one base, with commas between them")],
    output: Annotated[Path, typer.Argument(help="The encoder folder to make")],
    shares: Annotated[
        str, typer.Option(help="The share of each encoder, as 0.5,0.25,0.25; empty for equal shares")
    ] = "",
    dtype: Annotated[str, typer.Option(help="Type of the stored weights: fp32, or bf16 for half the size")] = "fp32",
    results: ResultsOption = "",
    licence: LicenceOption = "",
    command: MadeByOption = "",
    notes: NotesOption = "",
) -> None:
    """Average the weights of encoders that were trained from one base in different ways."""
    from ..encoders.averaging import average_encoders

    names = parse_files(encoders)
    made = average_encoders(
        names,
        output,
        shares=parse_shares(shares, len(names)),
        dtype=dtype,
        results=results,
        notes=read_notes(licence, command, notes),
    )
    listed = ", ".join(f"{part.share:g} of {part.name}" for part in made.ingredients)
    typer.echo(f"{listed}, {dtype}: written to {output}. Fingerprint: {made.encoder.fingerprint}.")
