"""Measure the plain loop of SapBERT's evaluation in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import typer
from measuring import Ranking, measure_tasks, peak_memory, start, write_measurement


def main(run: Path, batch_size: int, encoder: int = 0) -> None:
    """Encode the dictionary and look all mentions up, if the encoder is a transformer.

    run (Path): The folder of the run.
    batch_size (int): Mentions at a time.
    encoder (int): The number of the encoder in the settings of the run.
    """
    settings = start(run)
    from dictionary import read_dictionary
    from encoders import PACKAGES, describe_encoder, load_encoder
    from plain_loop import LENGTH, NAMES_AT_ONCE, NEIGHBOURS, PlainLoop
    from rankings import to_rankings

    from spacy_sapbert.encoder.settings import TRANSFORMER
    from training.machine import find_versions

    names, ids = read_dictionary(run)
    chosen = settings["encoders"][encoder]
    shim = load_encoder(chosen["name"], "fp32")
    if shim.content.kind != TRANSFORMER:
        return  # the loop is one of transformers
    loop = PlainLoop(shim.source)
    memory = {"imported": peak_memory()}
    begin = time.perf_counter()
    loop.build(names)
    build = {"encoding": time.perf_counter() - begin}
    memory["built"] = peak_memory()

    def search(queries: Sequence[str]) -> list[Ranking]:
        return to_rankings(ids, *loop.search(queries))

    key = f"plain-loop-by-{batch_size}-{encoder}"
    tasks = measure_tasks(run, key, search, batch_size=batch_size, repeats=settings["repeats"])
    measurement = {
        "system": "plain loop, mentions one by one"
        if batch_size == 1
        else f"plain loop, {batch_size} mentions at once",
        "encoder": chosen["label"],
        "ranks": "names",
        "settings": {
            **describe_encoder(shim),
            "k": NEIGHBOURS,
            "max_length": LENGTH,
            "batch_size": batch_size,
            "names_at_once": NAMES_AT_ONCE,
        },
        "versions": find_versions(PACKAGES),
        "build": build,
        "memory": {**memory, "searched": peak_memory()},
        "tasks": tasks,
        "load": None,
    }
    write_measurement(run, key, measurement)


if __name__ == "__main__":
    typer.run(main)
