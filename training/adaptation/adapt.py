"""A saved pipeline in, a saved pipeline out: with the encoder of a run, averaged with its own."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..data.run_folder import RunFolder, write_text
from ..data.task import LinkingTask
from ..errors import Errors
from ..evaluation.measure import ResultStore
from .pipeline import check_output, list_rerankers, open_pipeline, save_pipeline
from .shares import BASE, VECTORS_FOLDER, choose_share, format_shares, make_tasks, measure_shares, set_share

TABLE, PIPELINE_FOLDER, WORK_FOLDER = "shares.md", "pipeline", "work"


@dataclass(frozen=True)
class Adapted:
    """What came out of an adaptation.

    share (float): The share of the base's weights; 1 if nothing was learned that helps on development documents.
    table (str): Accuracies of all shares, Markdown.
    removed (list[str]): Rerankers that the pipeline lost, because they were trained with its former encoder.
    names (int): Names that were encoded again.
    """

    share: float
    table: str
    removed: list[str]
    names: int


def adapt_pipeline(
    pipeline: Path,
    linker: str,
    run: Path,
    documents: Path,
    output: Path,
    *,
    shares: Sequence[float],
    held_out: LinkingTask,
    max_names: int = 0,
    seed: int = 0,
) -> Adapted:
    """Choose the share of the base's weights on development documents, and save the pipeline with that encoder.

    The pipeline itself is only read. Measured shares and encoded names are kept in a folder of the output until the new
    pipeline is saved, so that an interrupted call goes on.

    pipeline (Path): A saved pipeline.
    linker (str): The name of its linker.
    run (Path): The folder of the run, which has started from the linker's encoder.
    documents (Path): Development documents, .spacy.
    output (Path): The folder for `pipeline/` and `shares.md`.
    shares (Sequence[float]): Shares to choose from.
    held_out (LinkingTask): Held-out names to measure what was forgotten.
    max_names (int): As for `make_tasks`.
    seed (int): As for `make_tasks`.
    RETURNS (Adapted): What came out.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If the pipeline can't be adapted, the run has started from another encoder, or no development
        mention has a concept of the terminology.
    """
    check_output(output, pipeline)
    nlp, found = open_pipeline(pipeline, linker)
    trained_from = RunFolder(run).read_description().encoder["base"]
    if trained_from != found.encoder.fingerprint:
        details = {"found": found.encoder.fingerprint, "wanted": trained_from}
        raise ValueError(Errors.E663.format(name=f"{linker} of {pipeline}", **details))
    rerankers = list_rerankers(nlp, linker)
    for name in rerankers:
        nlp.remove_pipe(name)
    terminology = found.terminology
    tasks = make_tasks(documents, terminology, held_out, max_names=max_names, seed=seed)
    work = output / WORK_FOLDER
    scores = measure_shares(nlp, found, run, shares, tasks, ResultStore(work))
    share = choose_share(scores, shares)
    if share == BASE:
        nlp, _ = open_pipeline(pipeline, linker)
        rerankers = []
    else:
        set_share(found, run, share, terminology, work / VECTORS_FOLDER)
    save_pipeline(nlp, output / PIPELINE_FOLDER)
    table = format_shares(scores, share)
    write_text(output / TABLE, table)
    shutil.rmtree(work)
    return Adapted(share, table, rerankers, 0 if share == BASE else terminology.n_names)
