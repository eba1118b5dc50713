"""The settings of CODER++."""

from __future__ import annotations

from pydantic import Field

from ..coder.family_settings import FamilySettings, UpdateBatch


class GroupBatch(UpdateBatch):
    """The batches of an update, and limits of the run."""

    groups: int = Field(default=4, ge=1, description="Groups in a batch: an anchor with its neighbours and synonyms.")
    neighbours: int = Field(
        default=30, ge=1, description="Nearest neighbours of an anchor, by the encoder at the last refresh."
    )
    synonyms: int = Field(default=30, ge=1, description="Maximum number of synonyms of an anchor.")
    refresh_steps: int = Field(default=31_250, ge=1, description="Updates between two neighbour searches.")


class CoderPlusPlusSettings(FamilySettings):
    """All settings of a run of CODER++."""

    batch: GroupBatch = GroupBatch()
