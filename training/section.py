"""Sections of a config, which know what a resumed run may change."""

from __future__ import annotations

from typing import ClassVar

from spacy_sapbert.settings import Settings


class Section(Settings):
    """A section of a config.

    may_change (frozenset[str]): Settings that may change when a run is resumed. All others are decisive.
    lengths (frozenset[str]): Settings that may change too unless the learning rate falls to 0 at the last step.
    """

    may_change: ClassVar[frozenset[str]] = frozenset()
    lengths: ClassVar[frozenset[str]] = frozenset()
