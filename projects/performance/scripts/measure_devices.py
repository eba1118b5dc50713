"""Measure encoding, training and exact search on the CPU and on each GPU: `devices.md` and `devices.json`."""

from __future__ import annotations

import random
from dataclasses import asdict
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import torch
import typer
from accelerate.state import AcceleratorState
from measure_training import make_trainer
from report import PACKAGES, describe_run, write_report
from run import Settings, start
from tqdm import tqdm
from turns import take_turns

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import list_devices
from spacy_sapbert.terminology import Terminology
from training.cli.application import choose_device
from training.data.pairs import write_pairs
from training.engine.nearest import search_on_device
from training.engine.run import open_processes
from training.machine import describe_machine, find_processor, find_versions

TURNS = 3
# Before time counts: GPUs compile and reserve memory at first.
WARM_UP = 2
NEIGHBOURS = 10
FORMS = {"names": "{:,.0f}", "steps": "{:,.2f}", "searches": "{:,.0f}"}


class Work(NamedTuple):
    """What every device does.

    names (list[str]): Names to encode, and to search among.
    queries (int): How many of them are searched for.
    pairs (Path): A folder of pairs to train on.
    batch (int): Pairs in a step.
    steps (int): Steps.
    """

    names: list[str]
    queries: int
    pairs: Path
    batch: int
    steps: int


def main(
    run: Path,
    output: Path,
    names: Annotated[int, typer.Option(help="Names to encode, and to search among; 0 for all")] = 20_000,
    queries: Annotated[int, typer.Option(help="Names to search for")] = 2_000,
    batch: Annotated[int, typer.Option(help="Pairs in a training step")] = 128,
    steps: int = 5,
) -> None:
    """Measure each device, print the table and write the report.

    run (Path): The folder of the run.
    output (Path): The folder for `devices.md` and `devices.json`.
    """
    settings = start(run)
    terminology = Terminology.from_disk(run / "terminology")
    distinct = sorted(set(terminology.names["name"].to_list()))
    random.Random(settings.seed).shuffle(distinct)
    chosen = distinct[: names or None]
    # "cuda" is one of the GPUs that have numbers.
    devices = [name for name in list_devices() if name != "cuda"]
    with TemporaryDirectory() as folder:
        write_pairs(terminology, Path(folder) / "pairs", seed=settings.seed)
        work = Work(chosen, min(queries, len(chosen)), Path(folder) / "pairs", batch, steps)
        measured = {name: measure_device(name, settings, work, Path(folder)) for name in devices}
    report = {
        "settings": {**asdict(settings), "chosen": len(chosen), "queries": work.queries, "batch": batch},
        "versions": find_versions(PACKAGES),
        **describe_machine(),
        "devices": measured,
    }
    write_report(output, "devices", report, make_text(settings, report))


def measure_device(name: str, settings: Settings, work: Work, folder: Path) -> dict[str, Any]:
    """Measure a device.

    name (str): Its name, such as "cuda:1".
    settings (Settings): The settings of the run.
    work (Work): What it does.
    folder (Path): A folder that the trainer may write to.
    RETURNS (dict[str, Any]): What it is, in which precision it computes, and medians of names, steps and searches a
        second.
    """
    # accelerate keeps the device of the one before.
    AcceleratorState._reset_state(reset_partial_state=True)
    with choose_device(name), open_processes() as accelerator:
        encoder = EncoderShim({}, "auto")
        encoder.load(settings.encoder)
        vectors = encoder.encode(work.names)
        base = EncoderShim({}, "auto")
        base.load(settings.encoder)
        sections = {"batch": {"pairs": work.batch, "chunk_names": 2 * work.batch}, "run": {"seed": settings.seed}}
        trainer = make_trainer(folder / "run", settings.encoder, work.pairs, base, accelerator, sections)
        batches = list(islice(trainer.method.batches(0), work.steps))
        for rows in islice(cycle(batches), WARM_UP):
            trainer.take_step(rows)
        ways: dict[str, Any] = {
            "names": partial(encoder.encode, work.names),
            "steps": lambda: [trainer.take_step(rows) for rows in batches],
            "searches": partial(
                search_on_device, vectors, vectors[: work.queries], NEIGHBOURS, device=accelerator.device
            ),
        }
        turns = [take_turns(ways, turn) for turn in tqdm(range(TURNS), desc=f"Measuring {name}", unit="turn")]
    counts = {"names": len(work.names), "steps": len(batches), "searches": work.queries}
    return {
        "what": torch.cuda.get_device_name(name) if name.startswith("cuda") else find_processor(),
        "precision": str(encoder.dtype).removeprefix("torch."),
        **{f"{way}_per_second": n / median(turn[way][0] for turn in turns) for way, n in counts.items()},
        "seconds": {way: [turn[way][0] for turn in turns] for way in counts},
    }


def make_text(settings: Settings, report: dict[str, Any]) -> str:
    """Write the table with remarks below.

    settings (Settings): The settings of the run.
    report (dict): What `devices.json` holds.
    RETURNS (str): Markdown.
    """
    head = ["device", "", "encoding in", "names/s", "training steps/s", "searches/s"]
    lines = [f"| {' | '.join(head)} |", "| --- | --- | --- | ---: | ---: | ---: |"]
    for name, found in report["devices"].items():
        speeds = " | ".join(form.format(found[f"{way}_per_second"]) for way, form in FORMS.items())
        lines.append(f"| {name} | {found['what']} | {found['precision']} | {speeds} |")
    work = report["settings"]
    facts = [
        f"Encoder: {Path(settings.encoder).name}; {work['chosen']:,} distinct names. A step has {work['batch']} pairs. "
        f"{work['queries']:,} queries are compared with all names at once. Medians of {TURNS} turns.",
        *describe_run(settings, report),
    ]
    return "\n".join([*lines, "", *(f"* {fact}" for fact in facts), ""])


if __name__ == "__main__":
    typer.run(main)
