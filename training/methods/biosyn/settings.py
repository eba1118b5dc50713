"""The settings of BioSyn."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from spacy_sapbert.types import Pooling, Precision

from ...encoders.choice import EncoderChoice
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

    mentions: str
    """Files of training mentions, separated by commas: the training and development parts."""
    dictionary: str
    """The file of ids and names, without training mentions."""

    @field_validator("mentions")
    @classmethod
    def _check_mentions(cls, value: str) -> str:
        if not any(file.strip() for file in value.split(",")):
            raise ValueError("files with commas between them")
        return value

    def list_mentions(self) -> list[str]:
        """Split the list of files.

        RETURNS (list[str]): The files of mentions.
        """
        return [file.strip() for file in self.mentions.split(",") if file.strip()]


class BioSynEncoder(EncoderChoice):
    """Settings of the encoder that override its own."""

    pooling: Pooling | None = "cls"
    """Pooling of token vectors into the vector of a name; null: as in the encoder's folder."""


class CandidateSettings(Section):
    """The candidates of mentions in training."""

    total: int = Field(default=20, ge=2)
    """Candidates of each mention."""
    sparse: int = Field(default=10, ge=0)
    """Candidates found by shared characters; vectors find the others."""

    @model_validator(mode="after")
    def _check_sparse(self) -> Self:
        if self.sparse > self.total:
            refuse("candidates.sparse", self.sparse, "0 to candidates.total")
        return self


class BioSynOptimizer(OptimizerSettings):
    """The optimizer: Adam, with weight decay added to the gradient."""

    learning_rate: float = Field(default=1e-5, gt=0)
    """The highest learning rate of the encoder."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of the encoder."""
    sparse_learning_rate: float = Field(default=0.01, ge=0)
    """The highest learning rate of the weight of sparse products, which does not decay."""


class BioSynBatch(BatchSettings):
    """The batch of a step, and limits of the run."""

    mentions: int = Field(default=16, ge=1)
    """Mentions in a step."""
    epochs: int = Field(default=10, ge=1)
    """Epochs over all mentions, each with new candidates."""
    gradient_cache: Literal[False] = False
    """Must be false: BioSyn keeps the activations of a step."""


class BioSynRun(RunSettings):
    """The method, and settings of the run."""

    precision: Precision = "auto"
    """Precision of the forward pass, also of the search for candidates; "auto": bf16 where the processor computes in
    it. Scores, loss and weights stay in single precision."""


class BioSynSettings(TrainingSettings):
    """All settings of a run of BioSyn."""

    paths: BioSynPaths
    encoder: BioSynEncoder = BioSynEncoder()
    candidates: CandidateSettings = CandidateSettings()
    optimizer: BioSynOptimizer = BioSynOptimizer()
    batch: BioSynBatch = BioSynBatch()
    run: BioSynRun
