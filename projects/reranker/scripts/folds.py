"""Rerankers of a corpus in folds: each is trained and measured on its own fold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from runs import Run, format_figures, measure_linker, measure_run, read_docs
from wasabi import msg

from training.corpora.gold import split_documents
from training.data.run_folder import write_text

VALIDATION = ("validation", "dev")
# Words of a batch: such documents are single mentions, so it has about as many of them as a batch of texts.
BATCH_WORDS = 200


def main(
    linker: Path,
    documents: Path,
    output: Path,
    seed: Annotated[int, typer.Option(help="Seed of the training")] = 0,
    dev_share: Annotated[
        float, typer.Option(help="Share of training documents to calibrate on, if none are given")
    ] = 0.1,
) -> None:
    """Train and measure a reranker on each fold."""
    rows: dict[str, list] = {"linker alone": [], "reranker": []}
    for test in sorted(documents.glob("*.test.spacy")):
        fold = test.name.removesuffix(".test.spacy")
        train = read_docs(documents / f"{fold}.train.spacy")
        given = [path for part in VALIDATION if (path := documents / f"{fold}.{part}.spacy").is_file()]
        if given:
            dev = read_docs(given[0])
        else:
            parts = split_documents(train, {"train": 1 - dev_share, "dev": dev_share}, seed=seed)
            train, dev = parts["train"], parts["dev"]
        rows["linker alone"].append(measure_linker(linker, test))
        rows["reranker"].append(measure_run(Run(linker, train, dev, test, seed, BATCH_WORDS), output.parent))
        msg.text(f"{fold}: acc@1 {rows['linker alone'][-1]['acc_at_1']:.3f}, {rows['reranker'][-1]['acc_at_1']:.3f}")
    if not rows["reranker"]:
        raise FileNotFoundError(f"There are no folds in {documents}: no file <fold>.test.spacy.")
    table = format_figures(rows, "mean and deviation over folds")
    write_text(output, table)
    typer.echo(table)


if __name__ == "__main__":
    typer.run(main)
