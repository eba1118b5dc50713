"""Training and measuring a reranker, for the scripts that do it many times."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from make_config import CONFIG, make_config
from spacy.cli.train import train as train_pipeline
from spacy.tokens import Doc, DocBin
from training.evaluation.folder import Result

from spacy_sapbert.exchange.documents import write_docs
from spacy_sapbert.files import hash_file
from training.evaluation.documents.pipelines import hash_folder, hash_package, load_pipeline
from training.evaluation.documents.task import DocumentTask
from training.evaluation.measure import ResultStore
from training.evaluation.report.values import format_values
from training.evaluation.report.writing import format_rows

# The columns of tables: shares in per cent.
COLUMNS = {
    "acc@1": "acc_at_1",
    "acc@5": "acc_at_5",
    "coverage at precision 95": "coverage_at_precision_95",
    "ECE": "ece",
    "NIL F1": "nil_f",
}


class Run(NamedTuple):
    """What a reranker is trained and measured on.

    linker (Path): A saved pipeline with a linker.
    train (Sequence[Doc]): Documents to learn from.
    dev (Sequence[Doc]): Documents to stop and calibrate on.
    test (Path): Documents to measure on, .spacy.
    seed (int): The seed of the training.
    batch_words (int): Words of a batch of documents.
    """

    linker: Path
    train: Sequence[Doc]
    dev: Sequence[Doc]
    test: Path
    seed: int = 0
    batch_words: int = 2000

    def hash(self) -> str:
        """Hash everything that determines the figures.

        RETURNS (str): Equal hashes, equal figures.
        """
        parts = [hash_file(CONFIG), hash_folder(self.linker), hash_package(), DocumentTask(self.test).hash()]
        digest = hashlib.sha256("\n".join([*parts, str(self.seed), str(self.batch_words)]).encode())
        for docs in (self.train, self.dev):
            digest.update(DocBin(docs=docs).to_bytes())
        return digest.hexdigest()[:32]


def read_docs(path: Path) -> list[Doc]:
    """Read documents.

    path (Path): The file, .spacy.
    RETURNS (list[Doc]): The documents.
    """
    return DocumentTask(path).read()


def train_reranker(run: Run, output: Path) -> Path:
    """Train a reranker, which is calibrated on its development documents.

    run (Run): What it learns from.
    output (Path): A folder for the pipelines of the training.
    RETURNS (Path): The best pipeline.
    """
    write_docs(output / "train.spacy", run.train)
    write_docs(output / "dev.spacy", run.dev)
    make_config(run.linker, CONFIG).to_disk(output / "reranker.cfg")
    overrides: dict[str, Any] = {f"paths.{name}": str(output / f"{name}.spacy") for name in ("train", "dev")}
    overrides |= {"system.seed": run.seed, "training.batcher.size": run.batch_words}
    train_pipeline(output / "reranker.cfg", output, overrides=overrides)
    return output / "model-best"


def measure_run(run: Run, store: Path) -> dict[str, Any]:
    """Train and measure a reranker, unless the results are known. Its pipelines are deleted.

    run (Run): What it is trained and measured on.
    store (Path): The folder of the results.
    RETURNS (dict[str, Any]): The figures.
    """
    task, results, key = DocumentTask(run.test), ResultStore(store), run.hash()
    known = results.find(key, task)
    if known is None:
        with TemporaryDirectory(dir=make_folder(store)) as folder:
            figures = task.measure(load_pipeline(str(train_reranker(run, Path(folder)))))
        known = Result(key=key, identity={"kind": "reranker", "seed": run.seed}, figures=figures)
        results.keep(known)
    return known.figures


def measure_linker(linker: Path, test: Path) -> dict[str, Any]:
    """Measure the linker alone.

    linker (Path): The saved pipeline.
    test (Path): Documents to measure on.
    RETURNS (dict[str, Any]): The figures.
    """
    return DocumentTask(test).measure(load_pipeline(str(linker)))


def make_folder(path: Path) -> Path:
    """Make a folder.

    path (Path): The folder.
    RETURNS (Path): The same.
    """
    path.mkdir(parents=True, exist_ok=True)
    return path


def format_figures(rows: Mapping[str, Sequence[Mapping[str, Any]]], first: str) -> str:
    """Write a table of figures.

    rows (Mapping[str, Sequence[Mapping[str, Any]]]): For each row the figures of all its seeds, or folds.
    first (str): The heading of the first column.
    RETURNS (str): Markdown: means, with standard deviations where there are several.
    """
    cells = []
    for name, figures in rows.items():
        columns = [[100 * found[key] for found in figures if found.get(key) is not None] for key in COLUMNS.values()]
        cells.append([name, str(len(figures)), *(format_values(values) for values in columns)])
    return format_rows([first, "runs", *COLUMNS], cells, n_text_columns=1)


def parse_numbers(values: str) -> list[int]:
    """Read numbers.

    values (str): Numbers with commas between them.
    RETURNS (list[int]): The numbers.
    """
    return [int(value) for value in values.split(",") if value.strip()]
