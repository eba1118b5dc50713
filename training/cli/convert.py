"""The command that converts corpora and dictionaries from the files of their authors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from spacy_sapbert.errors import NO_FILE
from spacy_sapbert.progress import show_phase, show_progress

from .application import ERRORS_OPTION, SEED_OPTION, TRAINING, app, open_terminology, parse_list

ORIGINALS = TRAINING / "corpora" / "originals.cfg"
ALL = "all"
PARTS = ("train", "dev", "test")


@app.command()
def convert(
    context: typer.Context,
    format_name: Annotated[
        str,
        typer.Argument(metavar="FORMAT", help="Such as ncbi-disease or auto; another word lists all. all: each corpus"),
    ],
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="The original file, folder or archive")],
    output: Annotated[Path, typer.Argument(help="A folder for <part>.jsonl.gz, dictionary.tsv.gz and <format>.json")],
    dictionary: Annotated[str, typer.Option(help="A dictionary.tsv.gz: count the mentions whose ids it has")] = "",
    keep_nil: Annotated[bool, typer.Option("--keep-nil", help="Keep mentions without a concept")] = False,
    originals: Annotated[Path, typer.Option(help="For all: a config file that lists the original files")] = ORIGINALS,
    documents: Annotated[bool, typer.Option("--documents", help="Write documents of spaCy, <part>.spacy")] = False,
    terminology: Annotated[str, typer.Option(help="A folder of a terminology: documents have ids as it does")] = "",
    unknown: Annotated[str, typer.Option(help="Mentions of which it has no id: keep them, or make them nil")] = "keep",
    types: Annotated[str, typer.Option(help="Types of mentions in documents, with commas between; empty for all")] = "",
    keep_prefixes: Annotated[bool, typer.Option("--keep-prefixes", help="Keep prefixes of ids: MESH:, OMIM:")] = False,
    drop_nil: Annotated[bool, typer.Option("--drop-nil", help="Documents without mentions of no concept")] = False,
    split: Annotated[str, typer.Option(help="Split by document: shares of train, dev and test, as 0.7,0.1,0.2")] = "",
    seed: Annotated[int, SEED_OPTION] = 0,
    id_key: Annotated[str, typer.Option(help="For documents of Prodigy: the key of a span's id")] = "kb_id",
    lang: Annotated[str, typer.Option(help="The language of the documents' tokenizer")] = "en",
    errors: Annotated[str, ERRORS_OPTION] = "raise",
) -> None:
    """Convert corpora to mentions that `measure` and `pairs` read, or to documents with gold ids in `kb_id_`.

    Example: python -m training convert ncbi-disease NCBI_corpus output/ncbi_disease
    """
    from ..corpora.convert import Conversion, convert_corpus, convert_documents

    _check_options(context, format_name, documents=documents)
    if format_name == ALL:
        _convert_all(source, output, originals, errors)
        return
    with show_phase(f"Converting {source}"):
        if documents:
            settings = Conversion(
                types=parse_list(types) or [],
                keep_prefixes=keep_prefixes,
                drop_nil=drop_nil,
                unknown=unknown,
                id_key=id_key,
                errors=errors,
                lang=lang,
                shares=parse_shares(split),
                seed=seed,
            )
            known = open_terminology(Path(terminology)) if terminology else None
            data = convert_documents(format_name, source, output, settings, terminology=known)
        else:
            options: dict[str, Any] = {"dictionary": dictionary or None, "keep_nil": keep_nil, "errors": errors}
            data = convert_corpus(format_name, source, output, **options)
    _show_counts(data)
    report = "documents.json" if documents else f"{data['format']}.json"
    typer.echo(f"Written to {output}; the counts are in {report}.")


def _check_options(context: typer.Context, format_name: str, *, documents: bool) -> None:
    """Refuse options that another kind of conversion has."""
    common = {"format_name", "source", "output", "errors"}
    kinds = {"all": {"originals"}, "mentions": {"dictionary", "keep_nil"}}
    kind = "all" if format_name == ALL else "documents" if documents else "mentions"
    of_documents = set(context.params) - common.union(*kinds.values())
    allowed = common | kinds.get(kind, of_documents)
    for name in context.params:
        given = context.get_parameter_source(name)
        if name not in allowed and given is not None and given.name != "DEFAULT":
            others = {"all": "convert all", "documents": "convert FORMAT … --documents", "mentions": "convert FORMAT"}
            owner = next((other for other, names in kinds.items() if name in names), "documents")
            raise ValueError(
                f"--{name.replace('_', '-')} is no option of `{others[kind]}`, but of `{others[owner]}`. Leave it out."
            )


def parse_shares(shares: str) -> dict[str, float] | None:
    """Read the shares of train, dev and test, such as "0.7,0.1,0.2"; None for no text."""
    if not shares:
        return None
    try:
        return dict(zip(PARTS, map(float, shares.split(",")), strict=True))
    except ValueError:
        message = f"--split is {shares!r}, but has to be three numbers with commas between them, as 0.7,0.1,0.2."
        raise ValueError(message) from None


def _convert_all(assets: Path, output: Path, originals: Path, errors: str) -> None:
    """Convert all corpora whose files are there, and list the missing ones."""
    from thinc.api import Config

    from ..corpora.convert import convert_corpus

    if not originals.is_file():
        raise FileNotFoundError(NO_FILE.format(file=originals, cwd=Path.cwd()))
    sections: dict[str, dict[str, Any]] = Config().from_disk(originals)["originals"]
    inputs = {name: assets / section["input"] for name, section in sections.items()}
    there = [name for name, path in inputs.items() if path.is_file() or (path.is_dir() and any(path.iterdir()))]
    for name in show_progress(there, description="Converting corpora", unit="corpora"):
        folder, format_name = output / sections[name]["output"], sections[name]["format"]
        data = convert_corpus(format_name, inputs[name], folder, errors=errors)
        n_mentions = sum(part["mentions"] for part in data["parts"].values())
        n_names = sum(part["names"] for part in data["dictionaries"].values())
        n_left_out = sum(entry["count"] for entry in data["left_out"].values())
        counts = f"{n_mentions:,} mentions, {n_names:,} names, {n_left_out:,} left out"
        typer.echo(f"{name}: {counts}; see {folder / format_name}.json.")
    for name, path in inputs.items():
        if name not in there:
            typer.echo(f"{name}: not there ({path}).")
    typer.echo(f"{len(there)} of {len(sections)} corpora and dictionaries are written to {output}.")


def _show_counts(data: Mapping[str, Any]) -> None:
    for name, counts in (data["parts"] | data.get("dictionaries", {})).items():
        listed = ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in counts.items())
        typer.echo(f"{name}: {listed}.")
    for title, kind in (("Left out", "left_out"), ("Odd", "odd")):
        for what, entry in data[kind].items():
            typer.echo(f"{title}: {entry['count']:,} {what}; the first: {entry['first'][0]}")
