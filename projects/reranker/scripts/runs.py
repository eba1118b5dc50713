"""Rerankers: the config of a training, trainings on parts of a corpus, in folds and across corpora, calibration, and a
check of the package."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple
from zipfile import ZipFile

import numpy as np
import spacy
import typer
from spacy.cli.train import train as train_pipeline
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus, Example
from thinc.api import Config, fix_random_seed
from wasabi import msg

import spacy_sapbert
from spacy_sapbert.exchange.documents import read_docs, write_docs
from spacy_sapbert.files import hash_file
from spacy_sapbert.progress import show_progress
from spacy_sapbert.reranker.gold import GoldBatch
from spacy_sapbert.reranker.network import ListInput, Lists, start_network
from training.corpora.gold import draw_mentions, split_documents
from training.data.accuracy import name_figure
from training.data.run_folder import write_json, write_text
from training.evaluation.documents import DocumentTask, PipelineSystem, hash_folder, link_documents
from training.markup import format_rows, format_values

CONFIG = Path(__file__).parents[1] / "configs" / "reranker.cfg"
RERANKER = "sapbert_reranker"
LINKER = "sapbert_linker"
ABBREVIATIONS = "schwartz_hearst"
PACKAGE_HASH = hash_folder(Path(spacy_sapbert.__file__).parent, "*.py")
# The columns of tables: shares in per cent.
COLUMNS = {
    "acc@1": "acc_at_1",
    "acc@5": "acc_at_5",
    "coverage at precision 95": "coverage_at_precision_95",
    "ECE": "ece",
    "NIL F1": "nil_f",
}
ALONE, NONE = "linker alone", "null"
VALIDATION = ("validation", "dev")
# To calibrate on: a share of the mentions to learn from, and of the documents of a fold that brings none for it.
DEV_MENTIONS = 0.25
DEV_DOCUMENTS = 0.1
# Words of a batch in folds: such documents are single mentions, so it has about as many of them as a batch of texts.
FOLD_WORDS = 200
Figures = dict[str, Any]
# Across corpora: epochs; mentions of a corpus in an epoch, of a step, and to take mean and deviation of features from.
EPOCHS = 5
MENTIONS = 4000
BATCH = 64
MEASURED = 1000
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def config(pipeline: Path, output: Path) -> None:
    """Write the config of a training: the pipeline as it is, frozen, and a reranker behind its linker."""
    output.parent.mkdir(parents=True, exist_ok=True)
    make_config(pipeline).to_disk(output)


def make_config(pipeline: Path) -> Config:
    """Make a config: all components are sourced and frozen, and the first linker's candidates are reranked."""
    saved = Config().from_disk(pipeline / "config.cfg", interpolate=False)
    factories = {name: saved["components"][name]["factory"] for name in saved["nlp"]["pipeline"]}
    names = [name for name, factory in factories.items() if factory != RERANKER]
    linkers = [name for name in names if factories[name] == LINKER]
    if not linkers:
        raise ValueError(f"The pipeline {pipeline} has no linker: its components are {', '.join(factories) or 'none'}.")
    config = Config().from_disk(CONFIG, interpolate=False)
    own = {**config["components"][RERANKER], "linker": linkers[0]}
    config["components"] = {**{name: {"source": str(pipeline.absolute())} for name in names}, RERANKER: own}
    config["nlp"] |= {"lang": saved["nlp"]["lang"], "pipeline": [*names, RERANKER]}
    config["training"]["frozen_components"] = names
    # The others, such as entity recognisers, are not needed for gold mentions.
    annotating = [name for name in names if factories[name] in (LINKER, ABBREVIATIONS)]
    config["training"]["annotating_components"] = annotating
    return config


@dataclass
class Run:
    """What a reranker is trained, calibrated and measured on."""

    # A saved pipeline with a linker.
    linker: Path
    train: Sequence[Doc]
    # Documents to stop and calibrate on.
    dev: Sequence[Doc]
    test: Path
    seed: int = 0
    # Words of a batch of documents.
    batch_words: int = 2000

    def hash(self) -> str:
        """Hash everything that determines the figures."""
        parts = [hash_file(CONFIG), hash_folder(self.linker), PACKAGE_HASH, DocumentTask("test", self.test).hash()]
        digest = hashlib.sha256("\n".join([*parts, str(self.seed), str(self.batch_words)]).encode())
        for docs in (self.train, self.dev):
            digest.update(DocBin(docs=docs).to_bytes())
        return digest.hexdigest()[:32]

    def measure(self, store: Path) -> Figures:
        """Train and measure a reranker, unless the folder of results has them. The pipelines are deleted."""
        path = store / f"{self.hash()}.json"
        store.mkdir(parents=True, exist_ok=True)
        if not path.is_file():
            with TemporaryDirectory(dir=store) as folder:
                write_json(path, measure_linker(self._train(Path(folder)), self.test))
        return json.loads(path.read_text(encoding="utf8"))

    def _train(self, output: Path) -> Path:
        overrides: dict[str, Any] = {"system.seed": self.seed, "training.batcher.size": self.batch_words}
        for name in ("train", "dev"):
            overrides[f"paths.{name}"] = str(output / f"{name}.spacy")
            write_docs(output / f"{name}.spacy", getattr(self, name))
        make_config(self.linker).to_disk(output / "reranker.cfg")
        train_pipeline(output / "reranker.cfg", output, overrides=overrides)
        return output / "model-best"


