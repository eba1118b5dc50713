"""Commands for whole documents with gold mentions: make terminologies for them, and measure pipelines on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import srsly
import typer

from spacy_sapbert.progress import show_phase

from ..errors import Errors
from .application import (
    SEED_OPTION,
    app,
    encoding_command,
    open_terminology,
    parse_files,
    parse_list,
    require_files,
)

REMOVED_FILE = "removed.json"


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


@encoding_command()
def measure_documents(
    output: Annotated[Path, typer.Argument(help="A folder for documents.md, errors and pictures; results are reused")],
    documents: Annotated[
        str, typer.Argument(help="Files of `convert --documents` or their folder, or NAME=FILE, with commas between")
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
