"""Checkpoints: the full state of a run, for exact resuming. They are whole or not there, checked by hashes, and hold no
pickles, which is more than the states of accelerate promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from spacy_sapbert.files import OtherFormatError, fill_folder, finish_replacing, read_manifest, write_manifest

from .gradient import check_finite, get_random_states, set_random_states
from .settings import describe_difference

STATE_FILE = "state.safetensors"
CHECKPOINT_FILE = "checkpoint.json"
FORMAT_VERSION = 1
KEPT = 2
# Strict, because matching folders are deleted. Others may be the user's own.
STEPS = "step-" + 8 * "[0-9]"
KINDS_OF_RANDOM = ("cpu", "cuda")


def save_checkpoint(
    folder: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    data: dict[str, Any],
    state: Mapping[str, Any],
    random: Mapping[str, torch.Tensor],
) -> None:
    """Save a checkpoint, and delete all older ones except for the previous one.

    The data are JSON, with `step` and `settings`; the state is the method's, JSON and tensors by name. Weights that are
    infinite or NaN raise a NotFiniteError, and the former checkpoints stay.
    """
    # Not the state dict, which repeats shared weights.
    tensors: dict[str, torch.Tensor] = {f"weights.{name}": p for name, p in model.named_parameters()}
    tensors |= {f"state.{name}": value for name, value in state.items() if isinstance(value, torch.Tensor)}
    data = {**data, "state": {name: value for name, value in state.items() if not isinstance(value, torch.Tensor)}}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in moments.items()}
    check_finite("weights", tensors.values())
    tensors |= {f"random.{name}": value for name, value in random.items()}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    name = f"step-{data['step']:08d}"
    names = {path.name for path in list_checkpoints(folder)}
    # Earlier checkpoints survive a full disk or a power cut.
    with fill_folder(folder, remove=sorted({*names, name})[:-KEPT], parts=[STEPS]) as temporary:
        checkpoint = temporary / name
        checkpoint.mkdir()
        save_file(tensors, checkpoint / STATE_FILE)
        write_manifest(checkpoint / CHECKPOINT_FILE, FORMAT_VERSION, data)


def list_checkpoints(folder: Path) -> list[Path]:
    """List the folders of a run's checkpoints, oldest first. A killed save is finished before."""
    finish_replacing(folder, [STEPS])
    return sorted(path for path in folder.glob(STEPS) if (path / CHECKPOINT_FILE).is_file())


def choose_checkpoint(folder: Path) -> tuple[Path | None, list[tuple[Path, OSError]]]:
    """Choose the newest checkpoint whose files are complete, and list the damaged ones after it, with what is wrong
    with them. A killed save is finished before. It is an error if all are damaged, or another version saved the newest.
    """
    finish_replacing(folder, [STEPS])
    damaged: list[tuple[Path, OSError]] = []
    # Also folders without a manifest, which is one kind of damage.
    for path in sorted(folder.glob(STEPS), reverse=True):
        try:
            read_checkpoint(path)
        except OSError as error:
            damaged.append((path, error))
        else:
            return path, damaged
    if damaged:
        raise damaged[0][1]
    return None, damaged


def read_step(path: Path) -> int:
    """Read the number of steps before a checkpoint from its folder's name."""
    return int(path.name.removeprefix("step-"))


def read_checkpoint(path: Path, *, check_files: bool = True) -> dict[str, Any]:
    """Read the data of a checkpoint, without its weights, which are checked against their hash."""
    try:
        return read_manifest(path / CHECKPOINT_FILE, FORMAT_VERSION, used=[STATE_FILE], check_files=check_files)
    except OtherFormatError as error:
        raise ValueError(
            f"The checkpoint {path} was saved by another version of spacy-sapbert, whose runs can't be resumed or "
            "exported by this one. Set another output folder and train again, or use the version that saved it."
        ) from error


def load_checkpoint(
    path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, expected: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, torch.Tensor]]:
    """Load a checkpoint into model and optimizer, unless its decisive settings differ from those that are expected.
    Returns what `save_checkpoint` was given: data, state, and states of random numbers.
    """
    # `choose_checkpoint` has checked the files.
    data = read_checkpoint(path, check_files=False)
    differences = describe_difference(data["settings"], expected)
    if differences:
        raise ValueError(
            f"The checkpoint {path} is of a run with other settings or data: {'; '.join(differences)}. Set another "
            "output folder for this run, delete the checkpoints, or put the settings back."
        )
    tensors = load_file(path / STATE_FILE)
    load_weights(model, _below(tensors, "weights."))
    former = optimizer.state_dict()
    former["state"] = {}
    for name, tensor in _below(tensors, "optimizer.").items():
        number, key = name.split(".", 1)
        former["state"].setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict(former)
    return data, {**data["state"], **_below(tensors, "state.")}, _below(tensors, "random.")


def load_weights(module: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """Copy weights into the parameters of a module, which is changed and returned."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(weights[name])
    return module


def load_transformer(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Load only the weights of a checkpoint's transformer, by name, and the data given to `save_checkpoint`."""
    data = read_checkpoint(path)
    prefix = "weights.transformer."
    # The optimizer's part, which is twice as large, is not read.
    with safe_open(path / STATE_FILE, framework="pt") as tensors:
        names = [name for name in tensors.keys() if name.startswith(prefix)]  # noqa: SIM118  # not a dict
        return {name.removeprefix(prefix): tensors.get_tensor(name) for name in names}, data


def _below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def separate_processes(accelerator: Accelerator, seed: int) -> None:
    """Give every process but the main one random numbers of its own: each draws the dropout of its own names."""
    if not accelerator.is_main_process:
        entropy = np.random.SeedSequence([seed, accelerator.process_index])
        torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> np.uint64(1)))


def gather_random_states(accelerator: Accelerator) -> dict[str, torch.Tensor]:
    """Gather the states of all processes by kind, a row for each process. Every process has to call this."""
    states = zip(KINDS_OF_RANDOM, get_random_states(accelerator.device), strict=False)
    return {kind: accelerator.gather(state[None].to(accelerator.device)).cpu() for kind, state in states}


def restore_random_states(accelerator: Accelerator, gathered: dict[str, torch.Tensor]) -> None:
    """Restore the state of this process. If the run had fewer processes, it keeps the one that it has."""
    rank = accelerator.process_index
    if rank < len(gathered["cpu"]):
        # Copied, because PyTorch reads a row of a table from the table's first byte.
        states = [gathered[kind][rank].clone() for kind in KINDS_OF_RANDOM if kind in gathered]
        set_random_states(accelerator.device, states)
