"""The reranker that comes with the package: trained on open corpora, without priors."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from .learned import RERANKER_FILE

# Data of the package, without code. A wheel that is installed is a folder.
FOLDER = Path(str(files("spacy_sapbert"))) / "bundled" / "reranker"


def find_bundled() -> Path | None:
    """Find the reranker that is used where there are no examples to learn from.

    RETURNS (Path | None): Its folder; None if the installation lacks it.
    """
    return FOLDER if (FOLDER / RERANKER_FILE).is_file() else None
