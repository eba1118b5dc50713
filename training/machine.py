"""The machine of a measurement: processor, and versions of packages."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def find_processor() -> str:
    """Find the model of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def find_versions(packages: Iterable[str]) -> dict[str, str]:
    """Find the versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def describe_machine() -> dict[str, Any]:
    """Describe the machine: `processor`, the number of `processors`, and `platform`."""
    return {"processor": find_processor(), "processors": os.cpu_count(), "platform": platform.platform()}
