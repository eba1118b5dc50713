"""The static encoder that comes with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from .settings import ENCODER_FILE

# Data of the package, without code. A wheel that is installed is a folder.
FOLDER = Path(str(files("spacy_sapbert"))) / "bundled" / "encoder"


def find_bundled() -> Path | None:
    """Find the encoder that a linker gets if it is initialized without one.

    RETURNS (Path | None): Its folder; None if the installation lacks it.
    """
    return FOLDER if (FOLDER / ENCODER_FILE).is_file() else None
