"""The settings of CODER and of CODER++."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from spacy_sapbert.settings import Settings

from ...encoders.bases import EncoderChoice
from ...engine.settings import (
    BatchSettings,
    Listed,
    OptimizerSettings,
    PathSettings,
    Schedule,
    TrainingSettings,
    refuse,
)

RelationKind = Literal["none", "diagonal", "full", "transe", "transe_margin"]
RelationStart = Literal["identity", "normal"]


class NamePaths(PathSettings):
    """Paths of a run."""

    terminology: str = Field(description="The folder of concepts and names.")


class LongerNames(EncoderChoice):
    """Settings of the encoder that override its own."""

    max_length: int | None = Field(default=32, ge=1)


class NameData(Settings):
    """The training names."""

    languages: Listed = Field(
        default=("ENG",), min_length=1, description='LAT of the names, with commas between, or "all".'
    )
    lower_case: bool = Field(default=True, description="Lower-case names.")
    clean_names: bool = Field(
        default=False,
        description='Clean names as CODER\'s released code does: lower case, without "NOS" and text in brackets, '
        "hyphens as spaces. Not in the paper.",
    )


class SimilarityConstants(Settings):
    """Constants of a Multi-Similarity loss and its miner (Yuan et al., JBI 2022, section 3)."""

    alpha: float | None = Field(default=None, gt=0, description="Weight of positive pairs; null: as published.")
    beta: float | None = Field(default=None, gt=0, description="Weight of negative pairs; null: as published.")
    base: float | None = Field(default=None, description="The neutral similarity (lambda); null: as published.")
    margin: float | None = Field(
        default=None,
        ge=0,
        description='The margin (epsilon) of the miner, or of "transe_margin"; null: as published.',
    )

    def resolve(self, kind: RelationKind, width: int) -> tuple[float, ...]:
        """Return alpha, beta, base and margin: as in the config or, where it has none, as published.

        The paper prints +28 as the base for distances. Similarities are negative distances, about -sqrt(width) between
        a vector and itself translated by a random one, so the base is -28 for its width of 768.
        """
        cosines = (2.0, 50.0, 0.5, 0.1)
        distances = (0.2, 5.0, -float(round(width**0.5)), 0.1)
        published = {"transe": distances, "transe_margin": (*cosines[:3], 1.0)}.get(kind, cosines)
        present = (self.alpha, self.beta, self.base, self.margin)
        return tuple(p if g is None else g for g, p in zip(present, published, strict=True))


class LinearOptimizer(OptimizerSettings):
    """The optimizer: AdamW. As in the released code, biases and layer normalisation do not decay."""

    schedule: Schedule = "linear"


class UpdateBatch(BatchSettings):
    """The batches of an update, and limits of the run."""

    accumulation: int = Field(default=8, ge=1, description="Batches per update, each with its own loss.")
    max_steps: int = Field(default=100_000, ge=0, description="Maximum updates; 0 if only max_minutes limits the run.")


class FamilySettings(TrainingSettings):
    """The sections common to CODER and CODER++."""

    paths: NamePaths
    encoder: LongerNames = LongerNames()
    data: NameData = NameData()
    terms: SimilarityConstants = SimilarityConstants()
    optimizer: LinearOptimizer = LinearOptimizer()
    batch: UpdateBatch = UpdateBatch()

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        if not self.batch.max_steps and (self.optimizer.schedule == "linear" or not self.batch.max_minutes):
            refuse("batch.max_steps", 0, "1 or more, unless the schedule is constant and max_minutes set")
        return self


class CoderPaths(NamePaths):
    """Paths of a run."""

    triples: str = Field(description="The folder of triples.")


class CoderData(NameData):
    """The training names and triples."""

    min_triples: int = Field(default=2, ge=1, description="Labels of relations with fewer triples are excluded.")


class RelationSettings(SimilarityConstants):
    """The relation loss."""

    weight: float | None = Field(
        default=None, gt=0, description='Weight of the relation loss (mu); null: 1, or 0.1 for "transe".'
    )
    start: RelationStart | None = Field(
        default=None,
        description='Initial relations: "identity" leaves heads unchanged, "normal" is random; null: "normal" for '
        'translations, "identity" for matrices.',
    )


class LossSettings(Settings):
    """The losses."""

    relations: RelationKind = Field(
        default="diagonal",
        description='"diagonal" or "full": a matrix that multiplies the head; "transe": a vector added to the head; '
        '"transe_margin": the loss of the released code, with the same vectors and a random concept per triplet, '
        'which must be farther from the translated head than the tail; "none": only the term loss.',
    )


class CoderOptimizer(LinearOptimizer):
    """The optimizer: AdamW. As in the released code, biases and layer normalisation do not decay."""

    relation_learning_rate: float | None = Field(
        default=None, gt=0, description="The highest learning rate of relations; null: as for the encoder."
    )


class CoderBatch(UpdateBatch):
    """The batches of an update, and limits of the run."""

    triplets: int = Field(default=128, description="Triplets in a batch (k).")
    repetitions: int = Field(
        default=8, description="Copies of a distinct triplet in a batch, with different names (m)."
    )
    label_balance: float = Field(
        default=0.0, ge=0, le=1, description="0 draws all triples with equal probability, 1 all labels."
    )

    @model_validator(mode="after")
    def _check_repetitions(self) -> Self:
        k = self.triplets
        m = self.repetitions
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
        if self.relations.weight is not None and self.loss.relations == "none":
            refuse("relations.weight", self.relations.weight, "null without relations")
        return self


class GroupBatch(UpdateBatch):
    """The batches of an update, and limits of the run."""

    groups: int = Field(default=4, ge=1, description="Groups in a batch: an anchor with its neighbours and synonyms.")
    neighbours: int = Field(default=30, ge=1, description="Nearest neighbours of an anchor at the last refresh.")
    synonyms: int = Field(default=30, ge=1, description="Maximum number of synonyms of an anchor.")
    refresh_steps: int = Field(default=31_250, ge=1, description="Updates between two neighbour searches.")


class CoderPlusPlusSettings(FamilySettings):
    """All settings of a run of CODER++."""

    batch: GroupBatch = GroupBatch()
