"""Rerankers without priors for any corpus: leave one corpus out, and one reranker of all corpora."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import spacy
import typer
from make_config import RERANKER
from runs import format_figures, measure_linker, measure_system
from spacy.language import Language
from spacy.training import Corpus, Example
from thinc.api import fix_random_seed
from wasabi import msg

from spacy_sapbert.progress import show_progress
from spacy_sapbert.reranker.component import GoldBatch
from spacy_sapbert.reranker.network import ListInput, Lists, start_network
from training.data.run_folder import write_text
from training.evaluation.documents import PipelineSystem

# Mentions of a step, and of a corpus that give mean and deviation of the features.
BATCH, MEASURED = 64, 1000


class LinkedCorpus(NamedTuple):
    """A corpus with the pipeline that links it, and a reranker that remembers the features of its mentions."""

    name: str
    linker: Path
    # The pipeline, with the reranker, and its training documents, linked.
    nlp: Language
    examples: list[Example]
    # The features of some mentions, and which rows are right.
    sample: GoldBatch
    # Documents to measure on.
    test: Path

    @property
    def reranker(self) -> Any:
        """The reranker."""
        return self.nlp.get_pipe(RERANKER)


def main(
    folder: Path,
    names: str,
    output: Path,
    save: Annotated[str, typer.Option(help="Also train on all corpora, and save the component to this folder")] = "",
    epochs: Annotated[int, typer.Option(help="Epochs of the training")] = 5,
    mentions: Annotated[int, typer.Option(help="Mentions of a corpus in an epoch at most")] = 4000,
    seeds: Annotated[str, typer.Option(help="Seeds of the trainings, with commas between them")] = "0,1",
) -> None:
    """Train a reranker on all corpora but one, and measure it on the one that is left out, for each."""
    corpora = [read_corpus(folder / name) for name in names.split(",")]
    numbers = [int(seed) for seed in seeds.split(",")]
    rows: dict[str, list[dict[str, Any]]] = {}
    for left_out in corpora if len(corpora) > 1 else ():
        others = [corpus for corpus in corpora if corpus is not left_out]
        rows[f"{left_out.name}: linker alone"] = [measure_linker(left_out.linker, left_out.test)]
        found = rows[f"{left_out.name}: reranker of the others"] = []
        for seed in numbers:
            left_out.reranker.model = train_across(others, epochs, mentions, seed).model
            found.append(measure_system(PipelineSystem.of(left_out.nlp), left_out.test))
        typer.echo(format_figures(rows, "corpus left out"))
    write_text(output, format_figures(rows, "corpus left out"))
    if save:
        train_across(corpora, epochs, mentions, numbers[0]).to_disk(save)
        msg.good(f"The reranker of {names} is {save}.")


def read_corpus(folder: Path) -> LinkedCorpus:
    """Read a corpus, and link its training documents."""
    train, test = find_parts(folder / "documents")
    nlp = spacy.load(folder / "linker")
    examples = list(Corpus(train)(nlp))
    linked = nlp.pipe(example.predicted for example in examples)
    examples = [Example(doc, example.reference) for doc, example in zip(linked, examples, strict=True)]
    reranker: Any = nlp.add_pipe(RERANKER, config={"priors": False})
    reranker.initialize(lambda: examples, nlp=nlp)
    sample = reranker.read_gold(examples, limit=MEASURED)
    return LinkedCorpus(folder.name, folder / "linker", nlp, examples, sample, test)


def find_parts(documents: Path) -> tuple[Path, Path]:
    """Find the documents to learn from and to measure on."""
    found = [documents / "train.spacy", *sorted(documents.glob("*.train.spacy"))]
    train = next((path for path in found if path.is_file()), None)
    if train is None:
        raise FileNotFoundError(f"There are no training documents in {documents}: run `convert` for this corpus first.")
    return train, train.with_name(train.name.replace("train.spacy", "test.spacy"))


def train_across(corpora: Sequence[LinkedCorpus], epochs: int, mentions: int, seed: int) -> Any:
    """Train a reranker without priors on corpora with terminologies of their own."""
    fix_random_seed(seed)
    rng = random.Random(seed)
    component = corpora[0].reranker
    # The network starts with mean and deviation of the features of all corpora.
    samples = [corpus.sample.given for corpus in corpora]
    lengths = [length for given in samples for length in given.lists.lengths.tolist()]
    features, scores = (np.concatenate([getattr(given, part) for given in samples]) for part in ("features", "scores"))
    is_right = np.concatenate([corpus.sample.is_right for corpus in corpora])
    start_network(component.model, ListInput(features, scores, Lists(lengths)), is_right)
    # Each corpus keeps its reranker, which remembers its features; all have one network.
    for corpus in corpora:
        corpus.reranker.model = component.model
    optimizer = corpora[0].nlp.create_optimizer()
    for epoch in range(epochs):
        losses: dict[str, float] = {}
        steps = [(corpus.reranker, batch) for corpus in corpora for batch in list_batches(corpus, mentions, rng)]
        rng.shuffle(steps)
        for reranker, batch in show_progress(steps, description=f"Epoch {epoch + 1}", unit="batches"):
            reranker.update(batch, sgd=optimizer, drop=0.1, losses=losses)
        msg.text(f"Epoch {epoch + 1}: loss {losses[RERANKER] / len(steps):.3f}")
    return component


def list_batches(corpus: LinkedCorpus, mentions: int, rng: random.Random) -> Iterator[list[Example]]:
    """Take some documents of a corpus, in batches of about as many mentions."""
    batch: list[Example] = []
    n_taken = n_batch = 0
    for example in rng.sample(corpus.examples, len(corpus.examples)):
        if n_taken >= mentions:
            break
        n = len(example.reference.ents)
        batch, n_taken, n_batch = [*batch, example], n_taken + n, n_batch + n
        if n_batch >= BATCH:
            yield batch
            batch, n_batch = [], 0
    if n_batch:
        yield batch


if __name__ == "__main__":
    typer.run(main)
