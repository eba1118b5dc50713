"""Compare one linker with several that hold a share of the concepts each, whose candidates are merged by score."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import spacy
import srsly
import typer
from report import make_text, write_report
from rows import Row
from run import start
from subprocesses import run_script
from terminology_input import keep_names

from spacy_sapbert.candidates import Candidate
from spacy_sapbert.terminology import Terminology
from training.data.run_folder import write_json
from training.machine import describe_machine, find_versions

# Cosines of the same two strings, in index structures of different form, differ by less.
SAME_SCORE = 1e-5
MB = 1e6


def find_shard(concept_id: str, n_shards: int) -> int:
    """Find the shard of a concept: by a hash of its id, so that it stays in its shard in the next release.

    concept_id (str): The id.
    n_shards (int): Shards.
    RETURNS (int): The number of the shard.
    """
    return int.from_bytes(sha256(concept_id.encode()).digest()[:8], "big") % n_shards


def split_pipeline(whole: Path, folder: Path, n_shards: int) -> list[Path]:
    """Make a pipeline for each shard, with the encoder and all settings of the whole one.

    whole (Path): The pipeline.
    folder (Path): Where to save the shards.
    n_shards (int): Shards.
    RETURNS (list[Path]): Their folders.
    """
    nlp = spacy.load(whole)
    linker = nlp.get_pipe("sapbert_linker")
    terminology: Terminology = linker.terminology
    ids = terminology.concepts["id"].to_list()
    shard_of = pl.Series([find_shard(concept_id, n_shards) for concept_id in ids])
    shards = []
    for number in range(n_shards):
        kept = pl.Series(shard_of.gather(terminology.name_concept) == number)
        linker.initialize(terminology=keep_names(terminology, pl.lit(kept)))
        shards.append(folder / str(number))
        nlp.to_disk(shards[-1])
    return shards


def search(pipelines: list[Path], mentions: Path, folder: Path, threads: int) -> dict[str, Any]:
    """Search several pipelines at the same time, each in a process of its own, and merge what they find.

    pipelines (list[Path]): The pipelines.
    mentions (Path): A JSON list of distinct strings.
    folder (Path): For what each finds.
    threads (int): Processors to use in all.
    RETURNS (dict): Candidates of each mention, seconds of the slowest process, the highest memory, rows of each index.
    """
    share = max(threads // len(pipelines), 1)
    files = [folder / f"{number}.json" for number in range(len(pipelines))]
    with ThreadPoolExecutor(len(pipelines)) as pool:
        runs = [
            pool.submit(run_script, "shard_once.py", str(pipeline), str(mentions), str(file), str(share))
            for pipeline, file in zip(pipelines, files, strict=True)
        ]
        measured = [run.result() for run in runs]
    found = [srsly.read_json(file) for file in files]
    k = spacy.load(pipelines[0]).get_pipe("sapbert_linker").k
    merged: list[list[Candidate]] = found[0]
    for more in found[1:]:
        both = ([*first, *second] for first, second in zip(merged, more, strict=True))
        merged = [sorted(found, key=lambda one: -one["score"])[:k] for found in both]
    slowest = max(measured, key=lambda one: one["seconds"])
    peak = max(one["peak_bytes"] for one in measured)
    return {
        "found": merged,
        "seconds": slowest["seconds"],
        "peak_bytes": peak,
        "rows": [one["rows"] for one in measured],
    }


def compare(one: list[list[Candidate]], several: list[list[Candidate]]) -> dict[str, float]:
    """Compare the candidates of one linker with the merged ones.

    one (list[list[Candidate]]): Candidates of each mention.
    several (list[list[Candidate]]): The same mentions, merged.
    RETURNS (dict[str, float]): Shares of mentions with the same best score, and with the same concepts.
    """
    pairs = [(left, right) for left, right in zip(one, several, strict=True) if left]
    best = [abs(left[0]["score"] - right[0]["score"]) <= SAME_SCORE for left, right in pairs]
    same = [{c["concept_id"] for c in left} == {c["concept_id"] for c in right} for left, right in pairs]
    return {"same_best_score": sum(best) / len(pairs), "same_concepts": sum(same) / len(pairs)}


def main(run: Path, output: Path, shards: int = 2) -> None:
    """Measure a pipeline and its shards.

    run (Path): The folder of the run, with the pipeline that `build` has made.
    output (Path): The folder for `shards.md` and `shards.json`.
    shards (int): Shards.
    """
    load_average, settings = os.getloadavg()[0], start(run)
    mentions = list(dict.fromkeys(srsly.read_json(run / "mentions.json")))
    with TemporaryDirectory(dir=run) as work:
        folder = Path(work).resolve()
        write_json(folder / "mentions.json", mentions)
        parts = split_pipeline(run / "pipeline", folder, shards)
        whole = [(run / "pipeline").resolve()]
        one, several = (search(way, folder / "mentions.json", folder, settings.threads) for way in (whole, parts))
    agreement = compare(one.pop("found"), several.pop("found"))
    rows = [
        Row("one linker", "rows of the index", one["rows"][0], "{:,.0f}"),
        Row("one linker", "distinct mentions", len(mentions) / one["seconds"], "{:,.0f}/s"),
        Row("one linker", "peak memory (MB)", one["peak_bytes"] / MB, "{:,.0f}"),
        Row(f"{shards} shards", "rows of the largest index", max(several["rows"]), "{:,.0f}"),
        Row(f"{shards} shards", "distinct mentions", len(mentions) / several["seconds"], "{:,.0f}/s"),
        Row(f"{shards} shards", "peak memory of a process (MB)", several["peak_bytes"] / MB, "{:,.0f}"),
        Row("both", "mentions with the same best score", agreement["same_best_score"], "{:.4f}"),
        Row("both", "mentions with the same concepts", agreement["same_concepts"], "{:.4f}"),
    ]
    machine = {"versions": find_versions(("spacy-sapbert", "spacy", "scann")), **describe_machine()}
    report = {"one": one, "several": several, **agreement, **machine, "load_average": load_average}
    facts = [
        f"Names: {settings.names}. Mentions: {settings.mentions}.",
        f"Load average {load_average:.1f} before the run.",
    ]
    write_report(output, "shards", report, make_text(rows, facts))


if __name__ == "__main__":
    typer.run(main)
