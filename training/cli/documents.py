"""Commands for whole documents with gold mentions: convert them, and make terminologies for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import srsly
import typer

from spacy_sapbert.progress import show_phase

from ..errors import Errors
from .application import (
    ERRORS_OPTION,
    SEED_OPTION,
    app,
    open_terminology,
    parse_list,
    show_counts,
)

PARTS = ("train", "dev", "test")
REMOVED_FILE = "removed.json"


def parse_shares(shares: str) -> dict[str, float] | None:
    """Read the shares of a split.

    shares (str): Three numbers with commas between them, such as "0.7,0.1,0.2"; empty for none.
    RETURNS (dict[str, float] | None): Shares of train, dev and test; None for none.
    RAISES (ValueError): If they are not three numbers.
    """
    if not shares:
        return None
    try:
        return dict(zip(PARTS, map(float, shares.split(",")), strict=True))
    except ValueError:
        raise ValueError(Errors.E724.format(split=shares)) from None


@app.command()
def convert_documents(
    format_name: Annotated[
        str,
        typer.Argument(metavar="FORMAT", help="Such as ncbi-disease, brat or auto; another word lists all"),
    ],
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="The annotated file, folder or archive")],
    output: Annotated[Path, typer.Argument(help="A folder for <part>.spacy and documents.json")],
    terminology: Annotated[str, typer.Option(help="A folder of a terminology: write ids as it does")] = "",
    unknown: Annotated[str, typer.Option(help="keep mentions of which it has no id, or make them nil")] = "keep",
    types: Annotated[str, typer.Option(help="Types of mentions to keep, with commas between; empty for all")] = "",
    keep_prefixes: Annotated[bool, typer.Option("--keep-prefixes", help="Keep prefixes of ids: MESH:, OMIM:")] = False,
    drop_nil: Annotated[bool, typer.Option("--drop-nil", help="Leave out mentions without a concept")] = False,
    split: Annotated[str, typer.Option(help="Split by document: shares of train, dev and test, as 0.7,0.1,0.2")] = "",
    seed: Annotated[int, SEED_OPTION] = 0,
    id_key: Annotated[str, typer.Option(help="For Prodigy: the key of a span's id")] = "kb_id",
    lang: Annotated[str, typer.Option(help="The language of the tokenizer")] = "en",
    errors: Annotated[str, ERRORS_OPTION] = "raise",
) -> None:
    """Convert annotated documents to spaCy's, with gold ids in `kb_id_`, for `spacy train` and `measure-documents`."""
    from ..evaluation.documents.convert import REPORT, Conversion
    from ..evaluation.documents.convert import convert_documents as convert

    settings = Conversion(
        types=parse_list(types) or [],
        keep_prefixes=keep_prefixes,
        drop_nil=drop_nil,
        unknown=unknown,
        id_key=id_key,
        errors=errors,  # type: ignore[arg-type]  # checked by the reader
        lang=lang,
    )
    known = open_terminology(Path(terminology)) if terminology else None
    with show_phase(f"Converting {source}"):
        data = convert(format_name, source, output, settings, terminology=known, shares=parse_shares(split), seed=seed)
    show_counts(data["parts"], data)
    typer.echo(f"Written to {output}; the counts are in {REPORT}.")


@app.command()
def dictionary_terminology(
    dictionary: Annotated[Path, typer.Argument(help="Lines of an id, a tab and a name")],
    output: Annotated[Path, typer.Argument(help="A folder for the terminology")],
    described_by: Annotated[
        str, typer.Option(help="A folder of `preprocess`: add types, definitions and parents of its concepts")
    ] = "",
    sources: Annotated[str, typer.Option(help="Sources of codes there that are ids here, as MSH; empty for all")] = "",
    remove: Annotated[float, typer.Option(help="Take out this share of the concepts, so that mentions are NIL")] = 0.0,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Make a terminology of the dictionary of a corpus, with canonical names."""
    from ..evaluation.documents.dictionary import make_dictionary_terminology, remove_share

    describing = open_terminology(Path(described_by)) if described_by else None
    with show_phase(f"Reading {dictionary}"):
        whole = make_dictionary_terminology(dictionary, described_by=describing, sources=parse_list(sources) or ())
    terminology, removed = remove_share(whole, remove, seed=seed)
    terminology.to_disk(output)
    srsly.write_json(output / REMOVED_FILE, {"share": remove, "seed": seed, "ids": removed})
    typer.echo(
        f"{len(terminology):,} concepts with {terminology.n_names:,} names are written to {output}; {len(removed):,} "
        f"were taken out, {whole.report['described']:,} are described by another terminology."
    )
