"""The settings of CODER."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from ...engine.settings import Section, refuse
from .family_settings import FamilySettings, LinearOptimizer, NameData, NamePaths, SimilarityConstants, UpdateBatch

RelationKind = Literal["none", "diagonal", "full", "transe", "transe_margin"]
RelationStart = Literal["identity", "normal"]


class CoderPaths(NamePaths):
    """Paths of a run."""

    triples: str = Field(description="The folder of triples.")


class CoderData(NameData):
    """The training names and triples."""

    min_triples: int = Field(default=2, ge=1, description="Labels of relations with fewer triples are excluded.")


class RelationSettings(SimilarityConstants):
    """The relation loss."""

    weight: float | None = Field(
        default=None,
        gt=0,
        description='Weight of the relation loss relative to the term loss (mu); null: 1, or 0.1 for "transe".',
    )
    start: RelationStart | None = Field(
        default=None,
        description='Initial relations: "identity" leaves heads unchanged, "normal" is random; null: "normal" for '
        'translations, "identity" for matrices.',
    )
    mask_known: bool = Field(
        default=False, description="Exclude other triples of the graph from the negatives. The paper includes them."
    )


class LossSettings(Section):
    """The losses."""

    relations: RelationKind = Field(
        default="diagonal",
        description='"diagonal" or "full": a matrix that multiplies the head; "transe": a vector added to the head; '
        '"transe_margin": the loss of the released code, with the same vectors and a random concept per triplet, '
        'which must be farther from the translated head than the tail; "none": only the term loss.',
    )
    ignore_homonyms: bool = Field(
        default=False,
        description="Exclude homonyms, equal names of different concepts, from the negatives. The paper includes them.",
    )


class CoderOptimizer(LinearOptimizer):
    """The optimizer: AdamW. As in the released code, biases and layer normalisation do not decay."""

    relation_learning_rate: float | None = Field(
        default=None,
        gt=0,
        description="The highest learning rate of relations; null: the learning rate of the encoder.",
    )


class CoderBatch(UpdateBatch):
    """The batches of an update, and limits of the run."""

    triplets: int = Field(default=128, description="Triplets in a batch (k).")
    repetitions: int = Field(
        default=8, description="Copies of each distinct triplet in a batch, with different names (m)."
    )
    label_balance: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Balance of labels: 0 draws all triples with equal probability, 1 all labels; values between "
        "favour rare ones.",
    )

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
