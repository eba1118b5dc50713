"""Metrics of a run for TensorBoard, in addition to `metrics.jsonl`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import Errors

OF_STEPS = {
    "loss": "training/loss",
    "term_loss": "training/loss of terms",
    "relation_loss": "training/loss of relations",
    "learning_rate": "training/learning rate",
    "positives": "mined pairs/positive",
    "negatives": "mined pairs/negative",
}


def check_tensorboard() -> None:
    """Check that the library is installed, before any long work.

    RAISES (ImportError): If the library is missing.
    """
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError as error:
        what = "run.tensorboard is true"
        raise ImportError(Errors.E667.format(what=what, library="tensorboard", reason=error)) from error


class Board:
    """Write metrics for TensorBoard. Use it in a `with` block, which closes the file.

    folder (Path): The folder for TensorBoard.
    step (int): The step that the run resumes from. TensorBoard purges later steps, which are repeated.
    unit (str): The unit of the speed.
    """

    def __init__(self, folder: Path, step: int, unit: str) -> None:
        check_tensorboard()
        from torch.utils.tensorboard import SummaryWriter

        self.unit = unit
        # An evaluation before the first step is repeated.
        self.writer = SummaryWriter(str(folder), purge_step=step + 1 if step else 0)

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def write(self, entry: dict[str, Any]) -> None:
        """Write an entry of the metrics.

        entry (dict[str, Any]): Metrics of a step or of an evaluation.
        """
        scalars = {label: entry[name] for name, label in OF_STEPS.items() if name in entry}
        # Seconds are rounded, and 0 in very short runs.
        if entry.get("seconds") and self.unit in entry:
            scalars[f"training/{self.unit} per second"] = entry[self.unit] / entry["seconds"]
        for name, value in entry.get("evaluation", {}).items():
            # Other values are counts, which never change.
            if isinstance(value, float):
                scalars[f"held-out names/{name}"] = value
        for label, value in scalars.items():
            self.writer.add_scalar(label, value, entry["step"])

    def flush(self) -> None:
        """Write everything to disk. Steps before a checkpoint are never repeated."""
        self.writer.flush()