def measure_linker(pipeline: Path | Language, test: Path) -> Figures:
    """Measure a pipeline, saved or loaded, and name its figures."""
    is_loaded = isinstance(pipeline, Language)
    system = PipelineSystem.of(pipeline) if is_loaded else PipelineSystem(pipeline=str(pipeline))
    figures = DocumentTask("test", test).measure(system).figures
    return {name_figure(figure.metric, figure.rank): figure.value for figure in figures}


def show_figures(rows: Mapping[str, Sequence[Figures]], first: str, output: Path) -> None:
    """Write and print a table of figures."""
    cells = []
    for name, figures in rows.items():
        columns = [[100 * figure[key] for figure in figures if figure.get(key) is not None] for key in COLUMNS.values()]
        cells.append([name, str(len(figures)), *map(format_values, columns)])
    table = format_rows([first, "runs", *COLUMNS], cells, n_text_columns=1)
    write_text(output, table)
    typer.echo(table)


@app.command()
def curve(
    linker: Path,
    documents: Path,
    output: Path,
    sizes: Annotated[str, typer.Option(help="Annotated mentions to learn from, with commas between; 0 for all")] = "0",
    seeds: Annotated[str, typer.Option(help="Seeds of draw and training, with commas between")] = "0",
) -> None:
    """Train a reranker for each number of mentions and each seed, and measure all on the same documents."""
    train, dev = (read_docs(documents / f"{part}.spacy") for part in ("train", "dev"))
    test = documents / "test.spacy"
    rows = {ALONE: [measure_linker(linker, test)]}
    for size in map(int, sizes.split(",")):
        name = f"{size:,}" if size else "all"
        rows[name] = []
        for seed in map(int, seeds.split(",")):
            part = draw_mentions(train, size, seed=seed)
            held = draw_mentions(dev, max(1, round(DEV_MENTIONS * size)) if size else 0, seed=seed)
            rows[name].append(Run(linker, part, held, test, seed).measure(output.parent))
            msg.text(f"{name} mentions, seed {seed}: acc@1 {rows[name][-1]['acc_at_1']:.3f}")
    show_figures(rows, "annotated mentions", output)


@app.command()
def folds(
    linker: Path,
    documents: Path,
    output: Path,
    seed: Annotated[int, typer.Option(help="Seed of the training")] = 0,
) -> None:
    """Train and measure a reranker on each fold of a corpus."""
    rows: dict[str, list[Figures]] = {ALONE: [], "reranker": []}
    for test in sorted(documents.glob("*.test.spacy")):
        fold = test.name.removesuffix(".test.spacy")
        train = read_docs(documents / f"{fold}.train.spacy")
        paths = [path for part in VALIDATION if (path := documents / f"{fold}.{part}.spacy").is_file()]
        if paths:
            dev = read_docs(paths[0])
        else:
            parts = split_documents(train, {"train": 1 - DEV_DOCUMENTS, "dev": DEV_DOCUMENTS}, seed=seed)
            train, dev = parts["train"], parts["dev"]
        rows[ALONE].append(measure_linker(linker, test))
        rows["reranker"].append(Run(linker, train, dev, test, seed, FOLD_WORDS).measure(output.parent))
        msg.text(f"{fold}: acc@1 {rows[ALONE][-1]['acc_at_1']:.3f}, {rows['reranker'][-1]['acc_at_1']:.3f}")
    if not rows["reranker"]:
        raise FileNotFoundError(f"There are no folds in {documents}: no file <fold>.test.spacy.")
    show_figures(rows, "mean and deviation over folds", output)


@app.command()
def calibrate(
    pipeline: Path,
    documents: Path,
    output: Path,
    precision: Annotated[str, typer.Option(help="Choose the threshold that keeps this precision, or null")] = NONE,
) -> None:
    """Calibrate a pipeline on annotated documents, a few hundred mentions are enough, and save it to another folder."""
    nlp = spacy.load(pipeline)
    reranker: Any = nlp.get_pipe(RERANKER)
    if precision != NONE:
        reranker.precision = float(precision)
    calibration = reranker.calibrate(list(Corpus(documents)(nlp)), nlp=nlp)
    nlp.to_disk(output)
    msg.good(f"Calibrated on {documents}: {calibration}. The pipeline is {output}.")


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


