"""The settings of SapBERT."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from ...engine.objectives import make_loss, make_miner
from ...engine.settings import BatchSettings, PathSettings, Section, TrainingSettings, refuse

AdapterKind = Literal["bottleneck", "lora"]
LossName = Literal["multi_similarity", "cosine", "triplet", "nca", "lifted_structure", "info_nce", "circle"]


class SapbertPaths(PathSettings):
    """Paths of a run."""

    pairs: str = Field(description="The folder of pairs.")
    terminology: str = Field(
        default="",
        description="With `batch.neighbours`: the folder of the terminology that the pairs were made of. Concepts that "
        "share a name, or of which one is an ancestor of the other, are then no neighbours, and opposites are half of "
        "the pool. Empty to group by similarity alone.",
    )


class AdapterSettings(Section):
    """The trained weights (Liu et al., NAACL 2021, table 7)."""

    kind: AdapterKind | None = Field(
        default=None,
        description='null to train all weights; "bottleneck" or "lora" to train few added weights and freeze the '
        "others.",
    )
    reduction: int = Field(
        default=16, ge=1, description="Bottleneck: the ratio of the hidden width to the bottleneck's."
    )
    invertible: bool = Field(default=True, description="Bottleneck: add another one after the embeddings.")
    rank: int = Field(default=8, ge=1, description="Rank of low-rank updates.")
    alpha: int = Field(default=16, ge=1, description="Scale of low-rank updates, times the rank.")


class ObjectiveSettings(Section):
    """The loss and its pairs."""

    loss: LossName = Field(default="multi_similarity", description="The loss.")
    preset: Literal["paper", "released"] = Field(
        default="paper", description="Constants of the paper or of the released code."
    )
    miner: Literal["sapbert", "coder", "off"] = Field(default="sapbert", description="The miner of pairs.")
    constants: dict[str, float] = Field(default={}, description="Constants of the loss that override the preset's.")
    margin: float | None = Field(default=None, description="The miner's margin; null for its default.")
    ignore_homonyms: bool = Field(
        default=False,
        description="Exclude homonyms, equal names of different concepts, from the negatives. The paper includes them.",
    )

    @model_validator(mode="after")
    def _check_constants(self) -> Self:
        make_loss(self.loss, self.preset, **self.constants)
        make_miner(self.miner, self.margin)
        return self


class SapbertBatch(BatchSettings):
    """The batch of a step, and limits of the run."""

    pairs: int = Field(default=256, ge=2, description="Pairs in a step: half the number of names.")
    epochs: int = Field(default=1, ge=1, description="Epochs over all pairs.")
    source_balance: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Balance of sources: 0 draws each pair once per epoch, 1 all sources with equal probability; "
        "values between favour small sources.",
    )
    neighbours: int = Field(
        default=0,
        ge=0,
        description="0 for random batches; otherwise, each pair is grouped with pairs of this number of concepts, "
        "which are similar to its own by the base encoder.",
    )
    neighbour_pool: int = Field(
        default=0,
        ge=0,
        description="Draw neighbours at random from this number of the most similar concepts; 0 to take the most "
        "similar ones.",
    )
    altered: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of names in other writing: misspelt, with normal words (singular, American spelling), or "
        "reordered.",
    )

    @model_validator(mode="after")
    def _check_neighbours(self) -> Self:
        if self.neighbours >= self.pairs:
            refuse("batch.neighbours", self.neighbours, "less than batch.pairs")
        if self.neighbour_pool and not 0 < self.neighbours <= self.neighbour_pool:
            allowed = "0 without batch.neighbours" if not self.neighbours else "batch.neighbours or more"
            refuse("batch.neighbour_pool", self.neighbour_pool, allowed)
        return self


class PairSettings(TrainingSettings):
    """What the settings of methods that learn from pairs have in common."""

    paths: SapbertPaths
    objective: ObjectiveSettings = ObjectiveSettings()
    batch: SapbertBatch = SapbertBatch()

    @model_validator(mode="after")
    def _check_terminology(self) -> Self:
        if self.paths.terminology and not self.batch.neighbours:
            refuse("paths.terminology", self.paths.terminology, "empty without batch.neighbours")
        return self


class SapbertSettings(PairSettings):
    """All settings of a run of SapBERT."""

    adapter: AdapterSettings = AdapterSettings()

    @model_validator(mode="after")
    def _check_share(self) -> Self:
        if self.run.base_share and self.adapter.kind == "bottleneck":
            allowed = "0 with a bottleneck adapter, whose base has no such weights"
            refuse("run.base_share", self.run.base_share, allowed)
        return self
