"""The static encoder that comes with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from .settings import ENCODER_FILE

# By fingerprint, the score that a mention's best candidate needs: right ones mostly have it, and strings that are no
# names mostly lack it. `python -m spacy project run threshold projects/static_encoder` chooses it.
THRESHOLDS = {"3c8d5db0dd8b73da603f107760e4e753c82a1ab09c52b6c970934a84e13de464": 0.78}
# Data of the package, without code. A wheel that is installed is a folder.
FOLDER = Path(str(files("spacy_sapbert"))) / "bundled" / "encoder"


def find_bundled() -> Path | None:
    """Find the encoder that a linker gets if it is initialized without one.

    RETURNS (Path | None): Its folder; None if the installation lacks it.
    """
    return FOLDER if (FOLDER / ENCODER_FILE).is_file() else None


def find_threshold(fingerprint: str) -> float:
    """Find the score that a mention's best candidate needs by default.

    fingerprint (str): The encoder's fingerprint.
    RETURNS (float): The score; 0 for an encoder that did not come with the package.
    """
    return THRESHOLDS.get(fingerprint, 0.0)
