"""Optional dependencies, imported on use."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .errors import Errors


def has_scann() -> bool:
    """Tell whether ScaNN is installed; there are builds for Linux only.

    RETURNS (bool): True if it is installed.
    """
    return find_spec("scann") is not None


def import_scann() -> Any:
    """Import ScaNN.

    RETURNS (module): The `scann` package.
    RAISES (ImportError): If it is missing or does not run on this processor.
    """
    try:
        return import_module("scann")
    except ImportError as error:
        raise ImportError(Errors.E308.format(reason=error)) from error
