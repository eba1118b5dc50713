"""Commands that adapt the encoder of a saved pipeline to annotations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spacy_sapbert.progress import show_phase

from .application import SEED_OPTION, app, encoding_command

PIPELINE_ARGUMENT = typer.Argument(help="A saved pipeline with a linker; it is only read")
LINKER_OPTION = typer.Option(help="The name of the linker")


@app.command()
def adaptation_data(
    pipeline: Annotated[Path, PIPELINE_ARGUMENT],
    documents: Annotated[Path, typer.Argument(help="Training documents of `convert-documents`")],
    output: Annotated[Path, typer.Argument(help="A folder for pairs/ and held_out.json")],
    linker: Annotated[str, LINKER_OPTION] = "sapbert_linker",
    names: Annotated[
        int, typer.Option(min=1, help="Names that a mention is paired with, and pairs of a rehearsed concept, at most")
    ] = 3,
    rehearsal: Annotated[float, typer.Option(min=0, help="Pairs of the terminology for each pair of a mention")] = 1.0,
    held_out: Annotated[
        int, typer.Option(min=1, help="Concepts without annotations to hold out, to measure what is forgotten")
    ] = 500,
    dictionary: Annotated[int, typer.Option(help="Concepts to search for held-out names")] = 1500,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Write pairs to adapt a pipeline's encoder with: annotated mentions and names, and names for rehearsal."""
    from ..adaptation.data import Choice, write_data

    with show_phase("Pairing mentions with names"):
        data = write_data(pipeline, linker, documents, output, Choice(names, rehearsal, held_out, dictionary, seed))
    counts = data["counts"]
    typer.echo(
        f"{counts['pairs']:,} pairs of {counts['mentions']:,} mentions with names of {counts['concepts_with_pairs']:,} "
        f"concepts, and {counts['rehearsed']:,} pairs of names of the terminology."
    )
    examples = f" (such as {', '.join(data['without_ids'][:3])})" if data["without_ids"] else ""
    typer.echo(
        f"Left out: {counts['without_ids']:,} mentions without an id{examples}, {counts['without_concept']:,} whose "
        "ids the terminology lacks."
    )
    if data["not_in_dictionary"]:
        missing = ", ".join(data["not_in_dictionary"][:3])
        typer.echo(f"The terminology lacks {counts['ids_not_in_dictionary']:,} ids, such as {missing}.")
    typer.echo(f"Written to {output}.")


@encoding_command()
def adapt(
    pipeline: Annotated[Path, PIPELINE_ARGUMENT],
    run: Annotated[Path, typer.Argument(help="The folder of a run on the pairs, from the linker's encoder")],
    documents: Annotated[Path, typer.Argument(help="Development documents of `convert-documents`")],
    held_out: Annotated[Path, typer.Argument(help="Held-out names, to measure what is forgotten")],
    output: Annotated[Path, typer.Argument(help="A folder for pipeline/ and shares.md")],
    linker: Annotated[str, LINKER_OPTION] = "sapbert_linker",
    shares: Annotated[
        str, typer.Option(help="Shares of the base's weights to compare, with commas between; 1 learns nothing")
    ] = "0,0.25,0.5,0.75,1",
    max_names: Annotated[
        int, typer.Option(min=0, help="Names to link development documents to, roughly; 0 for all")
    ] = 10_000,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Choose the share of a run's base on development documents, and save the pipeline with that encoder."""
    from ..adaptation.adapt import PIPELINE_FOLDER, TABLE, adapt_pipeline
    from ..adaptation.shares import BASE, parse_shares
    from ..data.splits import read_held_out

    adapted = adapt_pipeline(
        pipeline,
        linker,
        run,
        documents,
        output,
        shares=parse_shares(shares),
        held_out=read_held_out(held_out),
        max_names=max_names,
        seed=seed,
    )
    typer.echo(adapted.table)
    if adapted.share == BASE:
        typer.echo("Nothing was adapted: on the development documents, no share is better than the encoder as it was.")
    else:
        typer.echo(f"All weights have changed a little, so all {adapted.names:,} names were encoded again.")
    for name in adapted.removed:
        typer.echo(
            f"The reranker '{name}' is not in the adapted pipeline, because it was trained with the former encoder. "
            "Train it again: `python -m spacy project run learn projects/reranker --vars.linker "
            f"{(output / PIPELINE_FOLDER).absolute()}` and your annotations."
        )
    typer.echo(f"The pipeline is {output / PIPELINE_FOLDER}, the table {output / TABLE}.")
