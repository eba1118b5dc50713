"""A method of training: its settings, its data, its loss and its card. All else belongs to the runner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import torch
from accelerate import Accelerator

from spacy_sapbert.encoder import EncoderShim, EncoderSource

from ..data.run_folder import RunFolder, RunReport
from ..encoders.card import Making
from .gradient import ChunkedGradient, find_autocast
from .interruption import Interruption
from .model import Model, copy_transformer, count_trainable
from .settings import TrainingSettings

SettingsT = TypeVar("SettingsT", bound=TrainingSettings)


class Learned(NamedTuple):
    """The data of a run, for its report and its checks.

    report (dict[str, Any]): Counts.
    sha256 (str | dict[str, Any]): Hashes of the files that were read.
    concepts (Collection[str]): Ids of the concepts that are learned from.
    """

    report: dict[str, Any]
    sha256: str | dict[str, Any]
    concepts: Collection[str]


class Source(Protocol):
    """The files that a run learns from, before they are read in full. Equal for runs with the same files."""

    @property
    def path(self) -> str:
        """The folder or file that messages name."""

    def hash(self) -> str | dict[str, Any]:
        """Hash the files.

        RETURNS (str | dict[str, Any]): As `Learned.sha256`.
        RAISES (OSError): If a file is missing or damaged.
        """

    def list_concepts(self) -> set[str]:
        """List the concepts in the files.

        RETURNS (set[str]): Ids of all concepts with a name that may be learned from.
        RAISES (OSError): If a file is missing or damaged.
        """


class Method(ABC, Generic[SettingsT]):
    """One run of a method. Subclasses say what a step sees and learns; `train` of the runner does the rest.

    name (str): The method, as `run.method` of configs names it.
    Settings (type[TrainingSettings]): Its settings.
    unit (str): What its speed is counted in. If `loss` returns it, TensorBoard has the speed of each step.

    settings (SettingsT): Settings of the run.
    base (EncoderShim): The encoder to start from.
    accelerator (Accelerator): Devices.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[TrainingSettings]]
    unit: ClassVar[str] = "names"

    learned: Learned
    model: Model

    def __init__(self, settings: SettingsT, base: EncoderShim, accelerator: Accelerator) -> None:
        self.settings = settings
        self.base = base
        self.accelerator = accelerator
        self.folder = RunFolder(settings.paths.output)
        # The loop puts its own here, so that long work within a step can be given up.
        self.interruption = Interruption()

    @classmethod
    @abstractmethod
    def find_source(cls, settings: Any) -> Source:
        """Name the files that a run learns from.

        settings (SettingsT): Settings of the run.
        RETURNS (Source): The files, unread.
        """

    @abstractmethod
    def load(self) -> Learned:
        """Read the data.

        RETURNS (Learned): Counts, hashes and concepts.
        RAISES (OSError): If a file is missing or damaged.
        RAISES (ValueError): If there is nothing to learn from.
        """

    def build(self) -> Model:
        """Make the model, and all else that steps need.

        RETURNS (Model): What is trained.
        """
        return Model(self.make_transformer(self.base.source, self.settings))

    def batches(self, start: int) -> Iterator[Any]:
        """Iterate over what the steps see, which depends on the seed and the step alone. By default a step sees its
        number, and `loss` draws the batch.

        start (int): Steps to skip, for a resumed run.
        YIELDS (Any): What a step sees.
        """
        return count(start)

    @abstractmethod
    def loss(self, batch: Any, scale: float) -> dict[str, Any]:
        """Add the gradients of a batch to those of the weights.

        batch (Any): What the step sees.
        scale (float): What to multiply gradients with.
        RETURNS (dict[str, Any]): `loss`, not scaled, and other metrics to log; JSON.
        """

    @classmethod
    @abstractmethod
    def describe(cls, report: RunReport) -> Making:
        """Describe how an encoder was trained.

        report (RunReport): Report of the run.
        RETURNS (Making): For the card.
        """

    # Hooks with defaults

    @property
    def units_per_step(self) -> int:
        """Return how many units a step sees.

        RETURNS (int): Pairs, triplets, groups or mentions.
        """
        return int(getattr(self.settings.batch, self.unit, 0))

    @property
    def n_steps(self) -> int | None:
        """Return the number of steps of the whole run.

        RETURNS (int | None): Steps; None if only time ends the run.
        """
        return self.settings.batch.max_steps or None

    @cached_property
    def gradient(self) -> ChunkedGradient:
        """Make what computes gradients in chunks.

        RETURNS (ChunkedGradient): For the model's transformer.
        """
        return ChunkedGradient(
            self.model.transformer,
            self.base.settings,
            self.accelerator,
            pad_id=self.base.source.tokenizer.pad_token_id or 0,
            chunk_names=self.settings.batch.chunk_names,
            gradient_cache=self.settings.batch.gradient_cache,
            autocast=find_autocast(self.settings.run.precision, self.accelerator.device),
        )

    @classmethod
    def make_transformer(cls, source: EncoderSource, settings: Any) -> torch.nn.Module:
        """Make the transformer to train.

        source (EncoderSource): The encoder to start from, which stays as it is.
        settings (SettingsT): Settings of the run.
        RETURNS (torch.nn.Module): The transformer, in training mode.
        """
        return copy_transformer(source, settings.batch.dropout)

    def group_parameters(self) -> list[Any]:
        """Group parameters for the optimizer.

        RETURNS (list[Any]): Parameters, or groups of them. A group's `rate` multiplies its learning rate.
        """
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Make the optimizer.

        RETURNS (torch.optim.Optimizer): AdamW.
        """
        how = self.settings.optimizer
        return torch.optim.AdamW(self.group_parameters(), lr=how.learning_rate, weight_decay=how.weight_decay)

    def describe_batch(self, batch: Any) -> dict[str, Any]:
        """Describe a batch whose loss is not a number.

        batch (Any): What the step has seen.
        RETURNS (dict[str, Any]): JSON data.
        """
        return {}

    def identify(self) -> dict[str, Any]:
        """Return what a checkpoint has to agree with, beside decisive settings, data and base encoder.

        RETURNS (dict[str, Any]): JSON data.
        """
        return {}

    def compare(self, path: Path, former: dict[str, Any]) -> None:
        """Refuse a checkpoint with a message of the method's own.

        path (Path): The checkpoint.
        former (dict[str, Any]): What the checkpoint has to agree with, as it was saved.
        RAISES (ValueError): If the checkpoint is of another run.
        """

    def save_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds beside weights and optimizer.

        RETURNS (dict[str, Any]): JSON data and tensors by name.
        """
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take what a checkpoint holds.

        state (dict[str, Any]): As `save_state` returned it.
        """

    def report(self, steps: int, seconds: float) -> dict[str, Any]:
        """Return what the report says of the training beside steps, time and speed.

        steps (int): Steps taken.
        seconds (float): Time spent in them.
        RETURNS (dict[str, Any]): JSON data.
        """
        return {}

    @classmethod
    def summarise(cls, report: RunReport) -> list[str]:
        """Say what a user wants to know at the end of a run, beside steps, speed and scores.

        report (RunReport): Report of the run.
        RETURNS (list[str]): Lines to print.
        """
        return []

    def count_parameters(self) -> dict[str, int]:
        """Count trained parameters.

        RETURNS (dict[str, int]): Numbers by part of the model.
        """
        return {name: count_trainable(part) for name, part in self.model.named_children()}

    def list_packages(self) -> list[str]:
        """List the packages whose versions matter, beside those of every run.

        RETURNS (list[str]): Their names.
        """
        return ["accelerate"]

    @classmethod
    def find_obstacle(cls, settings: Any) -> str:
        """Say why a run leaves no encoder folder.

        settings (SettingsT): Settings of the run.
        RETURNS (str): What the run does; empty if it leaves one.
        """
        return ""

    @classmethod
    def merge(cls, transformer: torch.nn.Module, base: torch.nn.Module, settings: Any) -> torch.nn.Module:
        """Turn a trained transformer into one like the base's.

        transformer (torch.nn.Module): As `make_transformer` made it, trained.
        base (torch.nn.Module): The base's transformer.
        settings (SettingsT): Settings of the run.
        RETURNS (torch.nn.Module): The transformer to export.
        """
        return transformer

    def save_extras(self, trained: EncoderShim) -> None:
        """Write files beside the encoder folder.

        trained (EncoderShim): The exported encoder.
        """
