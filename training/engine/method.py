"""The interface of a training method: settings, data and loss. `run.py` does everything else."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import polars as pl
import torch
from accelerate import Accelerator

from spacy_sapbert.encoder.settings import TRANSFORMER
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import EncoderSource
from spacy_sapbert.ragged import TokenLists

from ..data.run_folder import RunFolder
from ..data.tokens import tokenise_once
from ..encoders.export import DTYPES, finish_encoder
from .checkpoints import load_weights
from .gradient import ChunkedGradient, find_autocast
from .settings import TrainingSettings, read_config

TOKENS_FOLDER = "tokens"
SettingsT = TypeVar("SettingsT", bound=TrainingSettings)
Weights = Mapping[str, torch.Tensor]


class TrainingData(NamedTuple):
    """Facts about the training data of a run, for its report and its checks."""

    # The folder or file, for messages.
    path: str
    # Counts.
    report: dict[str, Any]
    # Hashes of all that the data depend on. A checkpoint is only resumed with equal ones.
    sha256: str | dict[str, Any]
    # Ids of the training concepts.
    concepts: Collection[str]


class Ending(NamedTuple):
    """How a run ended."""

    # Steps taken.
    step: int
    # "finished", "max_steps", "max_minutes" or "interrupted".
    reason: str
    # Time spent in steps, including the runs before resuming.
    seconds: float
    # What the steps have learned from, in the method's unit.
    units: int


class Model(torch.nn.Module):
    """A transformer, and other weights of a method by name, if there are some."""

    def __init__(self, transformer: torch.nn.Module, **others: torch.nn.Module | torch.nn.Parameter | None) -> None:
        super().__init__()
        self.transformer = transformer
        for name, weights in others.items():
            setattr(self, name, weights)


METHODS: dict[str, type[Method[Any]]] = {}


class Method(ABC, Generic[SettingsT]):
    """One run of a method. Subclasses define data and loss; `train` does the rest. A subclass with a name is known to
    configs as soon as its module is imported.
    """

    # The method, as `run.method` of configs names it.
    name: ClassVar[str]
    # Its name, source and purpose, for cards.
    purpose: ClassVar[str]
    Settings: ClassVar[type[TrainingSettings]]
    # The kind of encoder that it starts from; None for any.
    base_kind: ClassVar[str | None] = TRANSFORMER
    # Types that its encoders can be stored in. The first is the default.
    dtypes: ClassVar[tuple[str, ...]] = tuple(DTYPES)
    # The unit of its speed. `loss` returns the number of each step under this name.
    unit: ClassVar[str] = "names"

    # What `load` and `build` returned.
    learned: TrainingData
    model: Model

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            METHODS[cls.name] = cls

    def __init__(self, settings: SettingsT, base: EncoderShim, accelerator: Accelerator) -> None:
        self.settings = settings
        self.base = base
        self.accelerator = accelerator
        self.folder = RunFolder(settings.paths.output)
        # Steps of the whole run; None if only time limits it. `build` may set it.
        self.n_steps: int | None = settings.batch.max_steps or None

    @abstractmethod
    def load(self) -> TrainingData:
        """Read the data. It raises an OSError if a file is missing or damaged, and a ValueError if there are none."""

    @abstractmethod
    def loss(self, batch: Any, scale: float) -> dict[str, Any]:
        """Add the gradients of a batch, times the scale, to the weights' gradients. It returns the unscaled `loss`, the
        number of the method's `unit`, and other metrics to log, as JSON data. A NotFiniteError prevents the step.
        """

    def build(self) -> Model:
        """Make the model, after the data are loaded, and all that the steps need."""
        return Model(copy_transformer(self.base.source, self.settings.batch.dropout))

    def batches(self, start: int) -> Iterator[Any]:
        """Iterate over the batches of the steps, which depend only on the seed and the step. A resumed run skips the
        first `start` steps. By default a batch is the number of its step, and `loss` draws the data.
        """
        return count(start)

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Make the optimizer. The `rate` of a group of parameters multiplies the learning rate."""
        how = self.settings.optimizer
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        return torch.optim.AdamW(trained, lr=how.learning_rate, weight_decay=how.weight_decay)

    def state(self) -> dict[str, Any]:
        """Return the method's state for a checkpoint, in addition to weights and optimizer: JSON data and tensors."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned from a checkpoint."""

    @classmethod
    def rebuild(cls, weights: Weights, base: EncoderShim, settings: Any) -> torch.nn.Module:
        """Make the transformer to export, of the parameters of the model's transformer by name."""
        return load_weights(copy_transformer(base.source), weights)

    @classmethod
    def to_encoder(
        cls, weights: Weights, base: EncoderShim, settings: Any, base_share: float = 0.0, dtype: str = ""
    ) -> EncoderShim:
        """Make the encoder to measure or to export. The type of its weights is one of `dtypes`, empty for the first. It
        raises a FloatingPointError if a weight is infinite or NaN, and a ValueError if the base has no such weights to
        average with.
        """
        transformer = cls.rebuild(weights, base, settings)
        return finish_encoder(transformer, base, base_share=base_share, dtype=dtype or cls.dtypes[0])

    def finish(self, trained: EncoderShim, ending: Ending) -> dict[str, Any]:
        """Write files beside the encoder folder, and return the method's entries of the report, in addition to steps,
        time and speed, as JSON data.
        """
        return {}

    @cached_property
    def gradient(self) -> ChunkedGradient:
        """The gradient computation in chunks, for the model's transformer."""
        return ChunkedGradient(
            self.model.transformer,
            self.base.settings,
            self.accelerator,
            pad_id=self.base.source.tokenizer.pad_token_id or 0,
            chunk_names=self.settings.batch.chunk_names,
            gradient_cache=self.settings.batch.gradient_cache,
            autocast=find_autocast(self.settings.run.precision, self.accelerator.device),
        )

    def make_tokens(self, names: pl.Series, encoder: EncoderShim) -> TokenLists:
        """Tokenise names: one process of a launch does, and all map the tokens from the folder of the run."""
        with self.accelerator.main_process_first():
            return tokenise_once(names, encoder, self.folder.path / TOKENS_FOLDER)

    def take_snapshot(self) -> EncoderShim:
        """Make an encoder of the current weights, to measure it or to search with it."""
        return self.to_encoder(dict(self.model.transformer.named_parameters()), self.base, self.settings)


