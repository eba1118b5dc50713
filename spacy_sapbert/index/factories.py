"""The registered functions that make an index for a config."""

from __future__ import annotations

from typing import Any

from ..settings import with_settings
from .exact import ExactIndex
from .scann import ScannIndex, ScannSettings


def make_exact_index() -> ExactIndex:
    """Make an empty exact index, registered as `spacy-sapbert.ExactIndex.v1`.

    RETURNS (ExactIndex): The index.
    """
    return ExactIndex()


@with_settings(ScannSettings)
def make_scann_index(**settings: Any) -> ScannIndex:
    """Make an empty ScaNN index, registered as `spacy-sapbert.ScannIndex.v1`.

    **settings (Any): Those of `ScannSettings`.
    RETURNS (ScannIndex): The index.
    """
    return ScannIndex(**settings)
