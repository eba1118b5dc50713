"""The settings of the second stage."""

from __future__ import annotations

from pydantic import Field

from ...settings import Settings


class SecondStageSettings(Settings):
    """How the cross-encoder reads, and how it learns."""

    encoder: str = Field(
        min_length=1,
        description="Folder of the transformer to start from, such as `projects/open_encoder/model`. It is read when "
        "training starts, and no longer needed afterwards.",
    )
    n_candidates: int = Field(
        default=8,
        ge=1,
        description="Candidates of the first stage that are read with the sentence. Time grows with their number.",
    )
    max_length: int = Field(
        default=64,
        ge=16,
        description="Tokens of sentence and candidate together, special tokens included. Each has half of them.",
    )
    learn_rate: float = Field(default=5e-5, gt=0, description="Learn rate of the transformer. The optimizer is AdamW.")
    pull: float = Field(
        default=0.01,
        ge=0,
        description="Weight of the squared distance to the first stage's scores in the loss: more keeps the order "
        "closer to its own.",
    )
    start_after: int = Field(
        default=0, ge=0, description="Training steps of the first stage before the second one starts to learn."
    )
    device: str = Field(
        default="auto",
        description='Where to compute: "cpu", "cuda", "cuda:1", "mps", or "auto" for the device that spaCy uses.',
    )
    seed: int = Field(default=0, ge=0, description="Seed of the dropout.")
