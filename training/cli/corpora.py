"""Commands that convert corpora and dictionaries from the files of their authors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spacy_sapbert.progress import show_phase, show_progress

from ..errors import Errors
from .application import ERRORS_OPTION, TRAINING, app, show_counts

ORIGINALS = TRAINING / "evaluation" / "corpora" / "originals.cfg"


@app.command()
def convert_corpus(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help="Such as ncbi-disease; another word lists all")],
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="The original file, folder or archive")],
    output: Annotated[Path, typer.Argument(help="A folder for <part>.jsonl.gz, dictionary.tsv.gz and <format>.json")],
    dictionary: Annotated[str, typer.Option(help="A dictionary.tsv.gz: count the mentions whose ids it has")] = "",
    keep_nil: Annotated[bool, typer.Option("--keep-nil", help="Keep mentions without a concept")] = False,
    errors: Annotated[str, ERRORS_OPTION] = "raise",
) -> None:
    """Convert a corpus or a dictionary to the form that `measure` and `finetuning-pairs` read."""
    from ..evaluation.corpora.readers import convert_corpus

    with show_phase(f"Converting {source}"):
        data = convert_corpus(
            format_name,
            source,
            output,
            dictionary=dictionary or None,
            keep_nil=keep_nil,
            errors=errors,  # type: ignore[arg-type]  # checked by the reader
        )
    show_counts({**data["parts"], **data["dictionaries"]}, data)
    typer.echo(f"Written to {output}; the counts are in {format_name}.json.")


@app.command()
def convert_corpora(
    assets: Annotated[Path, typer.Argument(help="The folder of the original files")],
    output: Annotated[Path, typer.Argument(help="A folder for one folder of each corpus")],
    originals: Annotated[Path, typer.Option(help="A config file that lists the original files")] = ORIGINALS,
    errors: Annotated[str, ERRORS_OPTION] = "raise",
) -> None:
    """Convert all available corpora to the form that `evaluate` reads, and list the missing ones."""
    from thinc.api import Config

    from ..evaluation.corpora.readers import convert_corpus

    if not originals.is_file():
        raise FileNotFoundError(Errors.E102.format(file=originals, cwd=Path.cwd()))
    sections: dict[str, dict[str, Any]] = Config().from_disk(originals)["originals"]
    missing = [name for name, section in sections.items() if not _is_there(assets / section["input"])]
    for name in show_progress(
        [name for name in sections if name not in missing], description="Converting corpora", unit="corpora"
    ):
        section = sections[name]
        data = convert_corpus(
            section["format"],
            assets / section["input"],
            output / section["output"],
            errors=errors,  # type: ignore[arg-type]  # checked by the reader
        )
        n_mentions = sum(part["mentions"] for part in data["parts"].values())
        n_names = sum(part["names"] for part in data["dictionaries"].values())
        n_left_out = sum(entry["count"] for entry in data["left_out"].values())
        report = output / section["output"] / f"{section['format']}.json"
        typer.echo(f"{name}: {n_mentions:,} mentions, {n_names:,} names, {n_left_out:,} left out; see {report}.")
    for name in missing:
        typer.echo(f"{name}: not there ({assets / sections[name]['input']}).")
    typer.echo(f"{len(sections) - len(missing)} of {len(sections)} corpora and dictionaries are written to {output}.")


def _is_there(source: Path) -> bool:
    return source.is_file() or (source.is_dir() and any(source.iterdir()))
