"""Optional dependencies, imported on use."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .errors import Errors


def has_package(name: str) -> bool:
    """Tell whether an optional package is installed. For ScaNN, there are builds for Linux only.

    name (str): What it is imported as, such as "scann".
    RETURNS (bool): True if it is installed.
    """
    return find_spec(name) is not None


def import_adapters() -> Any:
    """Import the library of adapters, which takes seconds.

    RETURNS (module): The `adapters` package.
    RAISES (ImportError): If it is missing.
    """
    try:
        return import_module("adapters")
    except ImportError as error:
        raise ImportError(Errors.E219.format(reason=error)) from error
