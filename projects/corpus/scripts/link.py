"""Link a corpus with a pipeline: in this process, with Ray actors on this machine, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from documents import Columns
from folder import Block, CorpusError, Job, OutputFolder
from linking import LinkingSettings
from wasabi import msg
from work import Result, find_pipeline, hash_pipeline, link_in_process

from spacy_sapbert.progress import show_progress
from spacy_sapbert.text import MAX_RUN

SHOWN = 5
GO_ON = "What is linked stays; run the command again to go on."


def main(
    pipeline: Annotated[str, typer.Argument(help="A saved pipeline, or the name of an installed one")],
    corpus: Annotated[Path, typer.Argument(help="A folder of .parquet, .jsonl, .jsonl.gz and .spacy, or a file")],
    output: Annotated[Path, typer.Argument(help="The folder to write; that of an ended or killed run is completed")],
    actors: Annotated[int, typer.Option(help="Ray actors; 0 links in this process, without Ray")] = 0,
    block: Annotated[int, typer.Option(help="Documents of a block, which has a file of mentions", min=1)] = 1000,
    max_length: Annotated[
        int, typer.Option(help="Characters of a document; longer ones are errors", min=1)
    ] = 1_000_000,
    max_run: Annotated[
        int, typer.Option(help="Characters without white space; documents with longer runs are errors", min=1)
    ] = MAX_RUN,
    text: Annotated[str, typer.Option(help="The column of texts")] = Columns.text,
    document: Annotated[str, typer.Option(help="The column of documents' ids")] = Columns.document,
    entities: Annotated[str, typer.Option(help="The column of given entities")] = Columns.entities,
    attribute: Annotated[str, typer.Option(help="The attribute of spans with candidates")] = LinkingSettings.attribute,
) -> None:
    """Link a corpus."""
    try:
        folder = find_pipeline(pipeline)
        columns = Columns(text, document, entities)
        linking = LinkingSettings(max_length, attribute, max_run=max_run)
        job = Job(str(folder), hash_pipeline(folder), columns, linking, block)
        unread = link_corpus(job, corpus, output, actors)
    except CorpusError as error:
        msg.fail(str(error), exits=1)
    except OSError as error:
        msg.fail(f"{output} can't be written, or {corpus} not be read: {error}. {GO_ON}", exits=1)
    if unread:
        shown = "\n".join(unread[:SHOWN])
        msg.fail(
            f"{len(unread)} blocks can't be read, and have no output. Repair the files and run the command again: it "
            f"links what is missing. The first ones:\n{shown}",
            exits=1,
        )


def link_corpus(job: Job, corpus: Path, output: Path, actors: int = 0) -> list[str]:
    """Link what the output folder lacks, and say what it holds then."""
    folder = OutputFolder(output)
    with folder.lock():
        blocks = folder.start(job, corpus)
        done = folder.list_done()
        left = [block for block in blocks if block.key not in done]
        n_done = sum(block.n_documents for block in blocks if block.key in done)
        total = sum(block.n_documents for block in blocks)
        if n_done:
            msg.info(f"{n_done:,} of {total:,} documents are linked already.")
        unread, n_errors = [], 0
        with show_progress(total=total, initial=n_done, description="Linking", unit="documents") as progress:
            for result in _link(job, str(output.resolve()), left, actors):
                if result["stop"]:
                    raise CorpusError(f"{result['stop']}. {GO_ON}")
                if result["problem"]:
                    unread.append(result["problem"])
                n_errors += result["errors"]
                progress.note(errors=f"{n_errors:,}", unread=f"{len(unread):,}")
                progress.update(result["documents"])
        counts = folder.count()
    msg.good(
        f"{total:,} documents, {counts['mentions']:,} mentions, {counts['errors']:,} documents with errors: {output}"
    )
    return unread


def _link(job: Job, output: str, blocks: Sequence[Block], actors: int) -> Iterator[Result]:
    if not blocks:
        return iter(())
    if not actors and not os.environ.get("RAY_ADDRESS"):
        return link_in_process(job, output, blocks)
    try:
        from on_ray import link_with_ray
    except ImportError as error:
        reason = "Actors need Ray, which is not installed. In the checkout: pip install -c constraints.txt '.[corpus]'."
        raise CorpusError(f"{reason} Without it, leave out `--actors` and RAY_ADDRESS.") from error
    return link_with_ray(job, output, blocks, actors)


if __name__ == "__main__":
    typer.run(main)
