"""Scores that have been measured once, and tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Protocol

import srsly

from spacy_sapbert.encoder import EncoderShim

from ...data.run_folder import write_json
from ...data.task import LinkingTask
from ...errors import Errors
from .accuracy import MEASUREMENT, RANKS, measure_accuracy

Scores = dict[str, dict[str, Any]]
# What tables show of a linking task, and of any other.
LINKING_FIGURES, OTHER_FIGURES = tuple(f"acc_at_{rank}" for rank in RANKS), ("accuracy",)


class EncoderTask(Protocol):
    """Whatever encoders can be measured on that is no linking task."""

    def hash(self) -> str:
        """Hash all that decides the scores, but for the encoder.

        RETURNS (str): Equal hashes, equal scores.
        """
        ...

    def measure(self, encoder: EncoderShim) -> dict[str, Any]:
        """Measure an encoder.

        encoder (EncoderShim): The encoder.
        RETURNS (dict): JSON data, with `accuracy` as a share.
        """
        ...


class ScoreBook:
    """Measure encoders on tasks, and remember what came out, by the encoder's fingerprint and the task's hash.

    tasks (Mapping[str, LinkingTask | EncoderTask]): Tasks by name.
    path (str | Path): A file (JSON) that keeps the scores; made if missing.
    RAISES (ValueError): If there is such a file, and it holds something else.
    """

    def __init__(self, tasks: Mapping[str, LinkingTask | EncoderTask], path: str | Path) -> None:
        self.tasks = tasks
        self.path = Path(path)
        self._hashes = {name: task.hash() for name, task in tasks.items()}
        self._kept: dict[str, dict[str, Any]] = _read_kept(self.path) if self.path.is_file() else {}

    def measure(self, encoder: EncoderShim) -> Scores:
        """Measure an encoder on all tasks that it has not been measured on.

        encoder (EncoderShim): The encoder.
        RETURNS (dict): For each task what `measure_accuracy` gives, or the task itself.
        """
        # Rounding differs between precisions.
        before = f"{MEASUREMENT} {encoder.fingerprint} {encoder.dtype}"
        keys = {name: f"{before} {digest}" for name, digest in self._hashes.items()}
        wanted = {name: self.tasks[name] for name, key in keys.items() if key not in self._kept}
        linking = {name: task for name, task in wanted.items() if isinstance(task, LinkingTask)}
        if linking:
            # At once: they share strings.
            measured = measure_accuracy(encoder, linking)
            self._keep({keys[name]: scores for name, scores in measured.items()})
        for name, task in wanted.items():
            if not isinstance(task, LinkingTask):
                self._keep({keys[name]: task.measure(encoder)})
        return {name: self._kept[key] for name, key in keys.items()}

    def _keep(self, scores: Scores) -> None:
        self._kept |= scores
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path, self._kept)


def _read_kept(path: Path) -> dict[str, dict[str, Any]]:
    try:
        kept = srsly.read_json(path)
    except ValueError as error:
        raise ValueError(Errors.E747.format(path=path, reason=error)) from error
    if not isinstance(kept, dict) or not all(isinstance(scores, dict) for scores in kept.values()):
        raise ValueError(Errors.E747.format(path=path, reason="no scores by encoder and task"))
    return kept


def format_scores(rows: Mapping[str, Sequence[Scores]], *, reference: str) -> str:
    """Write a table of accuracies in percent: one line for each encoder, "acc@1/@5" of each linking task.

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
            figures = LINKING_FIGURES if LINKING_FIGURES[0] in rows[reference][0][task] else OTHER_FIGURES
            cell = "/".join(_summarise([100 * run[task][figure] for run in scores]) for figure in figures)
            if label != reference:
                gains = [
                    mean(run[task][figure] for run in scores) - mean(run[task][figure] for run in rows[reference])
                    for figure in figures
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
