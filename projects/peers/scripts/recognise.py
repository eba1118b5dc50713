"""Find mentions and their concepts in the same raw texts with all systems, in one run: accuracy, speed, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import srsly
import typer
from peers import SCRIPTS, list_versions, make_table

from spacy_sapbert.files import fill_folder, hash_file
from training.bench import Contestant, Turns, describe, take_turns, write_report
from training.data.run_folder import write_json
from training.evaluation.documents import read_any_terminology
from training.evaluation.recognition import ConceptIds, RecognitionSettings, RecognitionTask, score, score_overlap
from training.evaluation.settings import Limits


def read_tasks(documents: str, below: str) -> dict[str, RecognitionTask]:
    """Read the documents, as a section of `measure` does: files .spacy, NAME=FILE for another name."""
    settings = RecognitionSettings.read({"files": documents, "below": below})
    found = list(settings.make("recognition", Limits()))
    tasks = {task.describe()["title"]: task for task in found if isinstance(task, RecognitionTask)}
    if not tasks or len(tasks) < len(found):
        raise ValueError(
            f"All files of {documents or 'the variable `documents`, which is empty,'} must be there, with distinct "
            "names: give files that `python -m training convert --documents` has written, as NAME=FILE."
        )
    return tasks


def make_contestants(
    given: dict[str, Any], terminology: Path, encoder: str, index: Path, pythons: dict[str, str]
) -> dict[str, Contestant]:
    """Make all contestants by their keys, other packages only if their Python is given."""

    def add(key: str, name: str, function: str, **inputs: Any) -> None:
        if python := pythons[function.partition("_")[0]]:
            inputs = {**given, **inputs, "key": key}
            contestants[key] = Contestant(name, SCRIPTS / "foreign.py", function, inputs, python)

    own = {**given, "terminology": str(terminology), "encoder": encoder}
    below = {"below": given["below"]} if given["below"] else {}
    linker = {"types": given["types"]} if given["types"] else {}
    longest = {"matcher": {"matches": "longest", **below}, "linker": linker}
    every = {"matcher": {"matches": "all", "spans_key": "concepts", **below}, "linker": linker}
    ours = {"phrases": ("PhraseMatcher", None), "longest": ("ours, longest names", longest)}
    ours |= {"all": ("ours, all names", every), "reranked": ("ours, with reranker", {**longest, "reranker": {}})}
    contestants = {
        key: Contestant(name, SCRIPTS / "ours.py", "recognise", {**own, "key": key, "settings": settings})
        for key, (name, settings) in ours.items()
    }
    if given["types"]:
        # It finds concepts of all types.
        del contestants["phrases"]
    add("gilda", "gilda", "gilda_texts")
    for threshold in (0.7, 0.8, 0.9):
        add(f"quick_{threshold}", f"QuickUMLS, similarity from {threshold}", "quickumls", threshold=threshold)
    # FastHPOCR knows only ontologies, each by an index of its own.
    if ".obo" in terminology.suffixes:
        caches = {"ontology": str(terminology), "index": str(index / hash_file(terminology)[:16])}
        for key, name, is_longest in (("fast_longest", "longest names", True), ("fast_all", "all names", False)):
            add(key, f"FastHPOCR, {name}", "fasthpocr", **caches, is_longest=is_longest)
    return contestants


def make_peers(
    run: Path, tasks: dict[str, RecognitionTask], ids: ConceptIds, contestants: dict[str, Contestant], measured: Turns
) -> list[dict[str, Any]]:
    """Make a flat dict for each system and task."""
    peers = []
    for key, (name, *_) in contestants.items():
        saved = srsly.read_json(run / f"found_{key}.json")
        for task_name, task in tasks.items():
            docs = task.read()
            founds = [ids.keep((start, end, id_) for start, end, id_ in spans) for spans in saved[task_name]]
            golds = [ids.read_gold(doc) for doc in docs]
            scores = [*score(golds, founds), *score_overlap([doc.text for doc in docs], golds, founds, ids)]
            figures = {figure.metric: figure.value for figure in scores}
            first = measured.figures(name).get(f"first {task_name}")
            words = sum(len(doc.text.split()) for doc in docs)
            peers.append(
                {
                    **{"system": name, "task": task_name, **figures},
                    "words_per_second": words / measured.median(name, f"annotate {task_name}"),
                    "words_per_second_after_loading": first and words / first,
                    "build_seconds": measured.median(name, "build"),
                    "load_seconds": measured.figures(name).get("load"),
                    "peak_bytes": measured.peak(name, f"annotate {task_name}"),
                    "versions": measured.figures(name)["versions"],
                }
            )
    return peers


def show_scores(peer: dict[str, Any]) -> list[str]:
    """Fill the columns of a task."""
    levels = {"mention": "prf", "document": "prf", "overlap": "pr", "id": "pr"}
    scores = ["/".join(f"{100 * peer[f'{level}_{what}']:.1f}" for what in all_) for level, all_ in levels.items()]
    return [*scores, *(f"{peer[key] or 0:,.0f}" for key in ("words_per_second", "words_per_second_after_loading"))]


def main(
    output: Path,
    documents: str = "",
    terminology: str = "",
    below: str = "",
    types: str = "",
    lang: str = "en",
    systems: str = "",
    encoder: str = "",
    fasthpocr: str = "",
    gilda: str = "",
    quickumls: str = "",
    repeats: int = 3,
    threads: int = 0,
) -> None:
    """Measure all systems, and write recognition.md and recognition.json. `documents` have commas between them;
    `terminology` is an ontology, a dictionary or a folder of `preprocess`; `types` are the semantic types of the only
    concepts to find; `systems` are the keys of those to measure, empty for all; `fasthpocr`, `gilda` and `quickumls`
    are the Pythons of their environments, empty to leave them out."""
    tasks = read_tasks(documents, below)
    known = read_any_terminology(terminology)
    path = Path(terminology).resolve()
    described = describe([], [path, *(task.path for task in tasks.values())], threads)
    run = output.resolve() / "run_texts"
    with fill_folder(run) as folder:
        texts = {name: [doc.text for doc in task.read()] for name, task in tasks.items()}
        write_json(folder / "texts.json", texts)
        kinds = [kind for kind in map(str.strip, types.split(",")) if kind]
        concepts = known.concepts.to_polars("id", "types").with_row_index("concept")
        if kinds:
            concepts = concepts.filter(pl.col("types").list.set_intersection(kinds).list.len() > 0)
        names = known.names.to_polars("concept", "name").join(concepts, on="concept", maintain_order="left")
        write_json(folder / "dictionary.json", {"names": names["name"].to_list(), "ids": names["id"].to_list()})
    roots = [*next(iter(tasks.values())).below]
    inputs = {"run": str(run), "repeats": repeats, "below": roots, "types": kinds, "lang": lang}
    named = {"fasthpocr": fasthpocr, "gilda": gilda, "quickumls": quickumls}
    pythons = {name: str(Path(python).absolute()) if python else "" for name, python in named.items()}
    contestants = make_contestants(inputs, path, encoder, output.resolve() / "fasthpocr_index", pythons)
    contestants = {
        key: one for key, one in contestants.items() if key in (systems.split(",") if systems else contestants)
    }
    measured = take_turns(list(contestants.values()), threads=threads)
    peers = make_peers(run, tasks, ConceptIds([known], roots), contestants, measured)
    counted = f"only {below} with descendants counts" if below else "all concepts count"
    counted += f"; only concepts of the types {types} are looked for" if types else ""
    facts = [f"{len(known):,} concepts with {known.n_names:,} names; {counted}. Median of {repeats} passes."]
    facts.append("Words/s after loading: one pass of a system that was just loaded, its first text included.")
    if any(measured.figures(name).get("index_was_kept") for name, *_ in contestants.values()):
        facts.append("FastHPOCR's index was kept from an earlier run: `build` is the time to load it.")
    data = {"peers": peers, "measured": measured.to_dict()}
    columns = ("mentions P/R/F1", "documents P/R/F1", "overlap P/R", "ids P/R", "words/s", "words/s after loading")
    table = make_table(peers, columns, show_scores)
    write_report(output / "recognition", table, [*facts, *list_versions(peers)], described, data)


if __name__ == "__main__":
    typer.run(main)
