"""Make and save the pipeline that the other measurements use: a blank one with the linker, all settings default."""

from __future__ import annotations

import time
from pathlib import Path

import spacy
import typer
from run import start

from spacy_sapbert.encoder.shim import make_huggingface_loader
from spacy_sapbert.files import fill_folder
from spacy_sapbert.terminology import Terminology
from training.data.run_folder import write_json


def main(run: Path) -> None:
    """Initialize a linker and save its pipeline.

    run (Path): The folder of the run. The pipeline goes to its subfolder `pipeline`.
    """
    settings = start(run)
    terminology = Terminology.from_disk(run / "terminology")
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    begin = time.perf_counter()
    linker.initialize(terminology=terminology, encoder=make_huggingface_loader(settings.encoder))
    initialized = time.perf_counter()
    with fill_folder(run / "pipeline") as folder:
        nlp.to_disk(folder)
    result = {
        "names": terminology.n_names,
        "rows": len(linker.index),
        "initialize_seconds": initialized - begin,
        "save_seconds": time.perf_counter() - initialized,
    }
    write_json(run / "build.json", result)


if __name__ == "__main__":
    typer.run(main)
