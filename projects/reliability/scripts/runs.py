"""A tiny training run: a few steps, a checkpoint every two, and the encoder at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from inputs import make_encoder, make_terminology
from safetensors.torch import load_file

from training.data.run_folder import RunFolder
from training.data.synonym_pairs import write_pairs
from training.engine.checkpoint import STATE_FILE, list_checkpoints, read_checkpoint
from training.engine.settings import TrainingSettings
from training.methods.registry import make_settings
from training.runner import train

STEPS = 6
# What unfinished files and folders are called.
UNFINISHED = (".saving", ".saved", ".replaced-", ".part", ".tmp")


def make_data(folder: Path, seed: int) -> None:
    """Make an encoder and pairs to train on.

    folder (Path): The folder for both.
    seed (int): The seed.
    """
    make_encoder(folder / "encoder", seed)
    write_pairs(make_terminology("P", 30, seed), folder / "pairs")


def make_run(folder: Path, output: Path, seed: int) -> TrainingSettings:
    """Make the settings of a run. It has dropout, so that the random state matters.

    folder (Path): What `make_data` filled.
    output (Path): The folder of the run.
    seed (int): The seed.
    RETURNS (TrainingSettings): The settings.
    """
    values = {
        "paths": {"encoder": str(folder / "encoder"), "pairs": str(folder / "pairs"), "output": str(output)},
        "optimizer": {"learning_rate": 1e-3},
        "batch": {"pairs": 4, "max_steps": STEPS, "chunk_names": 5, "dropout": 0.1},
        "run": {"method": "sapbert", "precision": "fp32", "checkpoint_steps": 2, "seed": seed},
    }
    settings: TrainingSettings = make_settings(values)
    return settings


def run_training(folder: Path, output: Path, seed: int) -> None:
    """Train, or go on with a stopped run.

    folder (Path): What `make_data` filled.
    output (Path): The folder of the run.
    seed (int): The seed.
    """
    train(make_run(folder, output, seed))


def read_result(output: Path) -> dict[str, Any]:
    """Read what a run has come to.

    output (Path): The folder of the run.
    RETURNS (dict): Losses by step, and the weights of the last checkpoint and of the encoder.
    """
    entries = [entry for entry in RunFolder(output).read_metrics() if "loss" in entry]
    last = list_checkpoints(output / "checkpoints")[-1]
    return {
        "losses": [(entry["step"], entry["loss"]) for entry in entries],
        "checkpoint": load_file(last / STATE_FILE),
        "encoder": load_file(output / "encoder" / "model.safetensors"),
    }


def find_run_difference(output: Path, undisturbed: dict[str, Any]) -> str:
    """Compare a finished run with an undisturbed one, bit for bit.

    output (Path): The folder of the run.
    undisturbed (dict): What `read_result` gave for the other.
    RETURNS (str): The difference; empty if there is none.
    """
    result = read_result(output)
    if result["losses"] != undisturbed["losses"]:
        return f"losses {result['losses']}, not {undisturbed['losses']}"
    for part in ("checkpoint", "encoder"):
        if set(result[part]) != set(undisturbed[part]):
            return f"{part} has other tensors"
        unequal = [name for name, tensor in result[part].items() if not torch.equal(tensor, undisturbed[part][name])]
        if unequal:
            return f"{part} differs in {len(unequal)} tensors, such as {unequal[0]}"
    left = list_unfinished(output)
    return f"left behind: {left[:3]}" if left else ""


def find_damage(output: Path) -> str:
    """Check that every checkpoint of a stopped run can be read.

    output (Path): The folder of the run.
    RETURNS (str): What is wrong; empty if nothing is.
    """
    for path in list_checkpoints(output / "checkpoints"):
        try:
            read_checkpoint(path)
        except Exception as error:  # any error makes the checkpoint useless
            return f"{path.name}: {error!r}"
    return ""


def list_unfinished(folder: Path) -> list[str]:
    """List what unfinished work has left below a folder.

    folder (Path): The folder.
    RETURNS (list[str]): Names of files and folders.
    """
    return sorted(path.name for path in folder.rglob("*") if any(mark in path.name for mark in UNFINISHED))
