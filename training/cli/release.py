"""Commands that write a terminology as a release in Rich Release Format, and compare two releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .application import app, open_terminology, parse_list


@app.command("write-rrf")
def write_release(
    terminology: Annotated[Path, typer.Argument(help="A saved terminology")],
    output: Annotated[Path, typer.Argument(help="The folder for the files")],
    gzip: Annotated[bool, typer.Option("--gzip", help="Compress all files but those that describe the others")] = False,
    unwritable: Annotated[str, typer.Option(help="raise, or replace pipes and line ends in texts")] = "raise",
) -> None:
    """Write a terminology in Rich Release Format, the form of UMLS."""
    from ..release.rrf import write_rrf

    report = write_rrf(open_terminology(terminology), output, gzip=gzip, unwritable=unwritable)  # type: ignore[arg-type]
    for name, rows in report["rows"].items():
        typer.echo(f"{name}: {rows:,} rows")
    if report["dangling_parents"]:
        typer.echo(f"{report['dangling_parents']:,} parents are not in the terminology, and are left out.")
    for column, n in report["replaced"].items():
        typer.echo(f"{n:,} texts ({column}) were changed: '|' to '/', or line ends to spaces.")


@app.command("diff-releases")
def compare_releases(
    old: Annotated[Path, typer.Argument(help="The folder of the old release")],
    new: Annotated[Path, typer.Argument(help="The folder of the new release")],
    output: Annotated[Path, typer.Argument(help="The folder for tables and report.json")],
    languages: Annotated[str, typer.Option(help="LAT of the names to read, separated by commas; or all")] = "ENG",
) -> None:
    """Compare two releases in Rich Release Format, and write what has changed as tables and counts."""
    from ..release.changes import diff_releases

    diff = diff_releases(old, new, languages=parse_list(languages))
    diff.to_disk(output)
    counts = diff.counts
    before, after = counts["concepts"]["old"], counts["concepts"]["new"]
    typer.echo(f"{before:,} concepts before, {after:,} now: tables and report.json in {output}")
    for kind in ("added", "retired", "merged", "mapped", "renamed"):
        typer.echo(f"{kind}: {counts[kind]:,}")
