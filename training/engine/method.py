"""The interface of a training method: settings, data, loss and card. The runner does everything else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import polars as pl
import torch
from accelerate import Accelerator

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists
from spacy_sapbert.encoder.transformer import EncoderSource

from ..data.run_folder import RunFolder, RunReport
from ..data.tokens import tokenise_once
from ..encoders.card import Making
from ..encoders.export import DTYPES, as_encoder, finish_encoder
from .gradient import ChunkedGradient, find_autocast
from .interruption import Interruption
from .model import Model, copy_transformer, count_trainable
from .settings import TrainingSettings
from .source import TrainingFiles

TOKENS_FOLDER = "tokens"
SettingsT = TypeVar("SettingsT", bound=TrainingSettings)


class TrainingData(NamedTuple):
    """Facts about the training data of a run, for its report and its checks.

    report (dict[str, Any]): Counts.
    sha256 (str | dict[str, Any]): Hashes of the files.
    concepts (Collection[str]): Ids of the training concepts.
    """

    report: dict[str, Any]
    sha256: str | dict[str, Any]
    concepts: Collection[str]


class Method(ABC, Generic[SettingsT]):
    """One run of a method. Subclasses define batches and loss; `train` of the runner does the rest.

    name (str): The method, as `run.method` of configs names it.
    Settings (type[TrainingSettings]): Its settings.
    dtypes (tuple[str, ...]): Types that its encoders can be stored in. The first is the default.
    unit (str): The unit of its speed. If `loss` returns it, TensorBoard shows the speed of each step.

    settings (SettingsT): Settings of the run.
    base (EncoderShim): The base encoder.
    accelerator (Accelerator): Devices.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[TrainingSettings]]
    dtypes: ClassVar[tuple[str, ...]] = tuple(DTYPES)
    unit: ClassVar[str] = "names"

    learned: TrainingData
    model: Model

    def __init__(self, settings: SettingsT, base: EncoderShim, accelerator: Accelerator) -> None:
        self.settings = settings
        self.base = base
        self.accelerator = accelerator
        self.folder = RunFolder(settings.paths.output)
        # The loop replaces it by its own, so that long work within a step can be interrupted.
        self.interruption = Interruption()

    @classmethod
    @abstractmethod
    def find_source(cls, settings: Any) -> TrainingFiles:
        """Locate the training files of a run.

        settings (SettingsT): Settings of the run.
        RETURNS (TrainingFiles): The files, unread.
        """

    @abstractmethod
    def load(self) -> TrainingData:
        """Read the data.

        RETURNS (TrainingData): Counts, hashes and concepts.
        RAISES (OSError): If a file is missing or damaged.
        RAISES (ValueError): If there are no training data.
        """

    def build(self) -> Model:
        """Make the model and the state of the steps.

        RETURNS (Model): The model.
        """
        return Model(self.make_transformer(self.base.source, self.settings))

    def batches(self, start: int) -> Iterator[Any]:
        """Iterate over the batches of the steps, which depend only on the seed and the step. By default a batch is the
        number of its step, and `loss` draws the data.

        start (int): Steps to skip, for a resumed run.
        YIELDS (Any): The batch of a step.
        """
        return count(start)

    @abstractmethod
    def loss(self, batch: Any, scale: float) -> dict[str, Any]:
        """Add the gradients of a batch to the weights' gradients.

        batch (Any): The batch of the step.
        scale (float): The factor of gradients.
        RETURNS (dict[str, Any]): The unscaled `loss`, and other metrics to log; JSON.
        """

    @classmethod
    @abstractmethod
    def describe(cls, report: RunReport) -> Making:
        """Describe how an encoder was trained.

        report (RunReport): Report of the run.
        RETURNS (Making): For the card.
        """

    def make_tokens(self, names: pl.Series, encoder: EncoderShim) -> TokenLists:
        """Tokenise names: one process of a launch does, and all map the tokens from the folder of the run.

        names (pl.Series): The names.
        encoder (EncoderShim): Whose tokenizer to use.
        RETURNS (TokenLists): Their tokens.
        """
        with self.accelerator.main_process_first():
            return tokenise_once(names, encoder, self.folder.path / TOKENS_FOLDER)

    # Hooks with defaults

    @property
    def units_per_step(self) -> int:
        """Return the number of units of a step.

        RETURNS (int): Pairs, triplets, groups or mentions.
        """
        return int(getattr(self.settings.batch, self.unit, 0))

    @property
    def n_steps(self) -> int | None:
        """Return the number of steps of the whole run.

        RETURNS (int | None): Steps; None if only time limits the run.
        """
        return self.settings.batch.max_steps or None

    @cached_property
    def gradient(self) -> ChunkedGradient:
        """Make the gradient computation in chunks.

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

        source (EncoderSource): The base encoder, which is not changed.
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

        batch (Any): The batch of the step.
        RETURNS (dict[str, Any]): JSON data.
        """
        return {}

    def identify(self) -> dict[str, Any]:
        """Return what must equal a checkpoint's, in addition to decisive settings, data and base encoder.

        RETURNS (dict[str, Any]): JSON data.
        """
        return {}

    def compare(self, path: Path, former: dict[str, Any]) -> None:
        """Compare the method's data with a checkpoint's, for a specific error message.

        path (Path): The checkpoint.
        former (dict[str, Any]): The result of `identify` when the checkpoint was saved.
        RAISES (ValueError): If the checkpoint is of another run.
        """

    def save_state(self) -> dict[str, Any]:
        """Return the method's state for a checkpoint, in addition to weights and optimizer.

        RETURNS (dict[str, Any]): JSON data and tensors by name.
        """
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the method's state from a checkpoint.

        state (dict[str, Any]): As `save_state` returned it.
        """

    def report(self, steps: int, seconds: float) -> dict[str, Any]:
        """Return the method's entries of the report, in addition to steps, time and speed.

        steps (int): Steps taken.
        seconds (float): Time spent in them.
        RETURNS (dict[str, Any]): JSON data.
        """
        return {}

    @classmethod
    def summarise(cls, report: RunReport) -> list[str]:
        """Summarise a finished run for the user, in addition to steps, speed and scores.

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
        """List the packages whose versions affect results, in addition to those of every run.

        RETURNS (list[str]): Their names.
        """
        return ["accelerate"]

    @classmethod
    def find_obstacle(cls, settings: Any) -> str:
        """Explain why a run's weights can't be averaged with those of its base.

        settings (SettingsT): Settings of the run.
        RETURNS (str): The reason; empty if they can.
        """
        return ""

    @classmethod
    def merge(cls, transformer: torch.nn.Module, base: torch.nn.Module, settings: Any) -> torch.nn.Module:
        """Convert a trained transformer to the architecture of the base's.

        transformer (torch.nn.Module): The result of `make_transformer`, trained.
        base (torch.nn.Module): The base's transformer.
        settings (SettingsT): Settings of the run.
        RETURNS (torch.nn.Module): The transformer to export.
        """
        return transformer

    def take_snapshot(self) -> EncoderShim:
        """Make an encoder of the current weights, to measure it.

        RETURNS (EncoderShim): The encoder.
        """
        return as_encoder(self.model.transformer, self.base)

    @classmethod
    def finish(
        cls, transformer: Any, base: EncoderShim, settings: Any, *, base_share: float = 0.0, dtype: str = ""
    ) -> EncoderShim:
        """Make the encoder to export.

        transformer (torch.nn.Module): The result of `make_transformer`, trained.
        base (EncoderShim): The base encoder.
        settings (SettingsT): Settings of the run.
        base_share (float): Share of the weights before training, 0 to 1.
        dtype (str): One of `dtypes`; empty for the first.
        RETURNS (EncoderShim): The encoder, with the fingerprint of the stored weights.
        RAISES (FloatingPointError): If a weight is infinite or NaN.
        """
        merged = cls.merge(transformer, base.source.transformer, settings)
        return finish_encoder(merged, base, base_share=base_share, dtype=dtype or cls.dtypes[0])

    def save_extras(self, trained: EncoderShim) -> None:
        """Write files beside the encoder folder.

        trained (EncoderShim): The exported encoder.
        """
