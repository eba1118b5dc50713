"""Compare the memory that a build needs with what there is, before the build starts."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ..errors import Warnings
from .scann import PART_ROWS
from .storage import choose_dtype

MEMINFO = Path("/proc/meminfo")
GB = 1e9


def estimate_build(rows: int, width: int) -> int:
    """Estimate the memory that building an index takes, beside what the process has.

    rows (int): Rows of the index.
    width (int): Numbers in a vector.
    RETURNS (int): Bytes: the vectors, and those of the largest part in float32, which ScaNN copies.
    """
    part = min(rows, PART_ROWS) * width * np.dtype(np.float32).itemsize
    dtype = choose_dtype(rows)
    # The vectors of a single part in float32 are the index's own.
    return rows * width * dtype.itemsize + (part if dtype == np.float32 else 2 * part)


def find_available() -> int | None:
    """Find how much memory the system can still give to processes.

    RETURNS (int | None): Bytes; None where the system does not say.
    """
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) * 1024 if sizes else None


def warn_of_memory(rows: int, width: int) -> None:
    """Warn of a build that needs more memory than there is.

    rows (int): Rows of the index.
    width (int): Numbers in a vector.
    """
    needed, available = estimate_build(rows, width), find_available()
    if available is not None and needed > available:
        message = Warnings.W303.format(rows=rows, needed=needed / GB, available=available / GB)
        warnings.warn(message, stacklevel=3)
