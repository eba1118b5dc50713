"""Measure linkers of several sizes, from RRF to linked mentions, with names that resemble real ones."""

from __future__ import annotations

import math
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from make_rrf import make_rrf
from report import make_text, write_report
from rows import Row
from similar_names import Patterns
from subprocesses import run_script
from terminology_input import read_names
from tqdm import tqdm

from training.data.run_folder import write_json
from training.machine import describe_machine, find_versions

GB = 1e9
# The targets stand here and nowhere else: those of a release as large as UMLS 2020AA.
FULL_RELEASE = 15_000_000
MINUTE = 60.0


def measure_one(work: Path, n_rows: int, patterns: Patterns, options: dict[str, str]) -> dict[str, Any]:
    """Measure one size.

    work (Path): A folder for everything that is made.
    n_rows (int): Rows of MRCONSO.
    patterns (Patterns): The real names.
    options (dict): "seed", "threads", "mentions", "recall_target".
    RETURNS (dict): What was measured.
    """
    rrf, pipeline = work / "rrf", work / "pipeline"
    rrf.mkdir()
    counts = make_rrf(rrf, n_rows, int(options["seed"]), patterns)
    built = run_script("size_build.py", str(rrf), str(pipeline), options["recall_target"], options["threads"])
    linked = run_script("size_link.py", str(pipeline), options["mentions"], options["seed"], options["threads"])
    return {"rrf_rows": counts["MRCONSO.RRF"], "wanted": n_rows, "build": built, "link": linked}


def make_size_rows(measured: dict[str, Any]) -> list[Row]:
    """Choose the figures of one size to show.

    measured (dict): What `measure_one` returned.
    RETURNS (list[Row]): The rows.
    """
    part, built, linked = f"{measured['rrf_rows']:,} rows of RRF", measured["build"], measured["link"]
    is_full = measured["wanted"] >= FULL_RELEASE
    minutes = sum(built["seconds"].values()) / MINUTE
    rate = linked["mentions"] / linked["seconds"]["link"]
    count, gigabytes, seconds = "{:,.0f}", "{:.2f} GB", "{:.1f} s"
    return [
        Row(part, "concepts", built["concepts"], count),
        Row(part, "English names", built["names"], count),
        Row(part, "rows of the index", built["rows"], count),
        *(Row(part, step, taken, seconds) for step, taken in built["seconds"].items()),
        Row(part, "in all (minutes)", minutes, "{:.1f}", at_most=30 if is_full else None),
        Row(part, "peak memory", built["memory"]["save"] / GB, gigabytes, at_most=16 if is_full else None),
        Row(part, "on disk", built["disk_bytes"] / GB, gigabytes, at_most=8 if is_full else None),
        Row(part, "`spacy.load`", linked["seconds"]["load"], seconds, at_most=5 if is_full else None),
        Row(part, "peak memory, linked", linked["memory"]["link"] / GB, gigabytes, at_most=8 if is_full else None),
        Row(part, "distinct mentions", linked["mentions"], count),
        Row(part, "linked", rate, "{:,.0f}/s", at_least=3000 if is_full else None),
        Row(part, "recall@1, mentions", linked["recall_at_1"], "{:.4f}", at_least=0.985 if is_full else None),
        Row(part, "recall@1, recorded", built["recall"].get("at_1", 1.0), "{:.4f}"),
    ]


def make_growth_rows(sizes: list[dict[str, Any]]) -> list[Row]:
    """Compare the smallest with the largest size.

    sizes (list[dict]): What was measured, by size.
    RETURNS (list[Row]): The power of the number of index rows that a figure grows with; none for one size.
    """
    small, large = (min(sizes, key=_count_rows), max(sizes, key=_count_rows))
    if small is large:
        return []
    what = f"exponent, {_count_rows(small):,} to {_count_rows(large):,} rows of the index"
    figures = {
        "time to initialize": lambda size: size["build"]["seconds"]["initialize"],
        "time of a mention": lambda size: size["link"]["seconds"]["link"] / size["link"]["mentions"],
        "bytes on disk": lambda size: size["build"]["disk_bytes"],
    }
    growth = math.log(_count_rows(large) / _count_rows(small))
    return [
        Row(f"growth, {name}", what, math.log(figure(large) / figure(small)) / growth, "{:.2f}")
        for name, figure in figures.items()
    ]


def _count_rows(size: dict[str, Any]) -> int:
    return int(size["build"]["rows"])


def main(
    output: Path,
    names_like: str,
    rows: str = "1000000",
    mentions: int = 100_000,
    recall_target: float = 0.98,
    seed: int = 0,
    threads: int = 0,
) -> None:
    """Measure several sizes, and write a table.

    output (Path): The folder for `size.md` and `size.json`.
    names_like (str): Real names that the English ones resemble: a saved terminology, RRF, OBO or a table.
    rows (str): Rows of MRCONSO, with commas between the sizes.
    mentions (int): Distinct mentions to link.
    recall_target (float): The recall that the index is tuned to, on left-out rows and altered names.
    seed (int): Seed of all random choices.
    threads (int): Processors to use; 0 for all.
    """
    load_average, machine = os.getloadavg()[0], describe_machine()
    threads = threads or machine["processors"]
    options = {
        "seed": str(seed),
        "threads": str(threads),
        "mentions": str(mentions),
        "recall_target": str(recall_target),
    }
    output.mkdir(parents=True, exist_ok=True)
    patterns = Patterns.split(read_names(Path(names_like)).names["name"])
    sizes = []
    for n_rows in tqdm([int(size) for size in rows.split(",")], desc="Measuring sizes", unit="size"):
        with TemporaryDirectory(dir=output, prefix="size ") as folder:
            sizes.append(measure_one(Path(folder), n_rows, patterns, options))
        # The next size may fail after an hour.
        write_json(output / "size.json", {"sizes": sizes})
    table = [row for size in sizes for row in make_size_rows(size)] + make_growth_rows(sizes)
    versions = find_versions(("spacy-sapbert", "spacy", "scann", "torch", "polars", "numpy"))
    report = {**options, "names_like": Path(names_like).name, **machine, "versions": versions, "sizes": sizes}
    report["table"] = [row.to_dict() for row in table]
    facts = [
        f"Names resemble those of {Path(names_like).name}. Half of the mentions are names, half shortened or misspelt.",
        f"Processor: {machine['processor']}, {threads} of {machine['processors']} used, load average "
        f"{load_average:.1f} before the run. Seed {seed}. Recall target {recall_target:g}.",
        f"Versions: {', '.join(f'{package} {number}' for package, number in versions.items())}.",
    ]
    write_report(output, "size", report, make_text(table, facts))


if __name__ == "__main__":
    typer.run(main)
