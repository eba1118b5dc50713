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


def import_scann() -> Any:
    """Import ScaNN.

    RETURNS (module): The `scann` package.
    RAISES (ImportError): If it is missing or does not run on this processor.
    """
    return _import("scann", "ScaNN")


def import_usearch() -> Any:
    """Import usearch.

    RETURNS (module): The module `usearch.index`.
    RAISES (ImportError): If it is missing or does not run on this processor.
    """
    return _import("usearch.index", "usearch")


def _import(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(Errors.E308.format(package=package, reason=error)) from error
