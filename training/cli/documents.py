"""Commands for whole documents with gold mentions: convert them, and make terminologies for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spacy_sapbert.progress import show_phase

from ..errors import Errors
from .application import (
    ERRORS_OPTION,
    SEED_OPTION,
    app,
    encoding_command,
    open_terminology,
    parse_files,
    parse_list,
    require_files,
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


@encoding_command()
def measure_documents(
    output: Annotated[Path, typer.Argument(help="A folder for documents.md, errors and pictures; results are reused")],
    documents: Annotated[
        str, typer.Argument(help="Files of `convert-documents` or their folder, or NAME=FILE, with commas between")
    ],
    pipelines: Annotated[
        str, typer.Option(help="Saved pipelines: folders or packages, or NAME=FOLDER, with commas between")
    ] = "",
    terminology: Annotated[
        str, typer.Option(help="A folder of a terminology: also measure a linker with it and the encoder")
    ] = "",
    encoder: Annotated[str, typer.Option(help="The encoder of that linker; empty for that of the package")] = "",
    abbreviations: Annotated[
        str, typer.Option(help="Its ways to treat abbreviations, with commas between: both, long_form, short_form, off")
    ] = "both",
    card: Annotated[
        str, typer.Option("--results", help="Also write the accuracies of that encoder, for `export --results`")
    ] = "",
) -> None:
    """Measure pipelines on whole documents, with gold mentions given: the protocol `documents`."""
    from ..data.headlines import label_figure, list_headlines
    from ..data.run_folder import write_json
    from ..encoders.card import read_results
    from ..evaluation.documents.pipelines import list_encoders, list_pipelines
    from ..evaluation.documents.report import MARKDOWN, write_report
    from ..evaluation.documents.task import DocumentTask
    from ..evaluation.measure import ResultStore, measure
    from ..figures.curves import name_runs

    given = require_files(documents, "documents", "measure-documents", "documents")
    # A folder stands for its files.
    files = [str(file) for path in given for file in sorted(Path(path).glob("*.spacy")) or [Path(path)]]
    tasks = {name.removesuffix(".spacy"): DocumentTask(path) for name, path in name_runs(files).items()}
    systems = list_pipelines(parse_files(pipelines))
    if terminology:
        systems |= list_encoders(encoder, open_terminology(Path(terminology)), parse_list(abbreviations) or [])
    if not systems:
        raise ValueError(Errors.E725.format(reason="neither --pipelines nor --terminology is given"))
    results = measure(systems, tasks, ResultStore(output))
    typer.echo(write_report(results, output))
    if card:
        linkers = {name: found for name, found in results.items() if name.startswith("linker, ")}
        scores = {
            f"documents of {task}, {name.removeprefix('linker, ')}": {
                label_figure(figure): result.figures[figure] for figure in list_headlines(result.figures)
            }
            for name, found in linkers.items()
            for task, result in found.items()
        }
        fingerprint = next(iter(next(iter(linkers.values())).values())).identity["encoder"]
        known = read_results(card, fingerprint) if Path(card).is_file() else {}
        write_json(Path(card), {"fingerprint": fingerprint, "scores": {**known, **scores}})
    typer.echo(f"The table is {output / MARKDOWN}; errors with their sentences lie beside it.")
