"""The registered functions that make an index for a config."""

from __future__ import annotations

from typing import Any

from ..settings import with_settings
from .approximate import ApproximateIndex, IndexSettings
from .exact import ExactIndex
from .kinds import choose_kind
from .scann import ScannIndex
from .usearch import UsearchIndex


@with_settings(IndexSettings)
def make_auto_index(**settings: Any) -> ApproximateIndex:
    """Make an empty index of the best kind for this platform, registered as `spacy-sapbert.AutoIndex.v1`.

    **settings (Any): Those of `IndexSettings`.
    RETURNS (ApproximateIndex): ScaNN's index where ScaNN is installed, usearch's elsewhere.
    """
    index = choose_kind()(**settings)
    index.is_auto = True
    return index


def make_exact_index() -> ExactIndex:
    """Make an empty exact index, registered as `spacy-sapbert.ExactIndex.v1`.

    RETURNS (ExactIndex): The index.
    """
    return ExactIndex()


@with_settings(IndexSettings)
def make_scann_index(**settings: Any) -> ScannIndex:
    """Make an empty ScaNN index, registered as `spacy-sapbert.ScannIndex.v1`.

    **settings (Any): Those of `IndexSettings`.
    RETURNS (ScannIndex): The index.
    """
    return ScannIndex(**settings)


@with_settings(IndexSettings)
def make_usearch_index(**settings: Any) -> UsearchIndex:
    """Make an empty usearch index, registered as `spacy-sapbert.UsearchIndex.v1`.

    **settings (Any): Those of `IndexSettings`.
    RETURNS (UsearchIndex): The index.
    """
    return UsearchIndex(**settings)
