"""What the measurements ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def find_processor() -> str:
    """Find the name of the processor.

    RETURNS (str): Its model.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def describe_machine() -> dict[str, Any]:
    """Describe what the measurements ran on.

    RETURNS (dict): Processor, how many there are, and platform.
    """
    return {"processor": find_processor(), "processors": os.cpu_count(), "platform": platform.platform()}
