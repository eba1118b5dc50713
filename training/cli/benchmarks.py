"""Commands of the report of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .application import app


@app.command()
def report(
    output: Annotated[Path, typer.Argument(help="The folder of `evaluate`")],
    peers: Annotated[str, typer.Option(help="The peers.json of the project peers, if it has been run")] = "",
) -> None:
    """Write report.md and report.html from all results."""
    from ..evaluation.folder import HTML_FILE, MARKDOWN_FILE
    from ..evaluation.report.report import make_report

    if peers and not Path(peers).is_file():
        typer.echo(f"Without other tools: {peers} is not there.")
    make_report(output, peers=peers if Path(peers).is_file() else None)
    typer.echo(f"{output / MARKDOWN_FILE} and {output / HTML_FILE} are written.")
