"""Make a task of whole documents for systems that take strings: abbreviations are what their document defines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from training.evaluation.linking.protocols import EvaluationProtocol, make_task
from wasabi import msg

from spacy_sapbert.exchange.documents import ExchangeReport
from training.corpora.convert import read_corpus
from training.corpora.listing import Corpus, read_names
from training.data.task import LinkingTask
from training.evaluation.linking.protocols import EvaluationProtocol, make_task

PROTOCOL = "documents"


def main(
    format_name: str,
    source: Path,
    dictionary: Path,
    output: Path,
    part: Annotated[str, typer.Option(help="The part of the corpus")] = "test",
) -> None:
    """Write a linking task.

    format_name (str): The format of the corpus, as for `convert`.
    source (Path): Its original files.
    dictionary (Path): Lines of an id, a tab and a name.
    output (Path): The task, JSON; its name is that of the task.
    part (str): The part of the corpus.
    """
    task = make_document_task(format_name, source, dictionary, part)
    task.to_disk(output)
    msg.good(f"{len(task.queries):,} mentions, {task.report['spelled_out']:,} of them spelled out: {output}")


def make_document_task(format_name: str, source: Path, dictionary: Path, part: str) -> LinkingTask:
    """Make a linking task of documents. Mentions without an id are left out, as their accuracy is not defined.

    format_name (str): The format of the corpus.
    source (Path): Its original files.
    dictionary (Path): The dictionary.
    part (str): The part of the corpus.
    RETURNS (LinkingTask): The mentions, with the long forms that their documents define in place of the short ones.
    RAISES (ValueError): If the corpus has no whole texts of this part.
    """
    corpus = read_corpus(format_name, source, ExchangeReport())
    if part not in corpus.texts:
        known = ", ".join(corpus.texts) or "none"
        raise ValueError(f"The corpus {source} has no whole texts of the part {part!r}; it has those of: {known}.")
    mentions = [mention for mention in corpus.mentions[part] if mention.ids]
    names = read_names(Corpus([], dictionary))
    task = make_task(mentions, names, EvaluationProtocol(abbreviations=True), texts=corpus.texts[part])
    task.report["protocol"] = PROTOCOL
    return task


if __name__ == "__main__":
    typer.run(main)
