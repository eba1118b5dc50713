"""Rerankers without priors for any corpus: leave one corpus out, and one reranker of all corpora."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import spacy
import typer
from runs import format_figures, measure_linker
from spacy.language import Language
from spacy.training import Corpus, Example
from thinc.api import fix_random_seed
from wasabi import msg

from spacy_sapbert.progress import show_progress
from training.data.run_folder import write_text
from training.evaluation.documents.pipelines import PipelineSystem
from training.evaluation.documents.task import DocumentTask

RERANKER = "sapbert_reranker"
# Documents of a step, and steps on one corpus before the next one's turn: another linker costs a new cache of features.
BATCH, TURN = 8, 50


class LinkedCorpus(NamedTuple):
    """A corpus with the pipeline that links it.

    name (str): Its name.
    linker (Path): The saved pipeline.
    nlp (Language): The pipeline.
    examples (list[Example]): Its training documents, linked.
    test (Path): Documents to measure on.
    """

    name: str
    linker: Path
    nlp: Language
    examples: list[Example]
    test: Path


def main(
    folder: Path,
    names: str,
    output: Path,
    save: Annotated[str, typer.Option(help="Also train on all corpora, and save the component to this folder")] = "",
    epochs: Annotated[int, typer.Option(help="Epochs of the training")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the training")] = 0,
) -> None:
    """Train a reranker on all corpora but one, and measure it on the one that is left out, for each.

    folder (Path): The folder with <name>/linker and <name>/documents.
    names (str): The corpora, with commas between them.
    output (Path): The table to write, Markdown.
    save (str): A folder for the reranker of all corpora.
    epochs (int): Epochs of the training.
    seed (int): Seed of the training.
    """
    corpora = [read_corpus(folder / name) for name in names.split(",")]
    rows: dict[str, list[dict[str, Any]]] = {}
    for left_out in corpora if len(corpora) > 1 else ():
        component = train_across([corpus for corpus in corpora if corpus is not left_out], epochs, seed)
        rows[f"{left_out.name}: linker alone"] = [measure_linker(left_out.linker, left_out.test)]
        rows[f"{left_out.name}: reranker of the others"] = [measure_elsewhere(component, left_out)]
        typer.echo(format_figures(rows, "corpus left out"))
    write_text(output, format_figures(rows, "corpus left out"))
    if save:
        train_across(corpora, epochs, seed).to_disk(save)
        msg.good(f"The reranker of {names} is {save}.")


def read_corpus(folder: Path) -> LinkedCorpus:
    """Read a corpus, and link its training documents.

    folder (Path): The folder with linker and documents.
    RETURNS (LinkedCorpus): The corpus.
    """
    nlp = spacy.load(folder / "linker")
    examples = list(Corpus(folder / "documents" / "train.spacy")(nlp))
    linked = nlp.pipe(example.predicted for example in examples)
    examples = [Example(doc, example.reference) for doc, example in zip(linked, examples, strict=True)]
    return LinkedCorpus(folder.name, folder / "linker", nlp, examples, folder / "documents" / "test.spacy")


def train_across(corpora: Sequence[LinkedCorpus], epochs: int, seed: int) -> Any:
    """Train a reranker without priors on corpora with terminologies of their own.

    corpora (Sequence[LinkedCorpus]): The corpora.
    epochs (int): Epochs of the training.
    seed (int): Seed of the training.
    RETURNS (Any): The component.
    """
    fix_random_seed(seed)
    rng = random.Random(seed)
    largest = max(corpora, key=lambda corpus: len(corpus.examples))
    # A pipeline of its own, so that the component is none of the corpus's pipeline.
    nlp = spacy.load(largest.linker)
    component: Any = nlp.add_pipe(RERANKER, config={"priors": False})
    component.initialize(lambda: largest.examples, nlp=nlp)
    optimizer = nlp.create_optimizer()
    for epoch in range(epochs):
        losses: dict[str, float] = {}
        for turn in show_progress(list_turns(corpora, rng), description=f"Epoch {epoch + 1}", unit="turns"):
            for batch in turn:
                component.update(batch, sgd=optimizer, drop=0.1, losses=losses)
        msg.text(f"Epoch {epoch + 1}: loss {losses[RERANKER]:.2f}")
    return component


def list_turns(corpora: Sequence[LinkedCorpus], rng: random.Random) -> list[list[list[Example]]]:
    """Shuffle documents, and let corpora take turns.

    corpora (Sequence[LinkedCorpus]): The corpora.
    rng (random.Random): The generator of random numbers.
    RETURNS (list[list[list[Example]]]): Turns of batches, each turn of one corpus.
    """
    turns = []
    for corpus in corpora:
        examples = rng.sample(corpus.examples, len(corpus.examples))
        batches = [examples[start : start + BATCH] for start in range(0, len(examples), BATCH)]
        turns += [batches[start : start + TURN] for start in range(0, len(batches), TURN)]
    return rng.sample(turns, len(turns))


def measure_elsewhere(component: Any, corpus: LinkedCorpus) -> dict[str, Any]:
    """Measure a reranker on a corpus that it was not trained on.

    component (Any): The reranker.
    corpus (LinkedCorpus): The corpus.
    RETURNS (dict[str, Any]): The figures.
    """
    nlp = spacy.load(corpus.linker)
    copy: Any = nlp.add_pipe(RERANKER, config={"priors": False})
    copy.from_bytes(component.to_bytes())
    return DocumentTask(corpus.test).measure(PipelineSystem(nlp, {"linker": corpus.name}))


if __name__ == "__main__":
    typer.run(main)
