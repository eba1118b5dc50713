"""Make the config of a training: the pipeline as it is, frozen, and a reranker behind its linker."""

from __future__ import annotations

from pathlib import Path

import typer
from thinc.api import Config

CONFIG = Path(__file__).parents[1] / "configs" / "reranker.cfg"
RERANKER, LINKER, ABBREVIATIONS = "sapbert_reranker", "sapbert_linker", "schwartz_hearst"


def main(pipeline: Path, output: Path) -> None:
    """Write a config."""
    output.parent.mkdir(parents=True, exist_ok=True)
    make_config(pipeline).to_disk(output)


def make_config(pipeline: Path, base: Path = CONFIG) -> Config:
    """Make a config: all components are sourced and frozen, and the first linker's candidates are reranked."""
    saved = Config().from_disk(pipeline / "config.cfg", interpolate=False)
    factories = {name: saved["components"][name]["factory"] for name in saved["nlp"]["pipeline"]}
    kept = [name for name, factory in factories.items() if factory != RERANKER]
    linkers = [name for name in kept if factories[name] == LINKER]
    if not linkers:
        raise ValueError(f"The pipeline {pipeline} has no linker: its components are {', '.join(factories) or 'none'}.")
    config = Config().from_disk(base, interpolate=False)
    own = {**config["components"][RERANKER], "linker": linkers[0]}
    config["components"] = {**{name: {"source": str(pipeline.absolute())} for name in kept}, RERANKER: own}
    config["nlp"] |= {"lang": saved["nlp"]["lang"], "pipeline": [*kept, RERANKER]}
    config["training"]["frozen_components"] = kept
    # The others, such as entity recognisers, are not needed for gold mentions.
    annotating = [name for name in kept if factories[name] in (LINKER, ABBREVIATIONS)]
    config["training"]["annotating_components"] = annotating
    return config


if __name__ == "__main__":
    typer.run(main)
