"""The device that encoders compute on. Settings and commands name it, and only this module resolves the name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import Errors

if TYPE_CHECKING:
    import torch

AUTO = "auto"
FORM = re.compile(r"auto|cpu|cuda(:\d+)?|mps")
FASTEST_FIRST = ("cuda", "mps", "cpu")


class _Process:
    """What "auto" means in this process: a device, or None for the one that spaCy uses."""

    chosen: torch.device | None = None


def check_device(name: str) -> str:
    """Check the form of a device's name. The device may be on another machine: a pipeline can be made for it here.

    name (str): The name.
    RETURNS (str): The name itself.
    RAISES (ValueError): If it is no name of a device.
    """
    if not isinstance(name, str) or not FORM.fullmatch(name):
        allowed = "auto, cpu, cuda, mps, or a GPU by its number, such as cuda:1"
        raise ValueError(Errors.E404.format(name="device", where="", value=name, allowed=allowed))
    return name


def list_devices() -> list[str]:
    """List the devices of this machine that PyTorch can use.

    RETURNS (list[str]): Their names; "cuda" stands for the GPU that is current.
    """
    import torch

    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return ["cpu", *(["cuda", *gpus] if gpus else []), *(["mps"] if torch.backends.mps.is_available() else [])]


def find_fastest() -> str:
    """Find the device that is likely to compute fastest.

    RETURNS (str): "cuda" if there is such a GPU, else "mps" or "cpu".
    """
    there = list_devices()
    return next(name for name in FASTEST_FIRST if name in there)


def resolve_device(name: str) -> torch.device:
    """Find the device that a setting names.

    name (str): The name; "auto" for the device of `use_device` or, without it, the one that spaCy uses: the CPU, or the
        GPU after `spacy.require_gpu()`.
    RETURNS (torch.device): The device.
    RAISES (ValueError): If it is no name of a device, or there is no such device.
    """
    import torch
    from thinc.api import get_torch_default_device

    if check_device(name) == AUTO:
        return get_torch_default_device() if _Process.chosen is None else _Process.chosen
    there = list_devices()
    if name not in there:
        raise ValueError(Errors.E206.format(name=name, there=", ".join(there), version=torch.__version__))
    return torch.device(name)


def find_chosen() -> torch.device | None:
    """Find the device that `use_device` has set.

    RETURNS (torch.device | None): The device; None if "auto" is the one that spaCy uses.
    """
    return _Process.chosen


@contextmanager
def use_device(device: torch.device) -> Iterator[None]:
    """Let "auto" mean a device in this process, for commands that encode.

    device (torch.device): The device.
    """
    former, _Process.chosen = _Process.chosen, device
    try:
        yield
    finally:
        _Process.chosen = former
