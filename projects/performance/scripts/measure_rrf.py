"""Measure the way from RRF to names and training pairs: a synthetic metathesaurus of several sizes, and a real one."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import srsly
import typer
from make_rrf import make_rrf
from rrf_steps import Step, count_lines, make_our_steps, make_plain_steps, make_triple_steps, run_steps
from run import use_threads
from tqdm import tqdm
from turns import take_turns

from spacy_sapbert.files import fill_folder
from training.data.run_folder import write_json

TURNS = 3
# Above this, a run takes so long that other work on the machine averages out.
MOST_ROWS_IN_TURNS = 1_000_000


def measure(ways: dict[str, list[Step]], turns: int) -> dict[str, dict[str, Any]]:
    """Run the steps of several ways in turns.

    ways (dict[str, list[Step]]): Steps by way.
    turns (int): How often.
    RETURNS (dict[str, dict]): For each way and step, median seconds, highest peak and lines written; and the sums.
    """
    taken: dict[str, list[dict[str, dict[str, Any]]]] = {way: [] for way in ways}
    for turn in range(turns):
        runs = {way: (lambda steps=steps: run_steps(steps)) for way, steps in ways.items()}
        for way, (_, measured) in take_turns(runs, turn).items():
            taken[way].append(measured)
    return {way: summarize(steps, taken[way]) for way, steps in ways.items()}


def summarize(steps: list[Step], taken: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Put the turns of one way together.

    steps (list[Step]): Its steps.
    taken (list[dict]): What each turn has measured, by step.
    RETURNS (dict): Seconds, peak memory and counts.
    """
    totals = [sum(measured["seconds"] for measured in turn.values()) for turn in taken]
    peaks = {step.name: max(turn[step.name]["peak_bytes"] for turn in taken) for step in steps}
    return {
        "steps": {step.name: median(turn[step.name]["seconds"] for turn in taken) for step in steps},
        "peaks": peaks,
        "seconds": median(totals),
        "turns": totals,
        # The steps run one after the other, so the memory of all is that of the largest.
        "peak_bytes": max(peaks.values()),
        "counts": {name: n for step in steps for name, n in step.count().items()},
    }


def measure_synthetic(work: Path, n_rows: int, seed: int, *, with_plain: bool) -> dict[str, Any]:
    """Measure one size of the synthetic metathesaurus.

    work (Path): A folder for everything that is made.
    n_rows (int): Rows of MRCONSO.
    seed (int): Seed of all random choices.
    with_plain (bool): Measure the plain implementation as well, in turns with ours.
    RETURNS (dict): What was measured.
    RAISES (RuntimeError): If ours and the plain implementation do not make the same number of names and pairs.
    """
    with fill_folder(work / "rrf") as folder:
        counts = make_rrf(folder, n_rows, seed)
    ways = {"ours": make_our_steps(work / "rrf", work / "ours", seed)}
    if with_plain:
        ways["plain"] = make_plain_steps(work / "rrf", work / "plain", seed)
    result = measure(ways, TURNS if n_rows <= MOST_ROWS_IN_TURNS else 1)
    found = {way: measured["counts"] for way, measured in result.items()}
    if with_plain and found["ours"] != found["plain"]:
        raise RuntimeError(f"From {n_rows} rows, ours and the plain implementation made different counts: {found}.")
    return {"rows": counts["MRCONSO.RRF"], "wanted": n_rows, **result}


def measure_real(work: Path, folder: Path, seed: int) -> dict[str, Any]:
    """Measure a folder in RRF: names, pairs and triples, with and without suppressed names.

    work (Path): A folder for everything that is made.
    folder (Path): The RRF files.
    seed (int): Seed of the choice of pairs.
    RETURNS (dict): What was measured, and the counts in a `counts.json` that lies beside the files.
    """
    ways = {
        "keep": [*make_our_steps(folder, work / "keep", seed), *make_triple_steps(folder, work / "keep")],
        "drop": make_our_steps(folder, work / "drop", seed, suppressed="drop"),
        "plain": make_plain_steps(folder, work / "plain", seed),
    }
    result = measure(ways, 1)
    counts_file = folder / "counts.json"
    expected = srsly.read_json(counts_file) if counts_file.exists() else {}
    n_rows = sum(count_lines(path) for path in folder.glob("MRCONSO.RRF*"))
    return {"name": folder.name, "rows": n_rows, **result, "expected": find_expected(expected)}


def find_expected(counts: dict[str, Any]) -> dict[str, int]:
    """Find what can be compared in the counts of an open metathesaurus.

    counts (dict): The content of its `counts.json`.
    RETURNS (dict[str, int]): Pairs without suppressed names, if they were counted.
    """
    pairs = counts.get("MRCONSO", {})
    pairs = pairs.get("synonym pairs", {}) if isinstance(pairs, dict) else {}
    return {"pairs": pairs["eng_trim50"]} if "eng_trim50" in pairs else {}


def main(
    run: Path, rows: str = "50000,100000", plain_rows: int = 100_000, rrf: str = "", seed: int = 0, threads: int = 0
) -> None:
    """Measure names and pairs out of RRF.

    run (Path): The folder of the run; replaced if it exists.
    rows (str): Sizes of the synthetic metathesaurus, as rows of MRCONSO with commas between them.
    plain_rows (int): The size at which the plain implementation is measured as well.
    rrf (str): A folder with RRF files to measure as well; empty for none.
    seed (int): Seed of all random choices.
    threads (int): Processors to use; 0 for all.
    """
    load_average = os.getloadavg()[0]
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min(threads, processors) or processors
    use_threads(threads)
    sizes = sorted({int(size) for size in rows.split(",") if size.strip()} | {plain_rows})
    synthetic = []
    # The commands run in another folder, so all paths have to be absolute.
    with fill_folder(run.resolve()) as folder:
        for size in tqdm(sizes, desc="Measuring sizes", unit="size"):
            # Taken away after each size: the largest are gigabytes.
            with TemporaryDirectory(dir=folder) as work:
                synthetic.append(measure_synthetic(Path(work), size, seed, with_plain=size == plain_rows))
        real = None
        if rrf:
            with TemporaryDirectory(dir=folder) as work:
                real = measure_real(Path(work), Path(rrf).resolve(), seed)
        settings = {"rows": sizes, "plain_rows": plain_rows, "rrf": rrf, "seed": seed, "threads": threads}
        settings["load_average"] = round(load_average, 2)
        write_json(folder / "rrf.json", {"settings": settings, "synthetic": synthetic, "real": real})


if __name__ == "__main__":
    typer.run(main)
