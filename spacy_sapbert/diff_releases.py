"""Compare two releases in Rich Release Format: `python -m spacy_sapbert.diff_releases OLD NEW OUTPUT`."""

from pathlib import Path
from typing import Annotated

import typer
from wasabi import msg

from .terminology.diff import diff_releases


def main(
    old: Path,
    new: Path,
    output: Path,
    languages: Annotated[str, typer.Option(help="With commas; 'all' for all")] = "ENG",
) -> None:
    """Compare two releases, and write what has changed as tables and counts.

    old (Path): The folder of the old release.
    new (Path): The folder of the new release.
    output (Path): The folder for the tables.
    languages (str): Languages of the names to read, with commas between them, or "all".
    """
    wanted = None if languages == "all" else [language.strip() for language in languages.split(",")]
    diff = diff_releases(old, new, languages=wanted)
    diff.to_disk(output)
    counts = diff.counts
    before, after = counts["concepts"]["old"], counts["concepts"]["new"]
    msg.good(f"{before:,} concepts before, {after:,} now: tables and report.json in {output}")
    msg.table([(kind, f"{counts[kind]:,}") for kind in ("added", "retired", "merged", "mapped", "renamed")])


if __name__ == "__main__":
    typer.run(main)
