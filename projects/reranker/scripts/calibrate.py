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
    """Calibrate a pipeline, and save it to another folder."""
    nlp = spacy.load(pipeline)
    reranker: Any = nlp.get_pipe(RERANKER)
    if precision != NONE:
        reranker.precision = float(precision)
    found = reranker.calibrate(list(Corpus(documents)(nlp)), nlp=nlp)
    nlp.to_disk(output)
    msg.good(f"Calibrated on {documents}: {found}. The pipeline is {output}.")


if __name__ == "__main__":
    typer.run(main)
