"""Steps, metrics, checkpoints, evaluation, and a clean end whatever ends it: what all trainings by steps share."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch
from accelerate import Accelerator
from tqdm import tqdm

from ..data.run_folder import DESCRIPTION_FILE, write_json
from ..errors import Errors
from .checkpoint import list_checkpoints, load_checkpoint, save_checkpoint
from .interruption import Interruption, StepInterrupted, watch_signals
from .metrics import METRICS_FILE, forget_metrics
from .settings import OptimizerSettings, RunSettings
from .tensorboard import Board

CHECKPOINTS = "checkpoints"
FAILED_BATCH = "failed_batch.json"
# Why a run takes no more steps, in the order in which one reason goes before another.
REASONS = ("interrupted", "max_minutes", "patience", "max_steps")

Batch = TypeVar("Batch")


class Ending(NamedTuple):
    """How a run ended.

    step (int): Steps taken.
    reason (str): "finished", "max_steps", "max_minutes", "patience" or "interrupted".
    seconds (float): Time spent in steps, over all runs that were needed.
    """

    step: int
    reason: str
    seconds: float


class StepLimits(Protocol):
    """When a run ends."""

    @property
    def max_steps(self) -> int:
        """Stop after so many steps; 0 for all."""

    @property
    def max_minutes(self) -> float:
        """Stop after so many minutes of training; 0 for no limit."""


class StepLoop(ABC, Generic[Batch]):
    """Run the steps of one training. What a step sees and learns is up to the classes made of this one.

    model (Module): What is trained and saved, on its device and in training mode.
    parameters (Iterable): Parameters, or groups of them as `AdamW` takes them; a group's `rate` is what its learning
        rate is multiplied with.
    output (Path): The run's folder.
    optimizer (OptimizerSettings): How weights are changed.
    limits (StepLimits): When it ends.
    run (RunSettings): How it goes.
    n_steps (Optional[int]): Steps of the whole run; None if only time ends it.
    accelerator (Accelerator): Devices.
    evaluate (Optional[Callable]): Measures the present weights; higher `acc_at_1` is better.
    description (Optional[dict]): What is known of the run before it starts, to be left in its folder.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        parameters: Iterable[Any],
        *,
        output: Path,
        optimizer: OptimizerSettings,
        limits: StepLimits,
        run: RunSettings,
        n_steps: int | None,
        accelerator: Accelerator,
        evaluate: Callable[[], dict[str, Any]] | None = None,
        description: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.output = output
        self.rates = optimizer
        self.limits = limits
        self.how = run
        self.n_steps = n_steps
        self.accelerator = accelerator
        self.evaluate = evaluate
        self.description = description
        self.optimizer = torch.optim.AdamW(parameters, lr=optimizer.learning_rate, weight_decay=optimizer.weight_decay)
        self.scaler = torch.amp.GradScaler(accelerator.device.type, enabled=run.precision == "fp16")
        self.step = 0
        self.seconds = 0.0
        self.best = -math.inf
        self.evaluations_without_gain = 0
        self.board: Board | None = None
        self.interruption = Interruption()

    @abstractmethod
    def iterate(self, start: int) -> Iterator[Batch]:
        """Iterate over what the steps see.

        start (int): Steps to pass over, for a run that goes on.
        YIELDS (Any): What a step sees.
        """

    @abstractmethod
    def compute_gradients(self, batch: Batch, scale: float) -> dict[str, Any]:
        """Add a step's gradients to those of the weights.

        batch (Any): What the step sees.
        scale (float): What to multiply gradients with.
        RETURNS (dict): `loss`, and what else is to be logged; JSON.
        """

    @abstractmethod
    def describe_batch(self, batch: Batch) -> dict[str, Any]:
        """Describe a batch whose loss is not a number.

        batch (Any): What the step has seen.
        RETURNS (dict): JSON data.
        """

    @abstractmethod
    def decisive(self) -> dict[str, Any]:
        """Return what a checkpoint has to agree with for the run to go on.

        RETURNS (dict): Section to settings; JSON.
        """

    @abstractmethod
    def describe_speed(self) -> dict[str, str]:
        """Say how fast it goes.

        RETURNS (Dict[str, str]): For the progress bar.
        """

    def run(self) -> Ending:
        """Take all steps, from the last checkpoint on if there is one.

        RETURNS (Ending): How it ended. Interrupted by Ctrl-C, it has saved a checkpoint.
        RAISES (FloatingPointError): If the loss is not a number; the batch is saved for inspection.
        RAISES (ValueError): If the last checkpoint is of a run with other settings, or of a step after the last.
        """
        self._resume()
        reason = self._find_end() or "finished"
        bar = tqdm(total=self.n_steps, initial=self.step, desc="Training", unit="step", disable=None)
        with bar as progress, watch_signals() as self.interruption, self._open_board() as self.board:
            if self.evaluate and self.how.evaluation_steps and self.step == 0:
                self._evaluate()
            for batch in self.iterate(self.step):
                end = self._agree(self._find_end() or ("interrupted" if self.interruption.is_wanted else None))
                if end:
                    reason = end
                    break
                try:
                    loss = self.take_step(batch)
                except StepInterrupted:
                    reason = "interrupted"
                    break
                progress.update()
                progress.set_postfix(loss=f"{loss:.4f}", **self.describe_speed(), refresh=False)
                self._after_step()
            self._save()
        return Ending(self.step, reason, self.seconds)

    def take_step(self, batch: Batch) -> float:
        """Take one step, and log it.

        batch (Any): What it sees.
        RETURNS (float): The loss.
        RAISES (FloatingPointError): If it is not a number; the batch is saved for inspection.
        """
        start = time.perf_counter()
        rate = learning_rate(self.rates, self.step, self.n_steps or 0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("rate", 1.0)
        self.optimizer.zero_grad(set_to_none=True)
        # The scaler sets itself up when it is first used on a tensor.
        scale = float(self.scaler.scale(torch.ones((), device=self.accelerator.device)))
        entry = self.compute_gradients(batch, scale)
        if not math.isfinite(entry["loss"]):
            self._refuse(batch, entry["loss"])
        self.scaler.unscale_(self.optimizer)
        if self.rates.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.rates.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        seconds = time.perf_counter() - start
        self.seconds += seconds
        self._log({"step": self.step, **entry, "learning_rate": rate, "seconds": round(seconds, 4)})
        return entry["loss"]

    def _find_end(self) -> str | None:
        """Return the reason to take no more steps. Asked before each, so that a run that has ended stays as it is."""
        run, limits = self.how, self.limits
        if limits.max_steps and self.step >= limits.max_steps:
            return "max_steps"
        if run.patience and self.evaluations_without_gain >= run.patience:
            return "patience"
        if limits.max_minutes and self.seconds >= 60.0 * limits.max_minutes:
            return "max_minutes"
        return None

    def _agree(self, reason: str | None) -> str | None:
        """End all processes at the same step: their clocks differ, and so does when a signal reaches them. One that
        went on alone would wait for the others for ever.
        """
        if self.accelerator.num_processes == 1:
            return reason
        own = torch.tensor([REASONS.index(reason) + 1 if reason else 0], device=self.accelerator.device)
        agreed = int(self.accelerator.gather(own).max())
        return REASONS[agreed - 1] if agreed else None

    def _after_step(self) -> None:
        """Evaluate and save where it is time to."""
        run = self.how
        if self.evaluate and run.evaluation_steps and self.step % run.evaluation_steps == 0:
            self._evaluate()
        if self.step % run.checkpoint_steps == 0:
            self._save()

    def _refuse(self, batch: Batch, loss: float) -> None:
        path = self.output / FAILED_BATCH
        data = {"step": self.step + 1, "loss": str(loss), **self.describe_batch(batch)}
        path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf8")
        raise FloatingPointError(Errors.E633.format(step=self.step + 1, loss=loss, path=path))

    def _evaluate(self) -> None:
        assert self.evaluate is not None
        # Evaluation must not change the course of the training.
        with torch.random.fork_rng([self.accelerator.device] if self.accelerator.device.type == "cuda" else []):
            scores = self.evaluate()
        self.model.train()
        self._log({"step": self.step, "evaluation": scores})
        if scores["acc_at_1"] > self.best:
            self.best, self.evaluations_without_gain = scores["acc_at_1"], 0
        else:
            self.evaluations_without_gain += 1

    def _log(self, entry: dict[str, Any]) -> None:
        if self.accelerator.is_main_process:
            with (self.output / METRICS_FILE).open("a", encoding="utf8") as file:
                file.write(json.dumps(entry) + "\n")
        if self.board is not None:
            self.board.write(entry)

    def _open_board(self) -> AbstractContextManager[Board | None]:
        is_wanted = self.how.tensorboard and self.accelerator.is_main_process
        return Board(self.output, self.step) if is_wanted else nullcontext()

    def _save(self) -> None:
        if not self.accelerator.is_main_process:
            return
        if self.board is not None:
            self.board.flush()
        data = {
            "step": self.step,
            "seconds": self.seconds,
            "best": self.best if math.isfinite(self.best) else None,
            "evaluations_without_gain": self.evaluations_without_gain,
            "scaler": self.scaler.state_dict(),
            "settings": self.decisive(),
        }
        save_checkpoint(self.output / CHECKPOINTS, self.model, self.optimizer, data)

    def _resume(self) -> None:
        """Go on from the last checkpoint, and forget the metrics of steps after it."""
        self.output.mkdir(parents=True, exist_ok=True)
        checkpoints = list_checkpoints(self.output / CHECKPOINTS)
        if checkpoints:
            data = load_checkpoint(checkpoints[-1], self.model, self.optimizer, self.decisive())
            self.step, self.seconds = data["step"], data["seconds"]
            self.best = -math.inf if data["best"] is None else data["best"]
            self.evaluations_without_gain = data["evaluations_without_gain"]
            self.scaler.load_state_dict(data["scaler"])
            if self.n_steps is not None and self.step > self.n_steps:
                raise ValueError(Errors.E743.format(path=self.output, step=self.step, wanted=self.n_steps))
        if self.accelerator.is_main_process:
            forget_metrics(self.output, self.step if checkpoints else None)
        # Not before: the settings may be refused.
        if self.description is not None and self.accelerator.is_main_process:
            write_json(self.output / DESCRIPTION_FILE, self.description)
        self.accelerator.wait_for_everyone()


def learning_rate(settings: OptimizerSettings, step: int, n_steps: int) -> float:
    """Compute the learning rate of a step.

    settings (OptimizerSettings): Schedule and warm-up, counted in steps of the optimiser.
    step (int): The step, from 0.
    n_steps (int): Steps of the whole run.
    RETURNS (float): The learning rate.
    """
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * (n_steps - step) / max(1, n_steps - settings.warmup_steps)
