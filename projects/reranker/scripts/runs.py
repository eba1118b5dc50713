"""Train and measure rerankers many times, on parts of a corpus or in its folds, and calibrate one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import spacy
import typer
from make_config import CONFIG, RERANKER, make_config
from spacy.cli.train import train as train_pipeline
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus
from wasabi import msg

import spacy_sapbert
from spacy_sapbert.exchange.documents import write_docs
from spacy_sapbert.files import hash_file
from training.corpora.gold import draw_mentions, split_documents
from training.data.accuracy import name_figure
from training.data.run_folder import write_json, write_text
from training.evaluation.documents import DocumentTask, PipelineSystem, hash_folder
from training.markup import format_rows, format_values

PACKAGE_HASH = hash_folder(Path(spacy_sapbert.__file__).parent, "*.py")
# The columns of tables: shares in per cent.
COLUMNS = {
    "acc@1": "acc_at_1",
    "acc@5": "acc_at_5",
    "coverage at precision 95": "coverage_at_precision_95",
    "ECE": "ece",
    "NIL F1": "nil_f",
}
LINKER, NONE = "linker alone", "null"
VALIDATION = ("validation", "dev")
# Words of a batch in folds: such documents are single mentions, so it has about as many of them as a batch of texts.
FOLD_WORDS = 200
Figures = dict[str, Any]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


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
        known = store / f"{self.hash()}.json"
        store.mkdir(parents=True, exist_ok=True)
        if not known.is_file():
            with TemporaryDirectory(dir=store) as folder:
                write_json(known, measure_linker(self._train(Path(folder)), self.test))
        return json.loads(known.read_text(encoding="utf8"))

    def _train(self, output: Path) -> Path:
        overrides: dict[str, Any] = {"system.seed": self.seed, "training.batcher.size": self.batch_words}
        for name in ("train", "dev"):
            overrides[f"paths.{name}"] = str(output / f"{name}.spacy")
            write_docs(output / f"{name}.spacy", getattr(self, name))
        make_config(self.linker, CONFIG).to_disk(output / "reranker.cfg")
        train_pipeline(output / "reranker.cfg", output, overrides=overrides)
        return output / "model-best"


def read_docs(path: Path) -> list[Doc]:
    """Read documents (.spacy)."""
    return DocumentTask("documents", path).read()


def measure_linker(linker: Path, test: Path) -> Figures:
    """Measure a saved pipeline, such as the linker alone."""
    return measure_system(PipelineSystem(pipeline=str(linker)), test)


def measure_system(system: PipelineSystem, test: Path) -> Figures:
    """Measure a pipeline, and name its figures."""
    figures = DocumentTask("test", test).measure(system).figures
    return {name_figure(figure.metric, figure.rank): figure.value for figure in figures}


def format_figures(rows: Mapping[str, Sequence[Figures]], first: str) -> str:
    """Write a table of figures."""
    cells = []
    for name, figures in rows.items():
        columns = [[100 * found[key] for found in figures if found.get(key) is not None] for key in COLUMNS.values()]
        cells.append([name, str(len(figures)), *map(format_values, columns)])
    return format_rows([first, "runs", *COLUMNS], cells, n_text_columns=1)


def show_figures(rows: Mapping[str, Sequence[Figures]], first: str, output: Path) -> None:
    """Write and print a table of figures."""
    write_text(output, format_figures(rows, first))
    typer.echo(format_figures(rows, first))


@app.command()
def curve(
    linker: Path,
    documents: Path,
    output: Path,
    sizes: Annotated[str, typer.Option(help="Annotated mentions to learn from, with commas between; 0 for all")] = "0",
    seeds: Annotated[str, typer.Option(help="Seeds of draw and training, with commas between")] = "0",
    dev_share: Annotated[float, typer.Option(help="Mentions to calibrate on, as a share of the others")] = 0.25,
) -> None:
    """Train a reranker for each number of mentions and each seed, and measure all on the same documents."""
    train, dev = (read_docs(documents / f"{part}.spacy") for part in ("train", "dev"))
    test = documents / "test.spacy"
    rows = {LINKER: [measure_linker(linker, test)]}
    for size in map(int, sizes.split(",")):
        name = f"{size:,}" if size else "all"
        rows[name] = []
        for seed in map(int, seeds.split(",")):
            part = draw_mentions(train, size, seed=seed)
            held = draw_mentions(dev, max(1, round(dev_share * size)) if size else 0, seed=seed)
            rows[name].append(Run(linker, part, held, test, seed).measure(output.parent))
            msg.text(f"{name} mentions, seed {seed}: acc@1 {rows[name][-1]['acc_at_1']:.3f}")
    show_figures(rows, "annotated mentions", output)


@app.command()
def folds(
    linker: Path,
    documents: Path,
    output: Path,
    seed: Annotated[int, typer.Option(help="Seed of the training")] = 0,
    dev_share: Annotated[float, typer.Option(help="Documents to calibrate on, as a share, if none are given")] = 0.1,
) -> None:
    """Train and measure a reranker on each fold of a corpus."""
    rows: dict[str, list[Figures]] = {LINKER: [], "reranker": []}
    for test in sorted(documents.glob("*.test.spacy")):
        fold = test.name.removesuffix(".test.spacy")
        train = read_docs(documents / f"{fold}.train.spacy")
        given = [path for part in VALIDATION if (path := documents / f"{fold}.{part}.spacy").is_file()]
        if given:
            dev = read_docs(given[0])
        else:
            parts = split_documents(train, {"train": 1 - dev_share, "dev": dev_share}, seed=seed)
            train, dev = parts["train"], parts["dev"]
        rows[LINKER].append(measure_linker(linker, test))
        rows["reranker"].append(Run(linker, train, dev, test, seed, FOLD_WORDS).measure(output.parent))
        msg.text(f"{fold}: acc@1 {rows[LINKER][-1]['acc_at_1']:.3f}, {rows['reranker'][-1]['acc_at_1']:.3f}")
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
    found = reranker.calibrate(list(Corpus(documents)(nlp)), nlp=nlp)
    nlp.to_disk(output)
    msg.good(f"Calibrated on {documents}: {found}. The pipeline is {output}.")


if __name__ == "__main__":
    app()
