"""The steps from RRF to names, pairs and triples, ours and plain, each as a process of its own."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyarrow import parquet
from subprocesses import run_script

from spacy_sapbert.terminology import Terminology

CHUNK = 1 << 24
TRIPLES_FILE = "triples.parquet"


@dataclass(frozen=True)
class Step:
    """A command to measure.

    name (str): What it makes.
    command (tuple[str, ...]): Program and arguments; paths are absolute.
    count (Callable): Counts what it has made, by name.
    """

    name: str
    command: tuple[str, ...]
    count: Callable[[], dict[str, int]]


def make_our_steps(folder: Path, work: Path, seed: int, *, suppressed: str = "keep") -> list[Step]:
    """List the steps with the package's command, without tradenames, and with lines like those of the plain one.

    folder (Path): The folder with RRF files.
    work (Path): A folder for what is made.
    seed (int): Seed of the choice of pairs.
    suppressed (str): "keep" or "drop" suppressed names.
    RETURNS (list[Step]): A single step.
    """
    work.mkdir(parents=True, exist_ok=True)
    terminology, pairs, lines = work / "terminology", work / "pairs", work / "pairs.txt"
    settings = ("--lower-case", "--tradenames", "off", "--suppressed", suppressed)
    files = ("--pairs", pairs, "--pairs-text", lines, "--seed", seed)

    def count() -> dict[str, int]:
        return {"names": Terminology.from_disk(terminology).n_names, "pairs": count_lines(lines)}

    return [Step("names and pairs", _make_command("preprocess", folder, terminology, *settings, *files), count)]


def make_triple_steps(folder: Path, work: Path) -> list[Step]:
    """List the steps from RRF and names to triples.

    folder (Path): The folder with RRF files.
    work (Path): The folder in which the step for names and pairs has worked.
    RETURNS (list[Step]): The steps.
    """
    triples = work / "triples"
    command = _make_command("triples", folder, work / "terminology", triples)
    return [Step("triples", command, lambda: {"triples": parquet.read_metadata(triples / TRIPLES_FILE).num_rows})]


def make_plain_steps(folder: Path, work: Path, seed: int) -> list[Step]:
    """List the steps of the plain implementation: a single one.

    folder (Path): The folder with RRF files.
    work (Path): A folder for what is made.
    seed (int): Seed of the choice of pairs.
    RETURNS (list[Step]): The steps.
    """
    work.mkdir(parents=True, exist_ok=True)
    files = {"names": work / "names.txt", "pairs": work / "pairs.txt"}
    script = Path(__file__).resolve().with_name("plain_rrf.py")
    command = (sys.executable, str(script), str(folder), *map(str, files.values()), "--seed", str(seed))

    def count() -> dict[str, int]:
        return {name: count_lines(path) for name, path in files.items()}

    return [Step("names and pairs", command, count)]


def run_steps(steps: list[Step]) -> dict[str, dict[str, Any]]:
    """Run steps one after the other.

    steps (list[Step]): The steps.
    RETURNS (dict[str, dict]): Seconds and peak memory by step.
    RAISES (CalledProcessError): If a step failed.
    """
    return {step.name: run_script("time_once.py", *step.command) for step in steps}


def count_lines(path: Path) -> int:
    """Count the lines of a file.

    path (Path): The file, gzipped or not.
    RETURNS (int): Newlines in it.
    """
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(partial(file.read, CHUNK), b""))


def _make_command(name: str, *arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-m", "training", name, *map(str, arguments))
