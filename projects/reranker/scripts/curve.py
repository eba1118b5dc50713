"""Learning curve and seeds: rerankers that learn from some of the annotated mentions, or from all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from runs import Run, format_figures, measure_linker, measure_run, parse_numbers, read_docs
from wasabi import msg

from training.corpora.gold import draw_mentions
from training.data.run_folder import write_text

LINKER = "linker alone"


def main(
    linker: Path,
    documents: Path,
    output: Path,
    sizes: Annotated[str, typer.Option(help="Annotated mentions to learn from, with commas between; 0 for all")] = "0",
    seeds: Annotated[str, typer.Option(help="Seeds of draw and training, with commas between")] = "0",
    dev_share: Annotated[float, typer.Option(help="Mentions to calibrate on, as a share of the others")] = 0.25,
) -> None:
    """Train a reranker for each number of mentions and each seed, and measure all on the same documents."""
    train, dev, test = (
        read_docs(documents / "train.spacy"),
        read_docs(documents / "dev.spacy"),
        documents / "test.spacy",
    )
    rows = {LINKER: [measure_linker(linker, test)]}
    for size in parse_numbers(sizes):
        name = f"{size:,}" if size else "all"
        rows[name] = []
        for seed in parse_numbers(seeds):
            part = draw_mentions(train, size, seed=seed)
            held = draw_mentions(dev, max(1, round(dev_share * size)) if size else 0, seed=seed)
            rows[name].append(measure_run(Run(linker, part, held, test, seed), output.parent))
            msg.text(f"{name} mentions, seed {seed}: acc@1 {rows[name][-1]['acc_at_1']:.3f}")
    table = format_figures(rows, "annotated mentions")
    write_text(output, table)
    typer.echo(table)


if __name__ == "__main__":
    typer.run(main)