def copy_transformer(source: EncoderSource, dropout: float | None = None) -> torch.nn.Module:
    """Copy an encoder's transformer, in single precision and ready to train. `dropout` overrides the encoder's."""
    transformer = copy.deepcopy(source.transformer).float().requires_grad_(True)
    if dropout is not None:
        for module in transformer.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
    return transformer.train()


def find_method(values: Mapping[str, Any], where: str | Path) -> type[Method[Any]]:
    """Find the method that settings name. `where` says where they are from, for messages."""
    run = values.get("run")
    name = run.get("method") if isinstance(run, Mapping) else None
    names = ", ".join(sorted(METHODS))
    if name is None:
        raise ValueError(f'{where} names no method. Add the line `method = "..."` below [run], with one of {names}.')
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"The setting run.method of {where} is {name!r}, but has to be one of {names}.")
    return METHODS[name]


def make_settings(values: Mapping[str, Any], where: str | Path = "the settings") -> Any:
    """Make the settings of a run by section, of the method that [run] names. `where` says where they are from."""
    return find_method(values, where).Settings.read(values, str(where))


def read_settings(path: str | Path, overrides: dict[str, Any] | None = None) -> Any:
    """Read the config of a run: the settings of its method, checked. `overrides` are values by "section.name"."""
    return make_settings(read_config(path, overrides), path)
