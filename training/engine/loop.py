"""The training loop of all methods: steps, metrics, evaluation, checkpoints and interruption."""

from __future__ import annotations

import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from spacy_sapbert.progress import say, show_progress

from ..data.run_folder import RunDescription, write_json
from .checkpoints import (
    choose_checkpoint,
    gather_random_states,
    list_checkpoints,
    load_checkpoint,
    restore_random_states,
    save_checkpoint,
    separate_processes,
)
from .gradient import NotFiniteError, check_finite, list_seeded_devices
from .method import Ending, Method
from .settings import OptimizerSettings, refuse

# Reasons to stop, in increasing precedence among processes.
REASONS = ("interrupted", "max_minutes", "max_steps", "finished")
# Steps after which a run on the CPU says what the others take.
TIMED_STEPS = 3


class TrainingLoop:
    """Run the training steps of a method, which has data and model. `evaluate` measures the current weights.
    The description is written to the run's folder before the first step.
    """

    def __init__(
        self,
        method: Method[Any],
        evaluate: Callable[[], dict[str, Any]] | None = None,
        description: RunDescription | None = None,
    ) -> None:
        self.method = method
        self.settings = method.settings
        self.accelerator = method.accelerator
        self.folder = method.folder
        self.evaluate = evaluate
        self.description = description
        self.optimizer = method.make_optimizer()
        is_half = method.settings.run.precision == "fp16"
        self.scaler = torch.amp.GradScaler(method.accelerator.device.type, enabled=is_half)
        self.n_steps = method.n_steps
        self.step = 0
        self.units = 0
        self.seconds = 0.0
        warmup = self.settings.optimizer.warmup_steps
        if self.n_steps is not None and warmup > self.n_steps:
            refuse("optimizer.warmup_steps", warmup, f"at most {self.n_steps}, the steps of the run")
        self.board: Any = None

    def run(self) -> Ending:
        """Run all steps, resuming from the last checkpoint if there is one. After Ctrl-C, a checkpoint is saved."""
        self._resume()
        reason = self._find_end() or "finished"
        bar = show_progress(description="Training", total=self.n_steps, unit="steps", initial=self.step)
        with bar as progress, watch_signals() as interruption, self._open_board() as self.board:
            if self.evaluate and self.settings.run.evaluation_steps and self.step == 0:
                self._evaluate()
            timed = self.step + TIMED_STEPS
            begin = time.process_time()
            for batch in self.method.batches(self.step):
                end = self._agree(self._find_end() or ("interrupted" if interruption.is_set() else None))
                if end:
                    reason = end
                    break
                loss = self.take_step(batch)
                speed = f"{self.units / max(self.seconds, 1e-9):.4g}/s"
                limit = self.settings.batch.max_minutes
                # The time left is for all steps, and training may have to end before.
                time_note = {"minutes": f"{self.seconds / 60:.1f} of at most {limit:g}"} if limit else {}
                progress.note(loss=f"{loss:.4f}", **{self.method.unit: speed}, **time_note)
                progress.update()
                if self.step == timed:
                    self._say_cost((time.process_time() - begin) / TIMED_STEPS)
                self._after_step()
            self._save()
        return Ending(self.step, reason, self.seconds, self.units)

    def _say_cost(self, seconds: float) -> None:
        """Say how long the CPU works on the steps that are left, which does not depend on what else it does."""
        is_cpu = self.accelerator.device.type == "cpu" and self.accelerator.is_main_process
        left = (self.n_steps or 0) - self.step
        if is_cpu and left > 0:
            say(f"The other {left:,} steps take about {left * seconds / 60:.1f} minutes of CPU time.")

    def take_step(self, batch: Any) -> float:
        """Run one step, log it, and return its loss. A step with numbers that are not finite is refused."""
        start = time.perf_counter()
        rate = learning_rate(self.settings.optimizer, self.step, self.n_steps or 0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("rate", 1.0)
        self.optimizer.zero_grad(set_to_none=True)
        # The scaler initialises itself on its first tensor.
        scale = float(self.scaler.scale(torch.ones((), device=self.accelerator.device)))
        try:
            entry = self.method.loss(batch, scale)
            check_finite("loss", [torch.tensor(entry["loss"])])
            self.scaler.unscale_(self.optimizer)
            self._check_gradients()
        except NotFiniteError as error:
            raise self._refuse(error.what, f"step {self.step + 1}") from error
        if self.settings.optimizer.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self.method.model.parameters(), self.settings.optimizer.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        self.units += entry.get(self.method.unit, 0)
        seconds = time.perf_counter() - start
        self.seconds += seconds
        self._log({"step": self.step, **entry, "learning_rate": rate, "seconds": round(seconds, 4)})
        return float(entry["loss"])

    def _check_gradients(self) -> None:
        # The scaler of half precision skips steps whose gradients overflow, and lowers its scale. Only gradients that
        # are not finite without any scale are refused.
        if not self.scaler.is_enabled() or self.scaler.get_scale() <= 1.0:
            gradients = (p.grad for p in self.method.model.parameters() if p.grad is not None)
            check_finite("gradients", gradients)

    def _find_end(self) -> str | None:
        """Return the reason to stop, if any. Checked before each step: resuming a finished run changes nothing."""
        batch = self.settings.batch
        if batch.max_steps and self.step >= batch.max_steps:
            return "max_steps"
        if batch.max_minutes and self.seconds >= 60.0 * batch.max_minutes:
            return "max_minutes"
        return "finished" if self.n_steps is not None and self.step >= self.n_steps else None

    def _agree(self, reason: str | None) -> str | None:
        """Stop all processes at the same step: clocks and the arrival of signals differ between them, and a process
        that continued alone would wait for the others forever.
        """
        if self.accelerator.num_processes == 1:
            return reason
        own = torch.tensor([REASONS.index(reason) + 1 if reason else 0], device=self.accelerator.device)
        agreed = int(self.accelerator.gather(own).max())
        return REASONS[agreed - 1] if agreed else None

    def _after_step(self) -> None:
        """Evaluate and save at their intervals."""
        run = self.settings.run
        if self.evaluate and run.evaluation_steps and self.step % run.evaluation_steps == 0:
            self._evaluate()
        if self.step % run.checkpoint_steps == 0:
            self._save()

    def _refuse(self, what: str, where: str) -> FloatingPointError:
        checkpoints = list_checkpoints(self.folder.checkpoints)
        last = str(checkpoints[-1]) if checkpoints else "none, because no step before was saved"
        return FloatingPointError(
            f"The {what} of {where} had infinite numbers or NaN, so the run was stopped before they reached its "
            "weights or checkpoints. The learning rate is probably too high, or half precision too coarse: train "
            "again in another output folder with a lower optimizer.learning_rate, a warm-up, optimizer.max_grad_norm "
            f"= 1.0 or run.precision = 'fp32'. The last good checkpoint: {last}."
        )

    def _evaluate(self) -> None:
        assert self.evaluate is not None
        # Evaluation must not change the training.
        with torch.random.fork_rng(list_seeded_devices(self.accelerator.device)):
            scores = self.evaluate()
        self.method.model.train()
        self._log({"step": self.step, "evaluation": scores})

    def _log(self, entry: dict[str, Any]) -> None:
        if self.accelerator.is_main_process:
            self.folder.log(entry)
        if self.board is not None:
            group = "held-out names" if "evaluation" in entry else "training"
            for name, value in entry.get("evaluation", entry).items():
                if isinstance(value, (int, float)):
                    self.board.add_scalar(f"{group}/{name}", value, entry["step"])

    def _open_board(self) -> AbstractContextManager[Any]:
        if not (self.settings.run.tensorboard and self.accelerator.is_main_process):
            return nullcontext()
        from torch.utils.tensorboard import SummaryWriter

        # Purged steps are repeated, as is an evaluation before the first step.
        return SummaryWriter(str(self.folder.tensorboard), purge_step=self.step + 1 if self.step else 0)

    def _decisive(self) -> dict[str, Any]:
        """Return the data that a checkpoint must have, too."""
        own = {"data.sha256": self.method.learned.sha256, "base.fingerprint": self.method.base.fingerprint}
        return {**self.settings.decisive(), **own}

    def _save(self) -> None:
        random = gather_random_states(self.accelerator)
        if not self.accelerator.is_main_process:
            return
        if self.board is not None:
            # Steps before a checkpoint are never repeated.
            self.board.flush()
        data = {
            "step": self.step,
            "seconds": self.seconds,
            "units": self.units,
            "scaler": self.scaler.state_dict(),
            "settings": self._decisive(),
        }
        folder = self.folder.checkpoints
        model = self.method.model
        state = self.method.state()
        try:
            save_checkpoint(folder, model, self.optimizer, data, state, random)
        except NotFiniteError as error:
            raise self._refuse(error.what, f"the checkpoint of step {self.step}") from error

    def _resume(self) -> None:
        """Resume from the newest complete checkpoint, and remove what was written after it."""
        self.folder.path.mkdir(parents=True, exist_ok=True)
        last, damaged = choose_checkpoint(self.folder.checkpoints)
        separate_processes(self.accelerator, self.settings.run.seed)
        if last is not None:
            self._load(last)
        # The others have read the checkpoints.
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            for path, error in damaged:
                warnings.warn(
                    f"The checkpoint {path} is damaged and was removed: {error} The run goes on from {last}.",
                    stacklevel=2,
                )
                shutil.rmtree(path)
            self.folder.remove_leftovers()
            self.folder.forget_metrics(None if last is None else self.step)
            # Only now, because loading may raise an error.
            if self.description is not None:
                write_json(self.folder.description, self.description.to_dict())
        self.accelerator.wait_for_everyone()

    def _load(self, path: Path) -> None:
        data, state, random = load_checkpoint(path, self.method.model, self.optimizer, self._decisive())
        self.step = data["step"]
        self.units = data["units"]
        self.seconds = data["seconds"]
        self.scaler.load_state_dict(data["scaler"])
        self.method.load_state(state)
        restore_random_states(self.accelerator, random)
        if self.n_steps is not None and self.step > self.n_steps:
            raise ValueError(
                f"The run {self.folder.path} has taken {self.step} steps, but its settings now ask for {self.n_steps}. "
                "A run that had ended there would have other weights. Set batch.max_steps and batch.epochs back, "
                "set another output folder, or delete its checkpoints."
            )


@contextmanager
def watch_signals() -> Iterator[threading.Event]:
    """Set an event at Ctrl-C or a termination signal instead of stopping within a step. The second stops at once."""
    event = threading.Event()

    def ask(*_: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    # Only the main thread receives signals.
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM) if is_main}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def learning_rate(settings: OptimizerSettings, step: int, n_steps: int) -> float:
    """Compute the learning rate of a step, from 0, of the `n_steps` of the whole run."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * (n_steps - step) / max(1, n_steps - settings.warmup_steps)
