"""The settings of BioSyn."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from spacy_sapbert.encoder.settings import Pooling, Precision

from ...encoders.bases import EncoderChoice
from ...engine.settings import (
    BatchSettings,
    OptimizerSettings,
    PathSettings,
    RunSettings,
    Section,
    TrainingSettings,
    refuse,
)


class BioSynPaths(PathSettings):
    """Paths of a run."""

    mentions: str = Field(
        description="Files of training mentions, separated by commas: the training and development parts."
    )
    dictionary: str = Field(description="The file of ids and names, without training mentions.")

    @field_validator("mentions")
    @classmethod
    def _check_mentions(cls, value: str) -> str:
        if not any(file.strip() for file in value.split(",")):
            raise ValueError("files with commas between them")
        return value

    def list_mentions(self) -> list[str]:
        """Split the list of files."""
        return [file.strip() for file in self.mentions.split(",") if file.strip()]


class BioSynEncoder(EncoderChoice):
    """Settings of the encoder that override its own."""

    pooling: Pooling | None = Field(
        default="cls",
        description="Pooling of token vectors into the vector of a name; null: as in the encoder's folder.",
    )


class CandidateSettings(Section):
    """The candidates of mentions in training."""

    total: int = Field(default=20, ge=2, description="Candidates of each mention.")
    sparse: int = Field(default=10, ge=0, description="Candidates found by shared characters; vectors find the others.")

    @model_validator(mode="after")
    def _check_sparse(self) -> Self:
        if self.sparse > self.total:
            refuse("candidates.sparse", self.sparse, "0 to candidates.total")
        return self


class BioSynOptimizer(OptimizerSettings):
    """The optimizer: Adam, with weight decay added to the gradient."""

    learning_rate: float = Field(default=1e-5, gt=0, description="The highest learning rate of the encoder.")
    weight_decay: float = Field(default=0.01, ge=0, description="Weight decay of the encoder.")
    sparse_learning_rate: float = Field(
        default=0.01,
        ge=0,
        description="The highest learning rate of the weight of sparse products, which does not decay.",
    )


class BioSynBatch(BatchSettings):
    """The batch of a step, and limits of the run."""

    mentions: int = Field(default=16, ge=1, description="Mentions in a step.")
    epochs: int = Field(default=10, ge=1, description="Epochs over all mentions, each with new candidates.")
    gradient_cache: Literal[False] = Field(
        default=False, description="Must be false: BioSyn keeps the activations of a step."
    )


class BioSynRun(RunSettings):
    """The method, and settings of the run."""

    precision: Precision = Field(
        default="auto",
        description='Precision of the forward pass, also of the search for candidates; "auto": bf16 where the '
        "processor computes in it. Scores, loss and weights stay in single precision.",
    )


class BioSynSettings(TrainingSettings):
    """All settings of a run of BioSyn."""

    paths: BioSynPaths
    encoder: BioSynEncoder = BioSynEncoder()
    candidates: CandidateSettings = CandidateSettings()
    optimizer: BioSynOptimizer = BioSynOptimizer()
    batch: BioSynBatch = BioSynBatch()
    run: BioSynRun
