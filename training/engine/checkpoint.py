"""Checkpoints: the full state of a run, for exact resuming."""

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
FORMAT_VERSION = 2
KEPT = 2


def save_checkpoint(
    folder: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    data: dict[str, Any],
    state: dict[str, Any] | None = None,
) -> Path:
    """Save a checkpoint, and delete all older ones except for the previous one.

    folder (Path): The folder of checkpoints.
    model (torch.nn.Module): The model.
    optimizer (torch.optim.Optimizer): The optimizer.
    data (dict[str, Any]): `step`, `settings` and other JSON data.
    state (dict[str, Any] | None): State of the method: JSON data and tensors by name.
    RETURNS (Path): The checkpoint's folder.
    """
    state = state or {}
    # Not the state dict, which repeats shared weights.
    tensors: dict[str, torch.Tensor] = {f"weights.{name}": p for name, p in model.named_parameters()}
    tensors |= {f"state.{name}": value for name, value in state.items() if isinstance(value, torch.Tensor)}
    data = {**data, "state": {name: value for name, value in state.items() if not isinstance(value, torch.Tensor)}}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    folder.mkdir(parents=True, exist_ok=True)
    # A folder without a dot is complete: earlier checkpoints survive a full disk or a power cut.
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

    folder (Path): The folder of checkpoints.
    RETURNS (list[Path]): The checkpoints' folders, oldest first.
    """
    return sorted(path for path in folder.glob("step-*") if (path / CHECKPOINT_FILE).is_file())


def read_step(path: Path) -> int:
    """Read the step of a checkpoint from its folder's name.

    path (Path): The checkpoint's folder.
    RETURNS (int): Steps before it was saved.
    """
    return int(path.name.removeprefix("step-"))


def read_checkpoint(path: Path, *, check_files: bool = True) -> dict[str, Any]:
    """Read the data of a checkpoint, without its weights.

    path (Path): The checkpoint's folder.
    check_files (bool): Whether to check the weights against their hash.
    RETURNS (dict[str, Any]): The data given to `save_checkpoint`.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If another version of this project saved the checkpoint.
    """
    try:
        return read_manifest(path / CHECKPOINT_FILE, FORMAT_VERSION, used=[STATE_FILE], check_files=check_files)
    except OSError as error:
        if str(error).startswith("[E502]"):
            raise ValueError(Errors.E682.format(path=path)) from error
        raise


def load_checkpoint(
    path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, expected: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Load a checkpoint.

    path (Path): The checkpoint's folder.
    model (torch.nn.Module): Receives the weights.
    optimizer (torch.optim.Optimizer): Receives its state.
    expected (dict[str, Any]): The decisive settings of this run, which must equal those of the checkpoint.
    RETURNS (tuple[dict[str, Any], dict[str, Any]]): The data and state given to `save_checkpoint`.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If settings differ, or another version of this project saved the checkpoint.
    """
    data = read_checkpoint(path)
    differences = describe_difference(data["settings"], expected)
    if differences:
        raise ValueError(Errors.E631.format(path=path, differences="; ".join(differences)))
    tensors = load_file(path / STATE_FILE)
    weights = _below(tensors, "weights.")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    former = optimizer.state_dict()
    former["state"] = {}
    for name, tensor in _below(tensors, "optimizer.").items():
        number, key = name.split(".", 1)
        former["state"].setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict(former)
    torch.set_rng_state(tensors["random.cpu"])
    if torch.cuda.is_available() and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"])
    return data, {**data["state"], **_below(tensors, "state.")}


def load_transformer(path: Path, transformer: torch.nn.Module) -> dict[str, Any]:
    """Load only the transformer of a checkpoint.

    path (Path): The checkpoint's folder.
    transformer (torch.nn.Module): Receives the weights.
    RETURNS (dict[str, Any]): The data given to `save_checkpoint`.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If another version of this project saved the checkpoint.
    """
    data = read_checkpoint(path)
    with torch.no_grad(), safe_open(path / STATE_FILE, framework="pt") as tensors:
        for name, parameter in transformer.named_parameters():
            parameter.copy_(tensors.get_tensor(f"weights.transformer.{name}"))
    return data


def _below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
