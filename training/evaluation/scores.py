"""Scores that have been measured once, and tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import srsly

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.errors import Errors

from ..runs import write_json
from .accuracy import MEASUREMENT, RANKS, measure_accuracy
from .task import LinkingTask

Scores = dict[str, dict[str, Any]]


class ScoreBook:
    """Measure encoders on tasks, and remember what came out, by the encoder's fingerprint and the task's hash.

    tasks (Mapping[str, LinkingTask]): Tasks by name.
    path (str | Path): A file (JSON) that keeps the scores; made if missing.
    RAISES (ValueError): If there is such a file, and it holds something else.
    """

    def __init__(self, tasks: Mapping[str, LinkingTask], path: str | Path) -> None:
        self.tasks = tasks
        self.path = Path(path)
        self._hashes = {name: task.hash() for name, task in tasks.items()}
        self._kept: dict[str, dict[str, Any]] = _read_kept(self.path) if self.path.is_file() else {}

    def measure(self, encoder: EncoderShim) -> Scores:
        """Measure an encoder on all tasks that it has not been measured on.

        encoder (EncoderShim): The encoder.
        RETURNS (dict): For each task what `measure_accuracy` gives.
        """
        # Rounding differs between precisions.
        before = f"{MEASUREMENT} {encoder.fingerprint} {encoder.dtype}"
        keys = {name: f"{before} {digest}" for name, digest in self._hashes.items()}
        wanted = {name: self.tasks[name] for name, key in keys.items() if key not in self._kept}
        if wanted:
            for name, scores in measure_accuracy(encoder, wanted).items():
                self._kept[keys[name]] = scores
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, self._kept)
        return {name: self._kept[key] for name, key in keys.items()}


def _read_kept(path: Path) -> dict[str, dict[str, Any]]:
    try:
        kept = srsly.read_json(path)
    except ValueError as error:
        raise ValueError(Errors.E747.format(path=path, reason=error)) from error
    if not isinstance(kept, dict) or not all(isinstance(scores, dict) for scores in kept.values()):
        raise ValueError(Errors.E747.format(path=path, reason="no scores by encoder and task"))
    return kept


def format_scores(rows: Mapping[str, Sequence[Scores]], *, reference: str) -> str:
    """Write a table of accuracies in percent: one line for each encoder, "acc@1/@5" of each task.

    Several scores of one encoder are those of seeds: their mean, and behind it their standard deviation. In brackets
    stands what it is more, or less, than the reference.

    rows (Mapping[str, Sequence[Scores]]): The scores of each encoder.
    reference (str): The encoder to compare with.
    RETURNS (str): Markdown.
    """
    tasks = list(rows[reference][0])
    lines = ["| | " + " | ".join(tasks) + " |", "| --- |" + " ---: |" * len(tasks)]
    for label, scores in rows.items():
        cells = []
        for task in tasks:
            values = [_summarise([100 * run[task][f"acc_at_{rank}"] for run in scores]) for rank in RANKS]
            cell = "/".join(values)
            if label != reference:
                gains = [
                    mean(run[task][key] for run in scores) - mean(run[task][key] for run in rows[reference])
                    for key in (f"acc_at_{rank}" for rank in RANKS)
                ]
                cell += f" ({'/'.join(f'{100 * gain:+.1f}' for gain in gains)})"
            cells.append(cell)
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def describe_results(before: Scores | None, after: Scores) -> dict[str, dict[str, float]]:
    """Set the scores of a trained encoder beside those of its base.

    before (Optional[dict]): The base's, if it was measured.
    after (dict): The trained encoder's.
    RETURNS (dict): For each task, shares by "before acc@1", "acc@1" and so on.
    """
    measured = [("before ", before)] if before else []
    columns = [(label, scores, rank) for label, scores in (*measured, ("", after)) for rank in RANKS]
    return {
        task: {f"{label}acc@{rank}": scores[task][f"acc_at_{rank}"] for label, scores, rank in columns}
        for task in after
    }


def _summarise(values: list[float]) -> str:
    return f"{mean(values):.1f}" + (f"±{stdev(values):.1f}" if len(values) > 1 else "")
