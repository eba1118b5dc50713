"""The settings common to CODER and CODER++."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from ...encoders.bases import EncoderChoice
from ...engine.settings import (
    BatchSettings,
    OptimizerSettings,
    PathSettings,
    Schedule,
    Section,
    TrainingSettings,
    refuse,
)


class NamePaths(PathSettings):
    """Paths of a run."""

    terminology: str = Field(description="The folder of concepts and names.")


class LongerNames(EncoderChoice):
    """Settings of the encoder that override its own."""

    max_length: int | None = Field(
        default=32, ge=1, description="Maximum number of tokens of a name; null: as in the encoder's folder."
    )


class NameData(Section):
    """The training names."""

    languages: str = Field(default="ENG", description='LAT of the names, separated by commas, or "all".')
    lower_case: bool = Field(default=True, description="Lower-case names.")
    clean_names: bool = Field(
        default=False,
        description='Clean names as CODER\'s released code does: lower case, without "NOS" and text in brackets, '
        "hyphens as spaces. Not in the paper.",
    )

    @field_validator("languages")
    @classmethod
    def _check_languages(cls, value: str) -> str:
        if not value.replace(",", " ").split():
            raise ValueError('LAT separated by commas, or "all"')
        return value

    def list_languages(self) -> list[str] | None:
        """Split the list of languages."""
        found = self.languages.replace(",", " ").split()
        return None if found == ["all"] else found


class SimilarityConstants(Section):
    """Constants of a Multi-Similarity loss and its miner (Yuan et al., JBI 2022, section 3)."""

    alpha: float | None = Field(default=None, gt=0, description="Weight of positive pairs; null: as published.")
    beta: float | None = Field(default=None, gt=0, description="Weight of negative pairs; null: as published.")
    base: float | None = Field(
        default=None, description="The similarity that is neither good nor bad (lambda); null: as published."
    )
    margin: float | None = Field(
        default=None,
        ge=0,
        description='The miner\'s margin (epsilon); for "transe_margin", the required extra distance of the random '
        "concept; null: as published.",
    )


class LinearOptimizer(OptimizerSettings):
    """The optimizer: AdamW. As in the released code, biases and layer normalisation do not decay."""

    schedule: Schedule = Field(
        default="linear",
        description='"constant", or "linear" down to 0 at the last update. Warm-up and decay count updates, not '
        "batches.",
    )


class UpdateBatch(BatchSettings):
    """The batches of an update, and limits of the run."""

    accumulation: int = Field(default=8, ge=1, description="Batches per update, each with its own loss.")
    max_steps: int = Field(
        default=100_000, ge=0, description="Maximum number of updates; 0 if only max_minutes limits the run."
    )


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


class ResolvedConstants(NamedTuple):
    """Constants of a Multi-Similarity loss and its miner. See `SimilarityConstants`.

    alpha (float): Weight of positive pairs.
    beta (float): Weight of negative pairs.
    base (float): The similarity that is neither good nor bad.
    margin (float): The miner's margin.
    """

    alpha: float
    beta: float
    base: float
    margin: float


def resolve(given: SimilarityConstants, kind: str, width: int) -> ResolvedConstants:
    """Fill in constants missing from the config: those of the paper or, for "transe_margin", of the released code."""
    cosines = (2.0, 50.0, 0.5, 0.1)
    distances = (0.2, 5.0, -float(round(width**0.5)), 0.1)
    published = {"transe": distances, "transe_margin": (*cosines[:3], 1.0)}.get(kind, cosines)
    chosen = (given.alpha, given.beta, given.base, given.margin)
    return ResolvedConstants(*(p if c is None else c for c, p in zip(chosen, published, strict=True)))
