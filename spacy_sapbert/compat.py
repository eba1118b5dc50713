"""Optional dependencies, imported on use."""

from __future__ import annotations

from importlib.util import find_spec


def has_package(name: str) -> bool:
    """Tell whether an optional package is installed. For ScaNN, there are builds for Linux only.

    name (str): What it is imported as, such as "scann".
    RETURNS (bool): True if it is installed.
    """
    return find_spec(name) is not None
