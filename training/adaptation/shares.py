"""The share of the base's weights that is best on development documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from spacy.language import Language

from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.terminology import Terminology

from ..data.dictionary import limit_dictionary
from ..data.headlines import name_metric
from ..data.mentions import EQUAL_IDS
from ..data.task import LinkingTask
from ..errors import Errors
from ..evaluation.documents.gold import list_gold_spans
from ..evaluation.documents.pipelines import PipelineSystem, hash_folder
from ..evaluation.documents.task import DocumentTask
from ..evaluation.measure import ResultStore, Task, measure
from ..evaluation.report.writing import format_rows
from ..evaluation.systems.encoder import EncoderSystem
from ..run_export import export_run

# The encoder before training.
BASE = 1.0
VECTORS_FOLDER = "vectors"
DEVELOPMENT, HELD_OUT = "development documents", "held-out names"
METRICS = (name_metric(1), name_metric(5))

# Figures by task, by share.
Scores = dict[float, dict[str, dict[str, Any]]]


def parse_shares(text: str) -> list[float]:
    """Read the shares to compare.

    text (str): Numbers with commas between them.
    RETURNS (list[float]): Distinct shares, sorted.
    RAISES (ValueError): If something is no number from 0 to 1, or there is none.
    """
    try:
        shares = sorted({float(part) for part in text.split(",")})
    except ValueError:
        shares = []
    if not shares or not all(0 <= share <= BASE for share in shares):
        raise ValueError(Errors.E852.format(shares=text))
    return shares


def set_share(linker: SapbertLinker, run: Path, share: float, terminology: Terminology, vectors: Path) -> None:
    """Give a linker the encoder of a run's last checkpoint, averaged with the base, and build its index.

    linker (SapbertLinker): The linker, with the base encoder or another one of this run.
    run (Path): The folder of the run.
    share (float): The share of the base's weights. With 1, the linker keeps its encoder, which has to be the base.
    terminology (Terminology): What to link to.
    vectors (Path): The folder that keeps encoded names.
    """
    if share == BASE:
        if terminology is not linker.terminology:
            linker.initialize(terminology=terminology, vectors_path=vectors)
        return
    # As precise as the linker's encoder is stored.
    is_half = linker.encoder.source.transformer.dtype == torch.bfloat16
    with TemporaryDirectory() as folder:
        export_run(run, folder, base_share=share, dtype="bf16" if is_half else "fp32")
        linker.initialize(terminology=terminology, encoder=folder, vectors_path=vectors)


@dataclass(frozen=True)
class ShareTasks:
    """What shares are compared on.

    documents (DocumentTask): Development documents.
    terminology (Terminology): What they are linked to.
    held_out (LinkingTask): Held-out names.
    """

    documents: DocumentTask
    terminology: Terminology
    held_out: LinkingTask


def make_tasks(
    documents: Path, terminology: Terminology, held_out: LinkingTask, *, max_names: int, seed: int = 0
) -> ShareTasks:
    """Make the tasks of a comparison.

    documents (Path): Development documents, .spacy.
    terminology (Terminology): The terminology of the linker.
    held_out (LinkingTask): Held-out names.
    max_names (int): Names to link documents to, roughly: those of gold concepts and of others drawn at random; 0 for
        all.
    seed (int): Seed of the draw.
    RETURNS (ShareTasks): The tasks.
    RAISES (OSError): If there are no documents.
    RAISES (ValueError): If none of their mentions has a concept of the terminology.
    """
    task = DocumentTask(documents)
    ids = {id_ for doc in task.read() for span in list_gold_spans(doc) for id_ in span.kb_id_.split(EQUAL_IDS)}
    gold = {id_ for id_ in ids if id_ in terminology}
    if not gold:
        raise ValueError(Errors.E725.format(reason=f"no gold id in {documents} is one of the terminology"))
    limited = limit_dictionary(terminology, gold, max_names, seed=seed) if max_names else terminology
    return ShareTasks(task, limited, held_out)


def measure_shares(
    nlp: Language,
    linker: SapbertLinker,
    run: Path,
    shares: Sequence[float],
    tasks: ShareTasks,
    store: ResultStore,
) -> Scores:
    """Measure encoders with several shares of the base's weights. The linker keeps the last encoder.

    nlp (Language): The pipeline to adapt, without rerankers.
    linker (SapbertLinker): Its linker, with the base encoder.
    run (Path): The folder of the run.
    shares (Sequence[float]): The shares; the base is always measured.
    tasks (ShareTasks): What they are measured on.
    store (ResultStore): Keeps results and vectors.
    RETURNS (Scores): Figures by share and task, in ascending order.
    """
    scores: Scores = {}
    config = hash_folder(Path(nlp.path or "."), "config.cfg")
    # The base first: the linker has it now.
    for share in sorted({*shares, BASE}, reverse=True):
        set_share(linker, run, share, tasks.terminology, store.folder / VECTORS_FOLDER)
        identity = {"encoder": linker.encoder.fingerprint, "terminology": tasks.terminology.fingerprint}
        pipeline = PipelineSystem(nlp, {**identity, "config": config, "components": nlp.pipe_names})
        measured: dict[str, Task] = {DEVELOPMENT: tasks.documents}
        figures = measure({f"share {share:g}": pipeline}, measured, store)[f"share {share:g}"]
        encoder = EncoderSystem(linker.encoder)
        figures |= measure({"encoder": encoder}, {HELD_OUT: tasks.held_out}, store)["encoder"]
        scores[share] = {name: result.figures for name, result in figures.items()}
    return dict(sorted(scores.items()))


def choose_share(scores: Scores, shares: Sequence[float]) -> float:
    """Choose the share with the highest accuracy on development documents at rank 1, then at rank 5.

    scores (Scores): Figures by share and task.
    shares (Sequence[float]): The shares to choose from.
    RETURNS (float): The best; of equal ones the largest, which forgets the least.
    """

    def rate(share: float) -> tuple[float, ...]:
        figures: Mapping[str, Any] = scores[share][DEVELOPMENT]
        return (*(figures[metric] for metric in METRICS), share)

    return max(shares, key=rate)


def format_shares(scores: Scores, chosen: float) -> str:
    """Write a table of shares.

    scores (Scores): Figures by share and task.
    chosen (float): The chosen share.
    RETURNS (str): Markdown: accuracies at 1 and 5 in per cent.
    """
    tasks = list(next(iter(scores.values())))
    rows = []
    for share, figures in scores.items():
        label = f"{share:g}{' (nothing learned)' if share == BASE else ''}{', chosen' if share == chosen else ''}"
        cells = ["/".join(f"{100 * figures[task][metric]:.1f}" for metric in METRICS) for task in tasks]
        rows.append([label, *cells])
    return format_rows(["share of the base", *tasks], rows, n_text_columns=1)
