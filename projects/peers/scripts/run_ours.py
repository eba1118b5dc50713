"""Measure one of our systems in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer
from measuring import Ranking, measure_tasks, peak_memory, start, write_measurement

if TYPE_CHECKING:
    from spacy_sapbert.encoder.shim import EncoderShim
    from spacy_sapbert.index import Index

# How a system is called in the report, by its key.
STRINGS = {"exact-match": "exact match", "tfidf": "TF-IDF of characters, exact search"}
VECTORS = {
    "exact-index-fp32": "ours, exact index, float32",
    "exact-index": "ours, exact index",
    "scann-index": "ours, ScaNN index",
}


@dataclass
class Built:
    """A system that is ready to search.

    search (Callable): Gives the ranking of each query.
    settings (dict): What decides its results.
    build (dict | None): Seconds of each step of building; None if that is a part of every search.
    memory (dict): Peak bytes after each step.
    time_loading (Callable | None): Saves, loads, and gives the seconds of loading; None if nothing is saved.
    """

    search: Callable[[Sequence[str]], list[Ranking]]
    settings: dict[str, Any]
    build: dict[str, float] | None = None
    memory: dict[str, int] = field(default_factory=dict)
    time_loading: Callable[[], float] | None = None


def build_strings(key: str, names: Sequence[str], ids: Sequence[str], k: int) -> Built:
    """Make a system that compares strings.

    key (str): One of `STRINGS`.
    names (Sequence[str]): The dictionary.
    ids (Sequence[str]): The concept of each name.
    k (int): Names to find for each query.
    RETURNS (Built): The system.
    """
    from rankings import to_rankings
    from training.evaluation.systems.exact import ExactMatch
    from training.evaluation.systems.tfidf import CharacterTfidf

    system = ExactMatch() if key == "exact-match" else CharacterTfidf()
    memory = {"imported": peak_memory()}
    return Built(lambda queries: to_rankings(ids, *system.search(names, queries, k)), {"k": k}, None, memory)


def build_vectors(key: str, encoder_name: str, names: Sequence[str], ids: Sequence[str], k: int) -> Built:
    """Encode the dictionary and build an index of it.

    key (str): One of `VECTORS`.
    encoder_name (str): The encoder.
    names (Sequence[str]): The dictionary.
    ids (Sequence[str]): The concept of each name.
    k (int): Names to find for each query.
    RETURNS (Built): The system. It encodes every query that it is given.
    """
    from encoders import describe_encoder, load_encoder
    from rankings import to_rankings

    from spacy_sapbert.index import Index, ScannIndex

    encoder = load_encoder(encoder_name, "fp32" if key.endswith("fp32") else "auto")
    index = ScannIndex() if key == "scann-index" else Index()
    memory = {"imported": peak_memory()}
    begin = time.perf_counter()
    vectors = encoder.encode(names)
    encoded = time.perf_counter()
    index.build(vectors, fingerprint=encoder.fingerprint)
    build = {"encoding": encoded - begin, "index": time.perf_counter() - encoded}
    memory["built"] = peak_memory()
    settings = {"k": k, **describe_encoder(encoder), "index": index.configuration, "recall": index.recall}

    def search(queries: Sequence[str]) -> list[Ranking]:
        return to_rankings(ids, *index.search(encoder.encode(queries), k))

    return Built(search, settings, build, memory, partial(time_loading, encoder, index))


def time_loading(encoder: EncoderShim, index: Index) -> float:
    """Save encoder and index, and load them.

    encoder (EncoderShim): The encoder.
    index (Index): Its index.
    RETURNS (float): Seconds of loading.
    """
    from spacy_sapbert.encoder.folder import write_encoder
    from spacy_sapbert.index import read_index

    with TemporaryDirectory() as folder:
        write_encoder(encoder.content, Path(folder, "encoder"))
        index.to_disk(Path(folder, "index"))
        begin = time.perf_counter()
        encoder.unloaded().load(Path(folder, "encoder"))
        read_index(Path(folder, "index"))
        return time.perf_counter() - begin


def main(run: Path, system: str, encoder: int = 0) -> None:
    """Build a system and look all mentions up.

    run (Path): The folder of the run.
    system (str): One of `STRINGS` or `VECTORS`.
    encoder (int): The number of the encoder in the settings of the run, if the system has one.
    """
    settings = start(run)
    from dictionary import read_dictionary
    from encoders import PACKAGES

    from training.machine import find_versions

    names, ids = read_dictionary(run)
    k = settings["neighbours"]
    chosen = settings["encoders"][encoder] if system in VECTORS else None
    built = build_vectors(system, chosen["name"], names, ids, k) if chosen else build_strings(system, names, ids, k)
    # What is built anew in every search must not be built for every batch.
    batch_size = settings["batch_size"] if chosen else 0
    key = f"{system}-{encoder}" if chosen else system
    tasks = measure_tasks(run, key, built.search, batch_size=batch_size, repeats=settings["repeats"])
    measurement = {
        "system": {**STRINGS, **VECTORS}[system],
        "encoder": chosen["label"] if chosen else None,
        "ranks": "names",
        "settings": built.settings,
        "versions": find_versions(PACKAGES),
        "build": built.build,
        "memory": {**built.memory, "searched": peak_memory()},
        "tasks": tasks,
        # Last, so that peak memory is that of one index.
        "load": built.time_loading() if built.time_loading else None,
    }
    write_measurement(run, key, measurement)


if __name__ == "__main__":
    typer.run(main)
