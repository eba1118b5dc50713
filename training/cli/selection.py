"""The command that selects the best of several encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import Errors
from .application import SEED_OPTION, encoding_command, open_terminology, parse_files, parse_list
from .measures import BENCHMARKS_OPTION, CORPORA_OPTION, EVALUATION

TABLE = "selection.md"
DEVELOPMENT = EVALUATION / "corpora_dev.cfg"


@encoding_command()
def select(
    encoders: Annotated[
        str,
        typer.Argument(
            help="LABEL=FOLDER with commas between, the base first; {source} and {corpus} stand for what is left out"
        ),
    ],
    output: Annotated[Path, typer.Argument(help=f"A folder for {TABLE}; results that it has are kept")],
    terminology: Annotated[str, typer.Option(help="A folder of `preprocess`: measure on each of its sources")] = "",
    sources: Annotated[str, typer.Option(help="Which sources (SAB), with commas between; empty for all")] = "",
    benchmarks: Annotated[str, BENCHMARKS_OPTION] = "",
    corpora: Annotated[Path, CORPORA_OPTION] = DEVELOPMENT,
    documents: Annotated[
        str, typer.Option(help="Files of `convert-documents`, as CORPUS=FILE with commas between")
    ] = "",
    dictionary: Annotated[str, typer.Option(help="A folder of `dictionary-terminology`, for documents")] = "",
    max_queries: Annotated[int, typer.Option(min=1, help="Names or mentions of a task at most")] = 500,
    max_names: Annotated[int, typer.Option(min=1, help="Names of each dictionary to search about at most")] = 4000,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Select the encoder whose worst gain over a base is the highest, on sources and corpora left out of training."""
    from ..corpora.listing import read_corpora
    from ..data.run_folder import write_text
    from ..data.splits import list_all_sources
    from ..evaluation import selection
    from ..evaluation.measure import ResultStore
    from ..figures.curves import name_runs

    if bool(documents) != bool(dictionary):
        given, missing = ("--documents", "--dictionary") if documents else ("--dictionary", "--documents")
        raise ValueError(Errors.E831.format(given=given, missing=missing, command="select"))
    limits = selection.Limits(max_queries, max_names, seed)
    tasks: dict[str, selection.SelectionTask] = {}
    if terminology:
        loaded = open_terminology(Path(terminology))
        tasks |= selection.make_source_tasks(loaded, parse_list(sources) or list_all_sources(loaded), limits)
    if benchmarks:
        found, missing_corpora = read_corpora(corpora, benchmarks)
        tasks |= selection.make_corpus_tasks(found, limits)
        if missing_corpora:
            typer.echo(f"Not in {benchmarks}: {', '.join(missing_corpora)}.")
    if documents:
        files = name_runs(parse_files(documents))
        tasks |= selection.make_document_tasks(files, open_terminology(Path(dictionary)), limits)
    if not tasks:
        raise ValueError(Errors.E678.format(benchmarks=benchmarks, path=corpora))
    labelled = selection.parse_encoders([encoder.strip() for encoder in encoders.split(",")])
    table = selection.format_selection(selection.measure_selection(labelled, tasks, ResultStore(output)))
    write_text(output / TABLE, table)
    typer.echo(table)
    typer.echo(f"The table is {output / TABLE}.")
