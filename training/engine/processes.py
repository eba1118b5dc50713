"""The processes of a run: how they start together, and how they end together."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs

from spacy_sapbert.encoder.transformer import find_chosen, use_device

from ..errors import Errors

# The other processes wait while the main one encodes all names, measures or exports.
WAIT = timedelta(hours=12)
# A process that fails alone cannot wait for the main one, which waits for it.
WAIT_AFTER_ERROR = timedelta(seconds=10)
ENDED = "spacy_sapbert/ended"


@contextmanager
def open_processes() -> Iterator[Accelerator]:
    """Connect the processes of a launch, and let none leave before the main one has ended.

    A launcher stops all processes as soon as one fails. Without an orderly end, a process that leaves early can abort
    in the threads of its open connections, and the launcher then stops the main one during its export.

    Encoders compute where the processes train. `use_device` decides about both; without it, accelerate does.

    YIELDS (Accelerator): Devices and processes.
    RAISES (RuntimeError): If the processes are not connected, so that each would train alone.
    RAISES (ValueError): If one GPU is chosen for several processes.
    """
    chosen = find_chosen()
    launched = int(os.environ.get("WORLD_SIZE", 1))
    if chosen is not None and chosen.index is not None:
        if launched > 1:
            allowed = f"cuda, because each of the {launched} processes has a GPU of its own"
            raise ValueError(Errors.E404.format(name="--device", where="", value=str(chosen), allowed=allowed))
        # What accelerate takes if there is one process.
        torch.cuda.set_device(chosen)
    was_connected = torch.distributed.is_available() and torch.distributed.is_initialized()
    is_cpu = chosen is not None and chosen.type == "cpu"
    accelerator = Accelerator(cpu=is_cpu, kwargs_handlers=[InitProcessGroupKwargs(timeout=WAIT)])
    if launched > 1 and accelerator.num_processes == 1:
        raise RuntimeError(Errors.E636.format(n=launched))
    if accelerator.num_processes > 1 and not was_connected:
        # At the end of the process, because its next run uses the same connections.
        atexit.register(accelerator.end_training)
    try:
        with use_device(accelerator.device):
            yield accelerator
    except BaseException:
        _wait_for_main_process(accelerator)
        raise
    accelerator.wait_for_everyone()


def _wait_for_main_process(accelerator: Accelerator) -> None:
    """After an error, give the main process time for its own message and files."""
    if accelerator.num_processes == 1:
        return
    # No collective operation: the processes may have failed at different ones.
    store = torch.distributed.distributed_c10d._get_default_store()
    try:
        if accelerator.is_main_process:
            store.set(ENDED, "1")
        else:
            store.wait([ENDED], WAIT_AFTER_ERROR)
    except RuntimeError:
        # The main process goes on, or the store has gone with it.
        return
