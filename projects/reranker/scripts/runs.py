"""Training and measuring a reranker, for the scripts that do it many times."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from make_config import CONFIG, make_config
from spacy.cli.train import train as train_pipeline
from spacy.tokens import Doc, DocBin

import spacy_sapbert
from spacy_sapbert.exchange.documents import write_docs
from spacy_sapbert.files import hash_file
from training.data.accuracy import name_figure
from training.data.run_folder import write_json
from training.evaluation.documents import DocumentTask, PipelineSettings, PipelineSystem, hash_folder, load_pipeline

PACKAGE_HASH = hash_folder(Path(spacy_sapbert.__file__).parent, "*.py")
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
        parts = [hash_file(CONFIG), hash_folder(self.linker), PACKAGE_HASH, DocumentTask("test", self.test).hash()]
        digest = hashlib.sha256("\n".join([*parts, str(self.seed), str(self.batch_words)]).encode())
        for docs in (self.train, self.dev):
            digest.update(DocBin(docs=docs).to_bytes())
        return digest.hexdigest()[:32]


def read_docs(path: Path) -> list[Doc]:
    """Read documents.

    path (Path): The file, .spacy.
    RETURNS (list[Doc]): The documents.
    """
    return DocumentTask("documents", path).read()


def train_reranker(run: Run, output: Path) -> Path:
    """Train a reranker, which is calibrated on its development documents."""
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
    known = make_folder(store) / f"{run.hash()}.json"
    if not known.is_file():
        with TemporaryDirectory(dir=store) as folder:
            write_json(known, measure_linker(train_reranker(run, Path(folder)), run.test))
    return json.loads(known.read_text(encoding="utf8"))


def measure_linker(linker: Path, test: Path) -> dict[str, Any]:
    """Measure a saved pipeline, such as the linker alone.

    linker (Path): The pipeline.
    test (Path): Documents to measure on.
    RETURNS (dict[str, Any]): The figures.
    """
    return measure_system(load_pipeline(PipelineSettings(pipeline=str(linker))), test)


def measure_system(system: PipelineSystem, test: Path) -> dict[str, Any]:
    """Measure a pipeline, and name its figures.

    system (PipelineSystem): The pipeline.
    test (Path): Documents to measure on.
    RETURNS (dict[str, Any]): The figures.
    """
    figures = DocumentTask("test", test).measure(system).figures
    return {name_figure(figure.metric, figure.rank): figure.value for figure in figures}


def make_folder(path: Path) -> Path:
    """Make a folder."""
    path.mkdir(parents=True, exist_ok=True)
    return path


def format_figures(rows: Mapping[str, Sequence[Mapping[str, Any]]], first: str) -> str:
    """Write a table of figures."""
    cells = []
    for name, figures in rows.items():
        columns = [[100 * found[key] for found in figures if found.get(key) is not None] for key in COLUMNS.values()]
        cells.append([name, str(len(figures)), *map(_format_values, columns)])
    rows = [[first, "runs", *COLUMNS], ["---", *(["---:"] * (1 + len(COLUMNS)))], *cells]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _format_values(values: Sequence[float]) -> str:
    if not values:
        return "–"
    return f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def parse_numbers(values: str) -> list[int]:
    """Read numbers."""
    return [int(value) for value in values.split(",") if value.strip()]
