"""The machine of a measurement: processor, and versions of packages."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def find_processor() -> str:
    """Find the name of the processor.

    RETURNS (str): Its model.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def find_versions(packages: Iterable[str]) -> dict[str, str]:
    """Find the versions of Python and of packages.

    packages (Iterable[str]): Names of distributions.
    RETURNS (dict[str, str]): Version by name; packages that are not installed are excluded.
    """
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def describe_machine() -> dict[str, Any]:
    """Describe the machine.

    RETURNS (dict[str, Any]): `processor`, the number of `processors`, and `platform`.
    """
    return {"processor": find_processor(), "processors": os.cpu_count(), "platform": platform.platform()}
