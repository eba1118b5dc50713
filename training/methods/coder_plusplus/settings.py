"""The settings of CODER++."""

from __future__ import annotations

from pydantic import Field

from ..coder.family_settings import FamilySettings, UpdateBatch


class GroupBatch(UpdateBatch):
    """What an update of the weights sees, and when updates end."""

    groups: int = Field(default=4, ge=1)
    """Anchors in a batch: names that bring others along."""
    neighbours: int = Field(default=30, ge=1)
    """Names nearest to an anchor, as the encoder was at the last refresh."""
    synonyms: int = Field(default=30, ge=1)
    """Names of an anchor's concepts at most."""
    refresh_steps: int = Field(default=31_250, ge=1)
    """Updates between two searches for neighbours."""


class CoderPlusPlusSettings(FamilySettings):
    """All settings of a run of CODER++."""

    batch: GroupBatch = GroupBatch()
