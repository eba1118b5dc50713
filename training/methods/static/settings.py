"""The settings of static encoders."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from ...engine.settings import OptimizerSettings, Section, refuse
from ..sapbert.settings import ObjectiveSettings, PairSettings, SapbertBatch, SapbertPaths


class StaticPaths(SapbertPaths):
    """Paths of a run."""

    texts: str = Field(
        default="", description="A file of strings, one a line, whose teacher vectors are learned; empty for none."
    )
    vectors: str = Field(
        default="",
        description="The folder that keeps the teacher's vectors, for other runs too; empty for the folder of the run.",
    )


class TokenTableSettings(Section):
    """The vocabulary and the table at its start."""

    width: int = Field(default=256, ge=1, description="Width of the vectors, at most that of the teacher's vectors.")
    words: int = Field(
        default=0, ge=0, description="Whole words to add to the vocabulary: the most frequent ones of the names."
    )
    min_names: int = Field(default=3, ge=1, description="Names that a word must be in to be added.")
    scripts: Literal["latin", "all"] = Field(
        default="latin",
        description='"latin" drops the pieces of other scripts than Latin and Greek from the vocabulary; "all" keeps '
        "them.",
    )
    smoothing: float = Field(
        default=1e-3,
        gt=0,
        description="The constant a of the weight a / (a + p) of a token at the start, p being its share of all "
        "tokens.",
    )


class DistillationSettings(Section):
    """Learning from the teacher's vectors."""

    names: float = Field(default=0.0, ge=0, description="Weight of the loss on names.")
    texts: float = Field(default=0.0, ge=0, description="Weight of the loss on the strings of `paths.texts`.")


class StaticOptimizer(OptimizerSettings):
    """The optimizer: Adagrad with one learning rate for each row of the table."""

    learning_rate: float = Field(default=0.05, gt=0, description="The highest learning rate.")
    weight_decay: float = Field(
        default=0.0, ge=0, le=0, description="0: the rows of a step are the only ones that change."
    )
    max_grad_norm: float = Field(
        default=0.0, ge=0, le=0, description="0: Adagrad does not depend on the size of gradients."
    )


class StaticObjective(ObjectiveSettings):
    """The loss and its pairs."""

    loss: Literal["info_nce", "multi_similarity", "circle"] = Field(default="info_nce", description="The loss.")
    miner: Literal["sapbert", "coder", "off"] = Field(default="off", description="The miner of pairs.")
    constants: dict[str, float] = Field(
        default={"temperature": 0.1}, description="Constants of the loss that override the preset's."
    )
    ignore_homonyms: bool = Field(
        default=True, description="Exclude homonyms, equal names of different concepts, from the negatives."
    )


class StaticBatch(SapbertBatch):
    """The batch of a step, and limits of the run."""

    pairs: int = Field(default=512, ge=2, description="Pairs in a step: half the number of names.")
    texts: int = Field(default=256, ge=1, description="Strings of `paths.texts` in a step.")

    @model_validator(mode="after")
    def _check_transformer_settings(self) -> Self:
        for name in ("chunk_names", "gradient_cache", "dropout"):
            default = type(self).model_fields[name].default
            if getattr(self, name) != default:
                refuse(f"batch.{name}", getattr(self, name), f"{json.dumps(default)}: there is no transformer to train")
        return self


class StaticSettings(PairSettings):
    """All settings of a run that trains a static encoder. Its base encoder is the teacher."""

    paths: StaticPaths
    table: TokenTableSettings = TokenTableSettings()
    objective: StaticObjective = StaticObjective()
    distillation: DistillationSettings = DistillationSettings()
    optimizer: StaticOptimizer = StaticOptimizer()
    batch: StaticBatch = StaticBatch()

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if self.distillation.texts and not self.paths.texts:
            refuse("distillation.texts", self.distillation.texts, "0 without paths.texts")
        return self