@app.command("across")
def measure_across(
    folder: Path,
    names: str,
    output: Path,
    save: Annotated[str, typer.Option(help="Also train on all corpora, and save the component to this folder")] = "",
    seeds: Annotated[str, typer.Option(help="Seeds of the trainings, with commas between them")] = "0,1",
) -> None:
    """Train a reranker on all corpora but one, and measure it on the one that is left out, for each."""
    corpora = [read_corpus(folder / name) for name in names.split(",")]
    numbers = [int(seed) for seed in seeds.split(",")]
    rows: dict[str, list[dict[str, Any]]] = {}
    for left_out in corpora if len(corpora) > 1 else ():
        others = [corpus for corpus in corpora if corpus is not left_out]
        (alone,) = rows[f"{left_out.name}: linker alone"] = [measure_linker(left_out.linker, left_out.test)]
        figures = rows[f"{left_out.name}: reranker of the others"] = []
        for seed in numbers:
            left_out.reranker.model = train_across(others, seed).model
            figures.append(measure_linker(left_out.nlp, left_out.test))
        msg.text(f"{left_out.name}: acc@1 {alone['acc_at_1']:.3f}, {figures[0]['acc_at_1']:.3f}")
    show_figures(rows, "corpus left out", output)
    if save:
        train_across(corpora, numbers[0]).to_disk(save)
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
    parts = [documents / "train.spacy", *sorted(documents.glob("*.train.spacy"))]
    train = next((path for path in parts if path.is_file()), None)
    if train is None:
        raise FileNotFoundError(f"There are no training documents in {documents}: run `convert` for this corpus first.")
    return train, train.with_name(train.name.replace("train.spacy", "test.spacy"))


def train_across(corpora: Sequence[LinkedCorpus], seed: int) -> Any:
    """Train a reranker without priors on corpora with terminologies of their own."""
    fix_random_seed(seed)
    rng = random.Random(seed)
    component = corpora[0].reranker
    # The network starts with mean and deviation of the features of all corpora.
    samples = [corpus.sample.given for corpus in corpora]
    lengths = [length for sample in samples for length in sample.lists.lengths.tolist()]
    parts = ("features", "scores", "alike")
    features, scores, alike = (np.concatenate([getattr(sample, part) for sample in samples]) for part in parts)
    is_right = np.concatenate([corpus.sample.is_right for corpus in corpora])
    start_network(component.model, ListInput(features, scores, Lists(lengths), alike), is_right)
    # Each corpus keeps its reranker, which remembers its features; all have one network.
    for corpus in corpora:
        corpus.reranker.model = component.model
    optimizer = corpora[0].nlp.create_optimizer()
    for epoch in range(EPOCHS):
        losses: dict[str, float] = {}
        steps = [(corpus.reranker, batch) for corpus in corpora for batch in list_batches(corpus, MENTIONS, rng)]
        rng.shuffle(steps)
        for reranker, batch in show_progress(steps, description=f"Epoch {epoch + 1}", unit="batches"):
            reranker.update(batch, sgd=optimizer, drop=0.1, losses=losses)
        msg.text(f"Epoch {epoch + 1}: loss {losses[RERANKER] / len(steps):.3f}")
    return component


def list_batches(corpus: LinkedCorpus, mentions: int, rng: random.Random) -> Iterator[list[Example]]:
    """Take some documents of a corpus, in batches of about as many mentions."""
    batch: list[Example] = []
    n_taken = 0
    for example in rng.sample(corpus.examples, len(corpus.examples)):
        if n_taken >= mentions:
            break
        batch = [*batch, example]
        n_taken = n_taken + len(example.reference.ents)
        if sum(len(entry.reference.ents) for entry in batch) >= BATCH:
            yield batch
            batch = []
    if any(entry.reference.ents for entry in batch):
        yield batch


@app.command()
def check(pipeline: str, documents: Path, output: Path, packages: Path) -> None:
    """Compare the newest wheel of the output folder of `spacy package`. It is unpacked to `output`."""
    # Nothing is fetched.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    wheel = max(packages.glob("*/dist/*.whl"), key=lambda path: path.stat().st_mtime)
    ZipFile(wheel).extractall(output)
    sys.path.insert(0, str(output.absolute()))
    name = wheel.name.partition("-")[0]
    docs = read_docs(documents)
    decided, expected = (link_documents(nlp, docs) for nlp in (import_module(name).load(), spacy.load(pipeline)))
    if decided != expected:
        first = next(pair for pair in zip(expected, decided, strict=True) if pair[0] != pair[1])
        msg.fail(f"The package decides otherwise; the first difference: {first[0]} and {first[1]}.", exits=1)
    msg.good(f"The package {name} makes the same {len(decided):,} decisions offline.")


if __name__ == "__main__":
    app()
