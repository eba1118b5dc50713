"""The command that writes reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .application import app


@app.command()
def report(output: Annotated[Path, typer.Argument(help="A folder of `measure`")]) -> None:
    """Write report.md and report.html: tables beside published figures, tests, wrong mentions, pictures.

    Example: python -m training report output/report
    """
    from ..report.report import HTML_FILE, MARKDOWN_FILE, make_report

    make_report(output)
    typer.echo(f"{output / MARKDOWN_FILE} and {output / HTML_FILE} are written.")
