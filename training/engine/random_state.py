"""The state of random numbers: of one process on its devices, and of all processes of a run."""

from __future__ import annotations

import numpy as np
import torch
from accelerate import Accelerator


def list_devices(device: torch.device) -> list[torch.device]:
    """List the devices with random numbers of their own, beside the CPU.

    device (torch.device): The device of the process.
    RETURNS (list[torch.device]): The GPU; none for the CPU.
    """
    return [device] if device.type == "cuda" else []


def get_random_states(device: torch.device) -> list[torch.Tensor]:
    """Return the state of random numbers.

    device (torch.device): The device of the process.
    RETURNS (list[torch.Tensor]): The states of the CPU and of the GPU, if there is one.
    """
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(one) for one in list_devices(device))]


def set_random_states(device: torch.device, states: list[torch.Tensor]) -> None:
    """Restore the state of random numbers.

    device (torch.device): The device of the process.
    states (list[torch.Tensor]): As `get_random_states` returned them.
    """
    torch.set_rng_state(states[0])
    for one, state in zip(list_devices(device), states[1:], strict=False):
        torch.cuda.set_rng_state(state, one)


def separate_processes(accelerator: Accelerator, seed: int) -> None:
    """Give every process but the main one random numbers of its own: each draws the dropout of its own names.

    accelerator (Accelerator): The processes.
    seed (int): The seed of the run.
    """
    if not accelerator.is_main_process:
        entropy = np.random.SeedSequence([seed, accelerator.process_index])
        torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> np.uint64(1)))


def gather_random_states(accelerator: Accelerator) -> dict[str, torch.Tensor]:
    """Gather the states of all processes. All have to call this.

    accelerator (Accelerator): The processes.
    RETURNS (dict[str, torch.Tensor]): States by name: "cpu" and "cuda" of the main process, "cpu.1" of the second.
    """
    gathered: dict[str, torch.Tensor] = {}
    for kind, state in zip(("cpu", "cuda"), get_random_states(accelerator.device), strict=False):
        rows = state[None]
        if accelerator.num_processes > 1:
            rows = accelerator.gather(rows.to(accelerator.device)).cpu()
        gathered |= {_name(kind, rank): row.clone() for rank, row in enumerate(rows)}
    return gathered


def restore_random_states(accelerator: Accelerator, gathered: dict[str, torch.Tensor]) -> None:
    """Restore the state of this process. If the run had fewer processes, it keeps the one that it has.

    accelerator (Accelerator): The processes.
    gathered (dict[str, torch.Tensor]): As `gather_random_states` returned them.
    """
    names = [_name(kind, accelerator.process_index) for kind in ("cpu", "cuda")]
    states = [gathered[name] for name in names if name in gathered]
    if states:
        set_random_states(accelerator.device, states)


def _name(kind: str, rank: int) -> str:
    return f"{kind}.{rank}" if rank else kind
