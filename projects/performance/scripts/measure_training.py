"""Measure the trainer against a plain loop: pairs a second, and the loss after the same steps."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import torch
import typer
from accelerate import Accelerator
from plain_training import PlainTrainer
from run import use_threads
from tqdm import tqdm
from turns import median_ratio, take_turns

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import resolve_precision
from training.data.pairs import load_pairs
from training.data.run_folder import write_json
from training.encoders.bases import find_encoder
from training.engine.loop import TrainingLoop
from training.methods.pairs import Batches
from training.methods.registry import make_settings
from training.methods.sapbert import Sapbert

WARM_UP = 2


def main(
    output: Path,
    pairs: Path,
    encoder: str = "",
    steps: int = 10,
    batch: int = 128,
    chunk: Annotated[int, typer.Option(help="Names in one forward pass of the trainer")] = 32,
    precision: str = "auto",
    learning_rate: float = 1e-4,
    seed: int = 0,
    threads: int = 0,
) -> None:
    """Take the same steps both ways, in turns.

    output (Path): The file for the results.
    pairs (Path): A folder of pairs.
    encoder (str): Encoder folder or hub name; empty for the one in a Python package.
    steps (int): Steps to measure, after some to warm up.
    batch (int): Pairs in a step.
    precision (str): Of both.
    learning_rate (float): Of both.
    seed (int): Decides the batches.
    threads (int): Processors to use; 0 for all.
    """
    use_threads(threads or os.cpu_count() or 1)
    encoder = find_encoder(encoder)
    data = load_pairs(pairs)
    shim = EncoderShim({"max_length": 25}, "fp32")
    shim.load(encoder)
    dtype = resolve_precision(precision, torch.device("cpu"))  # type: ignore[arg-type]
    plain = PlainTrainer(encoder, shim.settings, learning_rate, None if dtype == torch.float32 else dtype)
    with TemporaryDirectory() as folder:
        sections = {
            "optimizer": {"learning_rate": learning_rate},
            "batch": {"pairs": batch, "chunk_names": chunk, "dropout": 0.0},
            "run": {"precision": precision, "seed": seed},
        }
        ours = make_trainer(Path(folder), encoder, pairs, shim, Accelerator(cpu=True), sections).take_step
        losses: dict[str, list[float]] = {"plain": [], "ours": []}
        seconds: dict[str, list[float]] = {"plain": [], "ours": []}
        batches = Batches(data.labels, batch, seed).iterate()
        for turn in tqdm(range(WARM_UP + steps), desc="Training in turns", unit="step"):
            rows = next(batches)
            left, right = (data.names.gather(side[rows]).to_list() for side in (data.left, data.right))
            ways = {
                "plain": lambda: plain.step(left, right, data.labels[rows].tolist()),  # noqa: B023 - called at once
                "ours": lambda: ours(rows),  # noqa: B023
            }
            for way, (elapsed, loss) in take_turns(ways, turn).items():
                losses[way].append(loss)
                if turn >= WARM_UP:
                    seconds[way].append(elapsed)
    settings = {"batch": batch, "chunk": chunk, "precision": str(dtype), "steps": steps, "seed": seed}
    result = {**summarize(seconds, losses, steps * batch), "settings": settings}
    write_json(output, result)
    typer.echo(json.dumps({name: value for name, value in result.items() if name != "losses"}, indent=2))


def summarize(seconds: dict[str, list[float]], losses: dict[str, list[float]], n_pairs: int) -> dict[str, Any]:
    """Compare both ways.

    seconds (dict[str, list[float]]): Of each step, by way.
    losses (dict[str, list[float]]): Of each step, those to warm up included, by way.
    n_pairs (int): Pairs of all measured steps.
    RETURNS (dict[str, Any]): Speeds and losses.
    """
    return {
        "pairs_per_second": {way: n_pairs / sum(elapsed) for way, elapsed in seconds.items()},
        "times_plain": median_ratio(seconds["plain"], seconds["ours"]),
        "last_loss": {way: found[-1] for way, found in losses.items()},
        "largest_difference": max(abs(a - b) for a, b in zip(*losses.values(), strict=True)),
        "losses": losses,
    }


def make_trainer(
    folder: Path,
    encoder: str,
    pairs: Path,
    base: EncoderShim,
    accelerator: Accelerator,
    sections: dict[str, dict[str, Any]],
) -> TrainingLoop:
    """Make a trainer, whose steps are taken one by one.

    folder (Path): Where a run would be.
    encoder (str): Encoder folder or hub name.
    pairs (Path): A folder of pairs.
    base (EncoderShim): The encoder, loaded.
    accelerator (Accelerator): The device.
    sections (dict): Settings by section.
    RETURNS (TrainingLoop): The trainer.
    """
    paths = {"encoder": encoder, "pairs": str(pairs), "output": str(folder)}
    run = {"method": "sapbert", **sections["run"]}
    method = Sapbert(make_settings({**sections, "paths": paths, "run": run}), base, accelerator)
    method.learned = method.load()
    method.model = method.build().to(accelerator.device)
    return TrainingLoop(method)


if __name__ == "__main__":
    typer.run(main)
