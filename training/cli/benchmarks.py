"""Commands of the report of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .application import app, encoding_command
from .figures import ENCODER_OPTION, SEED_OPTION, load_vectors


@encoding_command()
def illustrate(
    output: Annotated[Path, typer.Argument(help="The folder of `evaluate`")],
    terminology: Annotated[Path, typer.Argument(help="A folder of `preprocess`")],
    encoder: Annotated[list[str], ENCODER_OPTION],
    cache: Annotated[str, typer.Option(help="A folder for vectors of strings; empty for none")] = "",
    concepts: Annotated[int, typer.Option(help="Concepts to draw by t-SNE")] = 30,
    batch: Annotated[int, typer.Option(help="Pairs of the batch whose cosines are drawn")] = 256,
    max_names: Annotated[int, typer.Option(help="English names of case studies at most; 0 for all")] = 50_000,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Draw the figures of the report, and list its case studies."""
    from spacy_sapbert.terminology import Terminology

    from ..evaluation.illustration import illustrate as draw

    draw(
        output,
        Terminology.from_disk(terminology),
        load_vectors(encoder, cache=cache or None),
        concepts=concepts,
        batch=batch,
        max_names=max_names,
        seed=seed,
    )
