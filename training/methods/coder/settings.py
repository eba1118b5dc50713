"""The settings of CODER."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from ...engine.settings import refuse
from ...section import Section
from .family_settings import FamilySettings, LinearOptimizer, NameData, NamePaths, SimilarityConstants, UpdateBatch

RelationKind = Literal["none", "diagonal", "full", "transe", "transe_margin"]
RelationStart = Literal["identity", "normal"]


class CoderPaths(NamePaths):
    """Where a run reads and writes."""

    triples: str
    """The folder of triples."""


class CoderData(NameData):
    """The names and triples to learn from."""

    min_triples: int = Field(default=2, ge=1)
    """Labels of relations with fewer triples are left out."""


class RelationSettings(SimilarityConstants):
    """How relations are learned."""

    weight: float | None = Field(default=None, gt=0)
    """Weight of the relation loss beside the term loss (mu); null for 1, and for 0.1 of "transe"."""
    start: RelationStart | None = None
    """"identity" for relations that leave heads unchanged, "normal" for random ones; null: "normal" for translations,
    "identity" for matrices."""
    mask_known: bool = False
    """Do not count other triples of the graph as negatives. The paper does."""


class LossSettings(Section):
    """What is learned."""

    relations: RelationKind = "diagonal"
    """"diagonal" or "full": a matrix that maps a head; "transe": a vector that is added to it; "transe_margin": the
    loss of the released code, the same vectors with a random concept for each triplet that has to be farther from the
    moved head than the tail; "none": terms alone."""
    ignore_homonyms: bool = False
    """Do not push names apart that are written alike. The paper does."""


class CoderOptimizer(LinearOptimizer):
    """How weights are updated: AdamW. As in the released code, biases and layer normalisation do not decay."""

    relation_learning_rate: float | None = Field(default=None, gt=0)
    """The highest learning rate of relations; null: that of the encoder."""


class CoderBatch(UpdateBatch):
    """What an update of the weights sees, and when updates end."""

    triplets: int = 128
    """Triplets in a batch (k)."""
    repetitions: int = 8
    """Copies of each distinct triplet in a batch, with other names each time (m)."""
    label_balance: float = Field(default=0.0, ge=0, le=1)
    """0 to draw all triples alike; up to 1 to draw those of rare labels more often, at 1 all labels alike."""

    @model_validator(mode="after")
    def _check_repetitions(self) -> Self:
        k, m = self.triplets, self.repetitions
        if m < 2 or m * m > k or k % m:
            right = ", ".join(str(m) for m in range(2, int(max(k, 0) ** 0.5) + 1) if k % m == 0) or "none"
            allowed = "2 or more, divide batch.triplets and be at most its square root (Yuan et al., JBI 2022)"
            refuse("batch.repetitions", m, f"{allowed}. For {k} triplets: {right}")
        return self


class CoderSettings(FamilySettings):
    """All settings of a run of CODER."""

    paths: CoderPaths
    data: CoderData = CoderData()
    loss: LossSettings = LossSettings()
    relations: RelationSettings = RelationSettings()
    optimizer: CoderOptimizer = CoderOptimizer()
    batch: CoderBatch = CoderBatch()

    @model_validator(mode="after")
    def _check_relations(self) -> Self:
        kind, relations = self.loss.relations, self.relations
        if relations.weight is not None and kind == "none":
            refuse("relations.weight", relations.weight, "null without relations")
        if relations.mask_known and kind in ("none", "transe_margin"):
            refuse("relations.mask_known", True, f'false with loss.relations = "{kind}"')
        return self
