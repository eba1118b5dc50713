"""The command that converts corpora and dictionaries from the files of their authors."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from spacy_sapbert.progress import show_phase, show_progress

from ..markup import list_counts
from .application import (
    DATA,
    TRAINING,
    ErrorsOption,
    command,
    open_terminology,
    parse_list,
    parse_numbers,
    refuse_options,
)

ORIGINALS = TRAINING / "corpora" / "originals.cfg"
ALL = "all"
of_documents = partial(typer.Option, rich_help_panel="Options for --documents")


@command(DATA, "convert ncbi-disease NCBI_corpus output/ncbi_disease")
def convert(
    context: typer.Context,
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT", help="Such as ncbi-disease; auto; or all. Another word lists the formats")
    ],
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="The original file, folder or archive")],
    output: Annotated[Path, typer.Argument(help="The folder for the converted files")],
    documents: Annotated[bool, typer.Option("--documents", help="Write documents of spaCy, <part>.spacy")] = False,
    keep_nil: Annotated[bool, typer.Option("--keep-nil", help="Keep mentions without a concept")] = False,
    errors: ErrorsOption = "raise",
    terminology: Annotated[str, of_documents(help="A terminology whose form of ids to write")] = "",
    unknown: Annotated[str, of_documents(help="Mentions whose ids it lacks: keep them, or make them nil")] = "keep",
    types: Annotated[str, of_documents(help="Types of mentions to keep, with commas between; empty: all")] = "",
    split: Annotated[str, of_documents(help="Shares of documents for train, dev and test: 0.7,0.1,0.2")] = "",
    seed: Annotated[int, of_documents(min=0, help="The seed of that split")] = 0,
    id_key: Annotated[str, of_documents(help="In files of Prodigy: the key of a span's id")] = "kb_id",
    lang: Annotated[str, of_documents(help="The language of the tokenizer")] = "en",
) -> None:
    """Convert corpora and dictionaries of other authors.

    The output holds mentions, <part>.jsonl.gz, which `measure` and `pairs`
    read; for a dictionary, dictionary.tsv.gz; and a report of what was left out.
    With --documents, it holds documents with gold ids in `kb_id_`.
    """
    from ..corpora.convert import Conversion, convert_corpus, convert_documents

    if format_name == ALL:
        refuse_options(context, "all corpora", {"errors", "documents"})
        _convert_all(source, output, errors, documents=documents)
        return
    if documents:
        refuse_options(context, "documents", set(context.params) - {"keep_nil"})
    else:
        refuse_options(context, "mentions (without --documents)", {"errors", "keep_nil"})
    shares = _read_shares(split)
    with show_phase(f"Converting {source}"):
        if documents:
            options = {"types": parse_list(types) or (), "unknown": unknown, "id_key": id_key, "errors": errors}
            settings = Conversion.read({**options, "lang": lang, "shares": shares, "seed": seed})
            table = open_terminology(terminology) if terminology else None
            data = convert_documents(format_name, source, output, settings, terminology=table)
        else:
            data = convert_corpus(format_name, source, output, keep_nil=keep_nil, errors=errors)
    _echo_counts(data)
    report = "documents.json" if documents else f"{data['format']}.json"
    typer.echo(f"Written to {output}; the counts are in {report}.")


def _read_shares(split: str) -> dict[str, float] | None:
    """Read the shares of train, dev and test; None if no new split is wanted."""
    shares = parse_numbers(split, "--split", float)
    if len(shares) not in (0, 3):
        raise ValueError(f"--split is {split!r}, but has to be three numbers with commas between them, as 0.7,0.1,0.2.")
    return dict(zip(("train", "dev", "test"), shares, strict=True)) if shares else None


def _echo_counts(data: dict[str, Any]) -> None:
    """Print what each part or dictionary holds, and what was left out or is odd."""
    for name, counts in (data["parts"] | data.get("dictionaries", {})).items():
        typer.echo(f"{name}: {list_counts(counts)}.")
    for title, kind in (("Left out", "left_out"), ("Odd", "odd")):
        for what, entry in data[kind].items():
            typer.echo(f"{title}: {entry['count']:,} {what}; the first: {entry['first'][0]}")


def _convert_all(assets: Path, output: Path, errors: str, *, documents: bool) -> None:
    """Convert all corpora whose files are there, and list the missing ones. `documents`: those with whole texts."""
    from thinc.api import Config

    from ..corpora.convert import Conversion, convert_corpus, convert_documents
    from ..corpora.documents import FORMATS

    sections: dict[str, dict[str, Any]] = Config().from_disk(ORIGINALS)["originals"]
    if documents:
        sections = {name: section for name, section in sections.items() if section["format"] in FORMATS}
    if not assets.is_dir():
        raise NotADirectoryError(
            f"There is no folder {assets} with corpora (seen from {Path.cwd()}). Correct the path."
        )
    inputs = {name: assets / section["input"] for name, section in sections.items()}
    there = [name for name, path in inputs.items() if path.is_file() or (path.is_dir() and any(path.iterdir()))]
    for name in show_progress(there, description="Converting corpora", unit="corpora"):
        folder = output / sections[name]["output"]
        format_name = sections[name]["format"]
        if documents:
            data = convert_documents(format_name, inputs[name], folder, Conversion.read({"errors": errors}))
        else:
            data = convert_corpus(format_name, inputs[name], folder, errors=errors)
        counts = {
            "mentions": sum(part["mentions"] for part in data["parts"].values()),
            "names": sum(part["names"] for part in data.get("dictionaries", {}).values()),
            "left out": sum(entry["count"] for entry in data["left_out"].values()),
        }
        report = "documents" if documents else format_name
        typer.echo(f"{name}: {list_counts(counts)}; see {folder / report}.json.")
    for name in [name for name in inputs if name not in there]:
        typer.echo(f"{name}: not there ({inputs[name]}).")
    typer.echo(f"{len(there)} of {len(sections)} corpora and dictionaries are written to {output}.")
