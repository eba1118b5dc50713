"""The settings of BioSyn, read from a config file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from spacy_sapbert.types import Precision

from ...engine.settings import EncoderChoice, check_types, read_config
from ...errors import Errors


@dataclass(frozen=True)
class BioSynPaths:
    """Where things are.

    encoder (str): The encoder to start from; see `PathSettings`.
    mentions (str): Files of mentions to train on, with commas between them: those of training and development parts.
    dictionary (str): The file of ids and names, without mentions.
    output (str): Where the run writes.
    """

    encoder: str
    mentions: str
    dictionary: str
    output: str


@dataclass(frozen=True)
class CandidateSettings:
    """Which names a mention is compared with in training.

    total (int): Names for each mention.
    sparse (int): So many of them by shared characters; the others by vectors.
    """

    total: int = 20
    sparse: int = 10


@dataclass(frozen=True)
class BioSynOptimizer:
    """How weights are changed: Adam, with the decay in the gradient.

    learning_rate (float): Of the encoder.
    weight_decay (float): Of the encoder.
    sparse_learning_rate (float): Of the weight of sparse products, which does not decay.
    """

    learning_rate: float = 1e-5
    weight_decay: float = 0.01
    sparse_learning_rate: float = 0.01


@dataclass(frozen=True)
class BioSynBatch:
    """What a step sees.

    mentions (int): Mentions in a step.
    epochs (int): Passes over all mentions, each with new candidates.
    max_minutes (float): Stop after so many minutes of training; 0 for no limit.
    chunk_names (int): Strings in one forward pass, sorted by length.
    """

    mentions: int = 16
    epochs: int = 10
    max_minutes: float = 0.0
    chunk_names: int = 64


@dataclass(frozen=True)
class BioSynRun:
    """How the run goes.

    seed (int): Of shuffling and dropout.
    precision (str): "fp32", "bf16", or "auto": bf16 where the processor computes in it. Scores, loss and weights stay
        in single precision.
    """

    seed: int = 0
    precision: str = "auto"


@dataclass(frozen=True)
class BioSynSettings:
    """All settings of a run, one section each."""

    paths: BioSynPaths
    encoder: EncoderChoice = field(default_factory=lambda: EncoderChoice(pooling="cls"))
    candidates: CandidateSettings = field(default_factory=CandidateSettings)
    optimizer: BioSynOptimizer = field(default_factory=BioSynOptimizer)
    batch: BioSynBatch = field(default_factory=BioSynBatch)
    run: BioSynRun = field(default_factory=BioSynRun)

    @property
    def mention_files(self) -> list[str]:
        """Split the list of files.

        RETURNS (List[str]): The files of mentions.
        """
        return [file.strip() for file in self.paths.mentions.split(",") if file.strip()]

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data.

        RETURNS (dict): Section to settings.
        """
        return asdict(self)

    def decisive(self) -> dict[str, Any]:
        """Return what decides the course of the training, so what a checkpoint has to agree with.

        RETURNS (dict): Section to settings, without paths and lengths of the run.
        """
        data = self.to_dict()
        del data["paths"], data["batch"]["epochs"], data["batch"]["max_minutes"]
        return data


SECTIONS: dict[str, type] = {
    "paths": BioSynPaths,
    "encoder": EncoderChoice,
    "candidates": CandidateSettings,
    "optimizer": BioSynOptimizer,
    "batch": BioSynBatch,
    "run": BioSynRun,
}


def read_biosyn_settings(path: str | Path, overrides: dict[str, Any] | None = None) -> BioSynSettings:
    """Read a config file.

    path (str | Path): A file in the form of spaCy's configs.
    overrides (Optional[dict]): Values to use instead, by "section.name".
    RETURNS (BioSynSettings): The settings, checked.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If a setting is unknown or has no meaning.
    """
    return make_biosyn_settings(read_config(path, overrides))


def make_biosyn_settings(values: dict[str, dict[str, Any]]) -> BioSynSettings:
    """Make settings of plain data.

    values (dict): Section to settings. A section that is not there has BioSyn's own.
    RETURNS (BioSynSettings): The settings, checked.
    RAISES (ValueError): If a setting is unknown, missing or has no meaning.
    """
    unknown_sections = sorted(set(values) - set(SECTIONS))
    if unknown_sections:
        raise ValueError(Errors.E680.format(names=", ".join(unknown_sections), allowed=", ".join(SECTIONS)))
    made: dict[str, Any] = {}
    for name, given in {"paths": {}, **values}.items():
        known = [setting.name for setting in fields(SECTIONS[name])]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(Errors.E622.format(section=name, names=", ".join(unknown), allowed=", ".join(known)))
        try:
            made[name] = SECTIONS[name](**given)
        except TypeError as error:
            raise ValueError(Errors.E623.format(section=name, reason=error)) from error
        check_types(name, made[name])
    settings = BioSynSettings(**made)
    _check(settings)
    return settings


def _check(settings: BioSynSettings) -> None:
    candidates, optimizer, batch, run = settings.candidates, settings.optimizer, settings.batch, settings.run
    precisions = get_args(Precision)
    checks = (
        ("paths.mentions", settings.paths.mentions, bool(settings.mention_files), "files, with commas between them"),
        ("candidates.total", candidates.total, candidates.total >= 2, "2 or more"),
        ("candidates.sparse", candidates.sparse, 0 <= candidates.sparse <= candidates.total, "0 to candidates.total"),
        ("optimizer.learning_rate", optimizer.learning_rate, optimizer.learning_rate > 0, "more than 0"),
        ("optimizer.weight_decay", optimizer.weight_decay, optimizer.weight_decay >= 0, "0 or more"),
        (
            "optimizer.sparse_learning_rate",
            optimizer.sparse_learning_rate,
            optimizer.sparse_learning_rate >= 0,
            "0 or more",
        ),
        ("batch.mentions", batch.mentions, batch.mentions >= 1, "1 or more"),
        ("batch.epochs", batch.epochs, batch.epochs >= 1, "1 or more"),
        ("batch.max_minutes", batch.max_minutes, batch.max_minutes >= 0, "0 or more"),
        ("batch.chunk_names", batch.chunk_names, batch.chunk_names >= 1, "1 or more"),
        ("run.seed", run.seed, run.seed >= 0, "0 or more"),
        ("run.precision", run.precision, run.precision in precisions, f"one of {', '.join(precisions)}"),
    )
    for name, value, is_valid, allowed in checks:
        if not is_valid:
            raise ValueError(Errors.E624.format(name=name, value=value, allowed=allowed))
