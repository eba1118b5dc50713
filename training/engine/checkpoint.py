"""Checkpoints: all that a run needs to go on as if it had never stopped."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from spacy_sapbert.files import read_manifest, write_manifest

from ..errors import Errors
from .settings import describe_difference

STATE_FILE = "state.safetensors"
CHECKPOINT_FILE = "checkpoint.json"
FORMAT_VERSION = 1
KEPT = 2


def save_checkpoint(
    folder: Path, transformer: torch.nn.Module, optimizer: torch.optim.Optimizer, data: dict[str, Any]
) -> Path:
    """Save a checkpoint beside the former ones, of which the last stays.

    folder (Path): Where checkpoints are.
    transformer (Module): The weights.
    optimizer (Optimizer): Its state.
    data (dict): `step`, and what else is to be known again; JSON.
    RETURNS (Path): The checkpoint's folder.
    """
    # Not the state dict, which has shared weights several times.
    tensors: dict[str, torch.Tensor] = {f"weights.{name}": p for name, p in transformer.named_parameters()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    folder.mkdir(parents=True, exist_ok=True)
    # The name without a dot says that all is there: a disk that fills up, or a power cut, leaves the former ones.
    temporary = folder / f".saving-{uuid4().hex}"
    temporary.mkdir()
    final = folder / f"step-{data['step']:08d}"
    try:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary / STATE_FILE
        )
        write_manifest(temporary / CHECKPOINT_FILE, FORMAT_VERSION, data)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for old in list_checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old)
    return final


def list_checkpoints(folder: Path) -> list[Path]:
    """List the checkpoints of a run.

    folder (Path): Where they are.
    RETURNS (List[Path]): Their folders, the oldest first.
    """
    return sorted(path for path in folder.glob("step-*") if (path / CHECKPOINT_FILE).is_file())


def load_checkpoint(
    path: Path, transformer: torch.nn.Module, optimizer: torch.optim.Optimizer, expected: dict[str, Any]
) -> dict[str, Any]:
    """Load a checkpoint.

    path (Path): Its folder.
    transformer (Module): Takes the weights.
    optimizer (Optimizer): Takes its state.
    expected (dict): The decisive settings of this run, which have to be those of the checkpoint's.
    RETURNS (dict): What was saved with it.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If it is of a run with other settings.
    """
    data = read_manifest(path / CHECKPOINT_FILE, FORMAT_VERSION)
    differences = describe_difference(data["settings"], expected)
    if differences:
        raise ValueError(Errors.E631.format(path=path, differences="; ".join(differences)))
    tensors = load_file(path / STATE_FILE)
    weights = _below(tensors, "weights.")
    with torch.no_grad():
        for name, parameter in transformer.named_parameters():
            parameter.copy_(weights[name])
    state = optimizer.state_dict()
    state["state"] = {}
    for name, tensor in _below(tensors, "optimizer.").items():
        number, key = name.split(".", 1)
        state["state"].setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict(state)
    torch.set_rng_state(tensors["random.cpu"])
    if torch.cuda.is_available() and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"])
    return data


def load_weights(path: Path, transformer: torch.nn.Module) -> dict[str, Any]:
    """Load the weights of a checkpoint and nothing else.

    path (Path): Its folder.
    transformer (Module): Takes the weights.
    RETURNS (dict): What was saved with it.
    RAISES (OSError): If a file is missing or damaged.
    """
    data = read_manifest(path / CHECKPOINT_FILE, FORMAT_VERSION)
    with torch.no_grad(), safe_open(path / STATE_FILE, framework="pt") as tensors:
        for name, parameter in transformer.named_parameters():
            parameter.copy_(tensors.get_tensor(f"weights.{name}"))
    return data


def _below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
