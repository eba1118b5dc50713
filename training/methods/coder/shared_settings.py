"""Settings that all trainings of the CODER family have, and what values of them have a meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, get_args

from ...engine.settings import MixedPrecision, OptimizerSettings, RunSettings, Schedule
from ...errors import Errors

# Name and value of a setting, whether it is right, and what is.
Check = tuple[str, Any, bool, str]


@dataclass(frozen=True)
class NameData:
    """Which names are learned from.

    languages (str): LAT of the names, with commas between them; or "all".
    lower_case (bool): Lower-case names.
    """

    languages: str = "ENG"
    lower_case: bool = True


@dataclass(frozen=True)
class SimilarityConstants:
    """Constants of a Multi-Similarity loss and its miner (Yuan et al., JBI 2022, section 3). None: see `resolve`.

    alpha (Optional[float]): Of positive pairs.
    beta (Optional[float]): Of negative pairs.
    base (Optional[float]): The similarity that is neither good nor bad: lambda.
    margin (Optional[float]): The miner's: epsilon. Of "transe_margin": how much farther the random concept has to be.
    """

    alpha: float | None = None
    beta: float | None = None
    base: float | None = None
    margin: float | None = None


@dataclass(frozen=True)
class LinearOptimizer(OptimizerSettings):
    """How weights are changed: AdamW. As in the released code, biases and layer normalisation do not decay.

    schedule (str): As the paper: up to the rate, then down to 0. Both count updates of the weights, not batches.
    """

    schedule: Schedule = "linear"


@dataclass(frozen=True)
class UpdateBatch:
    """What an update sees, and when updates end.

    accumulation (int): Batches, each with a loss of its own, in one update of the weights.
    max_steps (int): Updates; 0 for no end but that of `max_minutes`.
    max_minutes (float): Stop after so many minutes of training; 0 for no limit.
    chunk_names (int): See `BatchSettings`, as for the next ones.
    gradient_cache (bool): Compute chunks twice instead of keeping them.
    dropout (Optional[float]): In place of the encoder's own.
    """

    accumulation: int = 8
    max_steps: int = 100_000
    max_minutes: float = 0.0
    chunk_names: int = 64
    gradient_cache: bool = False
    dropout: float | None = None


class FamilySettings:
    """What the settings of a run have beside their sections."""

    data: NameData
    optimizer: LinearOptimizer

    @property
    def languages(self) -> list[str] | None:
        """Split the list of languages.

        RETURNS (Optional[List[str]]): LAT; None for all.
        """
        found = self.data.languages.replace(",", " ").split()
        return None if found == ["all"] else found

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data.

        RETURNS (dict): Section to settings.
        """
        return asdict(self)  # type: ignore[call-overload]  # what is made of it is a dataclass

    def decisive(self) -> dict[str, Any]:
        """Return what decides the course of the training, so what a checkpoint has to agree with.

        RETURNS (dict): Section to settings, without paths, lengths of the run and what is done beside training.
        """
        data = self.to_dict()
        del data["paths"], data["batch"]["max_minutes"], data["batch"]["gradient_cache"]
        data["run"] = {name: data["run"][name] for name in ("seed", "precision")}
        if self.optimizer.schedule == "constant":
            del data["batch"]["max_steps"]
        return data


def check_optimizer(optimizer: OptimizerSettings) -> Iterator[Check]:
    """Say of each setting of an optimiser whether it has a meaning.

    optimizer (OptimizerSettings): The settings.
    YIELDS (Check): Name, value, whether it is right, and what is.
    """
    schedules = get_args(Schedule)
    yield "optimizer.learning_rate", optimizer.learning_rate, optimizer.learning_rate > 0, "more than 0"
    yield "optimizer.weight_decay", optimizer.weight_decay, optimizer.weight_decay >= 0, "0 or more"
    yield "optimizer.schedule", optimizer.schedule, optimizer.schedule in schedules, f"one of {', '.join(schedules)}"
    yield "optimizer.warmup_steps", optimizer.warmup_steps, optimizer.warmup_steps >= 0, "0 or more"
    yield "optimizer.max_grad_norm", optimizer.max_grad_norm, optimizer.max_grad_norm >= 0, "0 or more"


def check_batch(batch: UpdateBatch, schedule: str) -> Iterator[Check]:
    """Say of the settings that all batches share whether they have a meaning.

    batch (UpdateBatch): The settings.
    schedule (str): Of the learning rate.
    YIELDS (Check): As for `check_optimizer`.
    """
    yield "batch.accumulation", batch.accumulation, batch.accumulation >= 1, "1 or more"
    yield "batch.max_minutes", batch.max_minutes, batch.max_minutes >= 0, "0 or more"
    needs_steps = schedule == "linear" or not batch.max_minutes
    least, why = (
        (1, "1 or more, unless the schedule is constant and max_minutes set") if needs_steps else (0, "0 or more")
    )
    yield "batch.max_steps", batch.max_steps, batch.max_steps >= least, why
    yield "batch.chunk_names", batch.chunk_names, batch.chunk_names >= 1, "1 or more"
    yield "batch.dropout", batch.dropout, 0.0 <= (batch.dropout or 0.0) < 1.0, "null, or 0 or more and less than 1"


def check_run(run: RunSettings, *, can_evaluate: bool) -> Iterator[Check]:
    """Say of each setting of a run whether it has a meaning.

    run (RunSettings): The settings.
    can_evaluate (bool): Whether there are held-out names.
    YIELDS (Check): As for `check_optimizer`.
    """
    precisions = get_args(MixedPrecision)
    yield "run.seed", run.seed, run.seed >= 0, "0 or more"
    yield "run.precision", run.precision, run.precision in precisions, f"one of {', '.join(precisions)}"
    yield "run.checkpoint_steps", run.checkpoint_steps, run.checkpoint_steps >= 1, "1 or more"
    yield "run.evaluation_steps", run.evaluation_steps, run.evaluation_steps >= 0, "0 or more"
    yield "run.base_share", run.base_share, 0.0 <= run.base_share < 1.0, "0 or more and less than 1"
    is_stoppable = run.patience == 0 or (run.patience > 0 and run.evaluation_steps and can_evaluate)
    yield "run.patience", run.patience, bool(is_stoppable), "0 without run.evaluation_steps and paths.held_out"


def check_similarities(section: str, constants: SimilarityConstants) -> Iterator[Check]:
    """Say of the constants of a loss whether they have a meaning.

    section (str): The name of their section.
    constants (SimilarityConstants): The constants.
    YIELDS (Check): As for `check_optimizer`.
    """
    for name in ("alpha", "beta"):
        value = getattr(constants, name)
        yield f"{section}.{name}", value, value is None or value > 0, "null, or more than 0"
    yield f"{section}.margin", constants.margin, (constants.margin or 0.0) >= 0, "null, or 0 or more"


def refuse(checks: Iterable[Check]) -> None:
    """Refuse the first setting without a meaning.

    checks (Iterable[Check]): As `check_optimizer` gives them.
    RAISES (ValueError): Naming the setting, its value and what is allowed.
    """
    for name, value, is_valid, allowed in checks:
        if not is_valid:
            raise ValueError(Errors.E624.format(name=name, value=value, allowed=allowed))
