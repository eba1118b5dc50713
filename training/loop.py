"""The training loop: steps, metrics, checkpoints, evaluation, and a clean end whatever ends it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from tqdm import tqdm

from spacy_sapbert.errors import Errors

from .batches import Batches
from .checkpoint import list_checkpoints, load_checkpoint, save_checkpoint
from .data import PairData, Tokens
from .interruption import watch_signals
from .runs import DESCRIPTION_FILE, write_json
from .settings import OptimizerSettings, TrainingSettings
from .step import GradientStep, StepResult
from .tensorboard import Board

METRICS_FILE = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
FAILED_BATCH = "failed_batch.json"
# Why a run takes no more steps, in the order in which one reason goes before another.
REASONS = ("interrupted", "max_minutes", "patience", "max_steps")


class Ending(NamedTuple):
    """How a run ended.

    step (int): Steps taken.
    reason (str): "finished", "max_steps", "max_minutes", "patience" or "interrupted".
    seconds (float): Time spent in steps, over all runs that were needed.
    """

    step: int
    reason: str
    seconds: float


class TrainingLoop:
    """Run the steps of one training.

    settings (TrainingSettings): All settings.
    transformer (Module): The model, on its device and in training mode.
    data (PairData): The pairs.
    tokens (Tokens): Of the pairs' names.
    batches (Batches): Which pairs each step sees.
    gradient_step (GradientStep): Computes gradients.
    accelerator (Accelerator): Devices.
    base (str): The fingerprint of the encoder that training starts from.
    evaluate (Optional[Callable]): Measures the present weights; higher `acc_at_1` is better.
    description (Optional[dict]): What is known of the run before it starts, to be left in its folder.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        transformer: torch.nn.Module,
        data: PairData,
        tokens: Tokens,
        batches: Batches,
        gradient_step: GradientStep,
        accelerator: Accelerator,
        base: str,
        evaluate: Callable[[], dict[str, Any]] | None = None,
        description: dict[str, Any] | None = None,
    ) -> None:
        self.settings = settings
        self.transformer = transformer
        self.data = data
        self.tokens = tokens
        self.batches = batches
        self.gradient_step = gradient_step
        self.accelerator = accelerator
        self.base = base
        self.evaluate = evaluate
        self.description = description
        self.output = Path(settings.paths.output)
        self.optimizer = torch.optim.AdamW(
            [parameter for parameter in transformer.parameters() if parameter.requires_grad],
            lr=settings.optimizer.learning_rate,
            weight_decay=settings.optimizer.weight_decay,
        )
        self.scaler = torch.amp.GradScaler(accelerator.device.type, enabled=settings.run.precision == "fp16")
        self.n_steps = self._count_steps()
        self.step = 0
        self.seconds = 0.0
        self.best = -math.inf
        self.evaluations_without_gain = 0
        self.board: Board | None = None

    def run(self) -> Ending:
        """Take all steps, from the last checkpoint on if there is one.

        RETURNS (Ending): How it ended. Interrupted by Ctrl-C, it has saved a checkpoint.
        RAISES (FloatingPointError): If the loss is not a number; the batch is saved for inspection.
        RAISES (ValueError): If the last checkpoint is of a run with other settings, or of a step after the last.
        """
        self._resume()
        reason = self._find_end() or "finished"
        bar = tqdm(total=self.n_steps, initial=self.step, desc="Training", unit="step", disable=None)
        with bar as progress, watch_signals() as interruption, self._open_board() as self.board:
            if self.evaluate and self.settings.run.evaluation_steps and self.step == 0:
                self._evaluate()
            for rows in self.batches.iterate(self.step):
                end = self._agree(self._find_end() or ("interrupted" if interruption.is_wanted else None))
                if end:
                    reason = end
                    break
                loss = self.take_step(rows)
                progress.update()
                progress.set_postfix(loss=f"{loss:.4f}", pairs=f"{self._pairs_per_second():.0f}/s", refresh=False)
                self._after_step()
            self._save()
        return Ending(self.step, reason, self.seconds)

    def take_step(self, rows: np.ndarray) -> float:
        """Take one step, and log it.

        rows (ndarray): The pairs of the batch.
        RETURNS (float): The loss.
        RAISES (FloatingPointError): If it is not a number; the batch is saved for inspection.
        """
        start = time.perf_counter()
        data = self.data
        names = np.concatenate([data.left[rows], data.right[rows]])
        labels = np.concatenate([data.labels[rows], data.labels[rows]])
        rate = learning_rate(self.settings.optimizer, self.step, self.n_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        result = self.gradient_step(
            [self.tokens[name] for name in names.tolist()],
            labels,
            names if self.settings.objective.ignore_homonyms else None,
            # The scaler sets itself up when it is first used on a tensor.
            scale=float(self.scaler.scale(torch.ones((), device=self.accelerator.device))),
        )
        if not math.isfinite(result.loss):
            self._refuse(result, names, labels)
        self.scaler.unscale_(self.optimizer)
        if self.settings.optimizer.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self.transformer.parameters(), self.settings.optimizer.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        seconds = time.perf_counter() - start
        self.seconds += seconds
        entry = {"step": self.step, "loss": result.loss, "pairs": len(rows), "positives": result.positives}
        self._log({**entry, "negatives": result.negatives, "learning_rate": rate, "seconds": round(seconds, 4)})
        return result.loss

    def _find_end(self) -> str | None:
        """Return the reason to take no more steps. Asked before each, so that a run that has ended stays as it is."""
        run, batch = self.settings.run, self.settings.batch
        if batch.max_steps and self.step >= batch.max_steps:
            return "max_steps"
        if run.patience and self.evaluations_without_gain >= run.patience:
            return "patience"
        if batch.max_minutes and self.seconds >= 60.0 * batch.max_minutes:
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
        run = self.settings.run
        if self.evaluate and run.evaluation_steps and self.step % run.evaluation_steps == 0:
            self._evaluate()
        if self.step % run.checkpoint_steps == 0:
            self._save()

    def _evaluate(self) -> None:
        assert self.evaluate is not None
        # Evaluation must not change the course of the training.
        with torch.random.fork_rng([self.accelerator.device] if self.accelerator.device.type == "cuda" else []):
            scores = self.evaluate()
        self.transformer.train()
        self._log({"step": self.step, "evaluation": scores})
        if scores["acc_at_1"] > self.best:
            self.best, self.evaluations_without_gain = scores["acc_at_1"], 0
        else:
            self.evaluations_without_gain += 1

    def _pairs_per_second(self) -> float:
        return self.step * self.settings.batch.pairs / max(self.seconds, 1e-9)

    def _count_steps(self) -> int:
        steps, limit = self.batches.epochs * self.batches.per_epoch, self.settings.batch.max_steps
        return min(steps, limit) if limit else steps

    def _refuse(self, result: StepResult, names: np.ndarray, labels: np.ndarray) -> None:
        path = self.output / FAILED_BATCH
        batch = {"step": self.step + 1, "loss": str(result.loss), "names": self.data.names.gather(names).to_list()}
        path.write_text(json.dumps({**batch, "labels": labels.tolist()}, ensure_ascii=False), encoding="utf8")
        raise FloatingPointError(Errors.E633.format(step=self.step + 1, loss=result.loss, path=path))

    def _log(self, entry: dict[str, Any]) -> None:
        if self.accelerator.is_main_process:
            with (self.output / METRICS_FILE).open("a", encoding="utf8") as file:
                file.write(json.dumps(entry) + "\n")
        if self.board is not None:
            self.board.write(entry)

    def _open_board(self) -> AbstractContextManager[Board | None]:
        is_wanted = self.settings.run.tensorboard and self.accelerator.is_main_process
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
            "settings": self._decisive(),
        }
        save_checkpoint(self.output / CHECKPOINTS, self.transformer, self.optimizer, data)

    def _resume(self) -> None:
        """Go on from the last checkpoint, and forget the metrics of steps after it."""
        self.output.mkdir(parents=True, exist_ok=True)
        checkpoints = list_checkpoints(self.output / CHECKPOINTS)
        if checkpoints:
            data = load_checkpoint(checkpoints[-1], self.transformer, self.optimizer, self._decisive())
            self.step, self.seconds = data["step"], data["seconds"]
            self.best = -math.inf if data["best"] is None else data["best"]
            self.evaluations_without_gain = data["evaluations_without_gain"]
            self.scaler.load_state_dict(data["scaler"])
            if self.step > self.n_steps:
                raise ValueError(Errors.E743.format(path=self.output, step=self.step, wanted=self.n_steps))
        path = self.output / METRICS_FILE
        if path.exists() and self.accelerator.is_main_process:
            lines = path.read_text(encoding="utf8").splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= self.step]
            path.write_text("".join(kept) if checkpoints else "", encoding="utf8")
        # Not before: the settings may be refused.
        if self.description is not None and self.accelerator.is_main_process:
            write_json(self.output / DESCRIPTION_FILE, self.description)
        self.accelerator.wait_for_everyone()

    def _decisive(self) -> dict[str, Any]:
        return {**self.settings.decisive(), "data": {"sha256": self.data.sha256}, "base": {"fingerprint": self.base}}


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


def read_metrics(output: str | Path) -> list[dict[str, Any]]:
    """Read what a run has logged.

    output (str | Path): The run's folder.
    RETURNS (List[dict]): One entry for each step or evaluation.
    """
    lines = (Path(output) / METRICS_FILE).read_text(encoding="utf8").splitlines(keepends=True)
    # The last line of a run that goes on, or was killed, may not be complete.
    return [json.loads(line) for line in lines if line.endswith("\n")]
