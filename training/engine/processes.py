"""The processes of a run: how they start together, and how they end together."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch.distributed
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs

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

    YIELDS (Accelerator): Devices and processes.
    RAISES (RuntimeError): If the processes are not connected, so that each would train alone.
    """
    was_connected = torch.distributed.is_available() and torch.distributed.is_initialized()
    accelerator = Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=WAIT)])
    if (launched := int(os.environ.get("WORLD_SIZE", 1))) > 1 and accelerator.num_processes == 1:
        raise RuntimeError(Errors.E636.format(n=launched))
    if accelerator.num_processes > 1 and not was_connected:
        # At the end of the process, because its next run uses the same connections.
        atexit.register(accelerator.end_training)
    try:
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
