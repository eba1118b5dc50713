"""The training loop of pairs: each step sees the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from ..data.pairs import PairData
from ..data.tokens import Tokens
from .batches import Batches
from .gradient import GradientStep
from .metrics import METRICS_FILE, read_metrics
from .settings import TrainingSettings
from .step_loop import CHECKPOINTS, Ending, StepLoop, learning_rate

__all__ = ["CHECKPOINTS", "METRICS_FILE", "Ending", "TrainingLoop", "learning_rate", "read_metrics"]


class TrainingLoop(StepLoop[np.ndarray]):
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
        steps, limit = batches.epochs * batches.per_epoch, settings.batch.max_steps
        super().__init__(
            transformer,
            [parameter for parameter in transformer.parameters() if parameter.requires_grad],
            output=Path(settings.paths.output),
            optimizer=settings.optimizer,
            limits=settings.batch,
            run=settings.run,
            n_steps=min(steps, limit) if limit else steps,
            accelerator=accelerator,
            evaluate=evaluate,
            description=description,
        )
        self.settings = settings
        self.data = data
        self.tokens = tokens
        self.batches = batches
        self.gradient_step = gradient_step
        self.base = base

    def iterate(self, start: int) -> Iterator[np.ndarray]:
        """See `StepLoop`: the rows of the pairs of each batch."""
        return self.batches.iterate(start)

    def compute_gradients(self, batch: np.ndarray, scale: float) -> dict[str, Any]:
        """See `StepLoop`."""
        names, labels = self._list_names(batch)
        result = self.gradient_step(
            [self.tokens[name] for name in names.tolist()],
            labels,
            names if self.settings.objective.ignore_homonyms else None,
            scale=scale,
        )
        counts = {"positives": result.positives, "negatives": result.negatives}
        return {"loss": result.loss, "pairs": len(batch), **counts}

    def describe_batch(self, batch: np.ndarray) -> dict[str, Any]:
        """See `StepLoop`."""
        names, labels = self._list_names(batch)
        return {"names": self.data.names.gather(names).to_list(), "labels": labels.tolist()}

    def decisive(self) -> dict[str, Any]:
        """See `StepLoop`."""
        return {**self.settings.decisive(), "data": {"sha256": self.data.sha256}, "base": {"fingerprint": self.base}}

    def describe_speed(self) -> dict[str, str]:
        """See `StepLoop`."""
        return {"pairs": f"{self.step * self.settings.batch.pairs / max(self.seconds, 1e-9):.0f}/s"}

    def _list_names(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """List the names of pairs and their labels: first all on the left, then all on the right."""
        names = np.concatenate([self.data.left[rows], self.data.right[rows]])
        return names, np.concatenate([self.data.labels[rows], self.data.labels[rows]])
