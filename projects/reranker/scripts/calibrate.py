"""Calibrate the probabilities of a reranker on annotated documents: a few hundred mentions are enough."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.training import Corpus
from wasabi import msg

RERANKER, NONE = "sapbert_reranker", "null"


def main(
    pipeline: Path,
    documents: Path,
    output: Path,
    precision: Annotated[str, typer.Option(help="Choose the threshold that keeps this precision, or null")] = NONE,
) -> None:
    """Calibrate a pipeline, and save it to another folder.

    pipeline (Path): The pipeline.
    documents (Path): Documents with gold ids that its reranker was not trained on, .spacy.
    output (Path): The folder for the calibrated pipeline.
    precision (str): The precision that concepts have to be right with; others become NIL.
    """
    nlp = spacy.load(pipeline)
    reranker: Any = nlp.get_pipe(RERANKER)
    if precision != NONE:
        reranker.precision = float(precision)
    found = reranker.calibrate(list(Corpus(documents)(nlp)), nlp=nlp)
    nlp.to_disk(output)
    msg.good(f"Calibrated on {documents}: {found}. The pipeline is {output}.")


if __name__ == "__main__":
    typer.run(main)
