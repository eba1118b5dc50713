"""Measure linking a corpus: beside a plain loop, with actors, after kills, and its memory. One table."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import psutil
import typer

from spacy_sapbert.files import hash_file, list_files
from spacy_sapbert.progress import say
from training.data.run_folder import write_json, write_text
from training.markup import format_rows

SCRIPTS = Path(__file__).resolve().parent
# Seconds between two looks at a run.
TICK = 0.2


def main(
    pipeline: Annotated[Path, typer.Argument(help="A saved pipeline")],
    corpus: Annotated[Path, typer.Argument(help="What `make_documents.py` made")],
    output: Annotated[Path, typer.Argument(help="The folder of linked corpora and of the report")],
    actors: Annotated[str, typer.Option(help="Numbers of Ray actors, with commas between; 0 is one process")] = "0,1,2",
    kills: Annotated[int, typer.Option(help="Kills at random points")] = 10,
    block: Annotated[int, typer.Option(help="Documents of a block")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the kills")] = 0,
) -> None:
    """Measure, and write report.json and report.md."""
    # That in one process is what the others are compared with.
    numbers = sorted({0, *(int(number) for number in actors.split(","))})
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    measured: dict[str, dict[str, Any]] = {"plain loop": run_plain(pipeline, corpus, block)}
    for number in numbers:
        name = f"{number} actors" if number else "one process"
        command = make_command(pipeline, corpus, output / name.replace(" ", "_"), block, number)
        measured[name] = watch(command, output / name.replace(" ", "_"))
        say(f"{name}: {measured[name]}")
    one, plain = measured["one process"], measured["plain loop"]
    # Imports and loading are the same in both.
    more = one["processor_seconds"] - plain["processor_seconds"]
    one["overhead"] = more / plain["loop_processor_seconds"]
    expected = one["digest"]
    folder = output / "killed"
    command = make_command(pipeline, corpus, folder, block, 0)
    n_blocks, rng = one["blocks"], random.Random(seed)
    points = sorted(rng.sample(range(n_blocks), min(kills, n_blocks)))
    killed = [kill(command, folder, point, rng) for point in points]
    measured["killed"] = {**watch(command, folder), "kills": len(killed), "blocks_at_kills": killed}
    for figures in measured.values():
        if "digest" in figures:
            figures["same"] = figures["digest"] == expected
    write_json(output / "report.json", measured)
    write_text(output / "report.md", format_report(measured))
    typer.echo(format_report(measured))


def make_command(pipeline: Path, corpus: Path, output: Path, block: int, actors: int) -> list[str]:
    """Make the command that links."""
    script = str(SCRIPTS / "link.py")
    settings = ["--block", str(block), "--actors", str(actors)]
    return [sys.executable, script, str(pipeline), str(corpus), str(output), *settings]


def run_plain(pipeline: Path, corpus: Path, block: int) -> dict[str, Any]:
    """Run the plain loop in a process of its own."""
    command = [sys.executable, str(SCRIPTS / "plain_loop.py"), str(pipeline), str(corpus), str(block)]
    before = measure_processor()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**figures, "processor_seconds": measure_processor() - before}


def watch(command: Sequence[str], output: Path) -> dict[str, Any]:
    """Run a command, and look at its memory and at its output folder."""
    begin, before = time.time(), measure_processor()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    memory = []
    while process.poll() is None:
        if any((output / "mentions").glob("*.parquet")):
            memory.append(measure_memory(process.pid))
        time.sleep(TICK)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    wall = time.time() - begin
    files = sorted((output / "mentions").glob("*.parquet"))
    times = sorted(path.stat().st_mtime for path in files if path.stat().st_mtime >= begin)
    pace = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else wall
    quarter = max(1, len(memory) // 4)
    return {
        "wall_seconds": wall,
        "processor_seconds": measure_processor() - before,
        "seconds": pace * len(files),
        "blocks": len(files),
        "memory": [median(memory[quarter : 2 * quarter] or [0]), median(memory[-quarter:] or [0])],
        "digest": hash_output(output),
    }


def kill(command: Sequence[str], output: Path, point: int, rng: random.Random) -> int:
    """Start a command, and kill it a random moment after it has written a number of blocks."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and len(list((output / "mentions").glob("*.parquet"))) < point:
        time.sleep(0.01)
    time.sleep(rng.random())
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return len(list((output / "mentions").glob("*.parquet")))


def measure_processor() -> float:
    """Measure the processor time of all commands that have ended. Unlike time, it hardly depends on other processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure_memory(pid: int) -> float:
    """Measure the memory of a process and of those that it has started, in MB, without files that they map."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                memory = one.memory_info()
                # Only Linux tells what is shared.
                total += memory.rss - getattr(memory, "shared", 0)
    return total / 2**20


def hash_output(output: Path) -> str:
    """Hash mentions and errors."""
    files = [name for name in list_files(output) if name.endswith(".parquet")]
    return hashlib.sha256("".join(name + hash_file(output / name) for name in files).encode()).hexdigest()


def format_report(measured: dict[str, dict[str, Any]]) -> str:
    """Write the table."""
    plain = measured["plain loop"]["seconds"]
    rows = [["plain loop", "", f"{plain:.1f}", "1.00", "", "", ""]]
    for name, figures in measured.items():
        if "digest" in figures:
            seconds = "" if "kills" in figures else f"{figures['seconds']:.1f}"
            pace = "" if "kills" in figures else f"{plain / figures['seconds']:.2f}"
            memory = " → ".join(f"{size:,.0f}" for size in figures["memory"])
            extra = f"{100 * figures['overhead']:.1f} %" if "overhead" in figures else ""
            same = "yes" if figures["same"] else "NO"
            rows.append([name, f"{figures['wall_seconds']:.1f}", seconds, pace, extra, memory, same])
    columns = [
        "run",
        "seconds in all",
        "seconds of linking",
        "speed",
        "more processor time",
        "memory, MB",
        "same files",
    ]
    return format_rows(columns, rows, n_text_columns=1)


if __name__ == "__main__":
    typer.run(main)
