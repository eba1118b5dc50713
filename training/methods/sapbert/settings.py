"""The settings of SapBERT."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from ...engine.objectives import make_loss, make_miner
from ...engine.settings import BatchSettings, PathSettings, TrainingSettings, refuse
from ...section import Section

AdapterKind = Literal["bottleneck", "lora"]
LossName = Literal["multi_similarity", "cosine", "triplet", "nca", "lifted_structure", "info_nce", "circle"]


class SapbertPaths(PathSettings):
    """Where a run reads and writes."""

    pairs: str
    """The folder of pairs."""


class AdapterSettings(Section):
    """Which weights are trained (Liu et al., NAACL 2021, table 7)."""

    kind: AdapterKind | None = None
    """null for all weights; "bottleneck" or "lora" for few weights beside frozen ones."""
    reduction: int = Field(default=16, ge=1)
    """Bottleneck: how many times narrower it is than the hidden states."""
    invertible: bool = True
    """Bottleneck: add another one behind the embeddings."""
    rank: int = Field(default=8, ge=1)
    """Rank of low-rank updates."""
    alpha: int = Field(default=16, ge=1)
    """Scale of low-rank updates, times the rank."""


class ObjectiveSettings(Section):
    """The loss and the pairs that it sees."""

    loss: LossName = "multi_similarity"
    """The loss."""
    preset: Literal["paper", "released"] = "paper"
    """Constants of the paper or of the released code."""
    miner: Literal["sapbert", "coder", "off"] = "sapbert"
    """The miner that chooses pairs."""
    constants: dict[str, float] = {}
    """Constants of the loss that override the preset's."""
    margin: float | None = None
    """The miner's margin; null for its own."""
    ignore_homonyms: bool = False
    """Do not push names apart that are written alike. The paper does."""

    @model_validator(mode="after")
    def _check_constants(self) -> Self:
        make_loss(self.loss, self.preset, **self.constants)
        make_miner(self.miner, self.margin)
        return self


class SapbertBatch(BatchSettings):
    """What a step sees, and when steps end."""

    pairs: int = Field(default=256, ge=2)
    """Pairs in a step, so half as many as names."""
    epochs: int = Field(default=1, ge=1)
    """Passes over all pairs."""
    source_balance: float = Field(default=0.0, ge=0, le=1)
    """0 to see each pair once in an epoch; up to 1 to draw pairs of small sources more often, at 1 from all sources
    alike."""
    neighbours: int = Field(default=0, ge=0)
    """0 for batches drawn at random; else each pair comes with pairs of so many concepts that the untrained encoder
    finds most similar to its own."""

    @model_validator(mode="after")
    def _check_neighbours(self) -> Self:
        if self.neighbours >= self.pairs:
            refuse("batch.neighbours", self.neighbours, "less than batch.pairs")
        return self


class SapbertSettings(TrainingSettings):
    """All settings of a run of SapBERT."""

    paths: SapbertPaths
    adapter: AdapterSettings = AdapterSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    batch: SapbertBatch = SapbertBatch()

    @model_validator(mode="after")
    def _check_share(self) -> Self:
        if self.run.base_share and self.adapter.kind == "bottleneck":
            allowed = "0 with a bottleneck adapter, whose base has no such weights"
            refuse("run.base_share", self.run.base_share, allowed)
        return self
