"""What a run logs: one line of JSON for each step or evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

METRICS_FILE = "metrics.jsonl"


def read_metrics(output: str | Path) -> list[dict[str, Any]]:
    """Read what a run has logged.

    output (str | Path): The run's folder.
    RETURNS (List[dict]): One entry for each step or evaluation.
    """
    lines = (Path(output) / METRICS_FILE).read_text(encoding="utf8").splitlines(keepends=True)
    # The last line of a run that goes on, or was killed, may not be complete.
    return [json.loads(line) for line in lines if line.endswith("\n")]


def forget_metrics(output: str | Path, step: int | None) -> None:
    """Forget what was logged of steps that a run which goes on takes again.

    output (str | Path): The run's folder.
    step (Optional[int]): The last step to keep; None to forget all.
    """
    path = Path(output) / METRICS_FILE
    if path.exists():
        lines = path.read_text(encoding="utf8").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and step is not None and json.loads(line)["step"] <= step]
        path.write_text("".join(kept), encoding="utf8")
