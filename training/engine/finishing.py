"""The end of a training: scores, an encoder folder with its card, a report, curves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.encoder.precision import resolve_precision

from ..data.run_folder import REPORT_FILE, write_json
from ..data.splits import measure_held_out
from ..encoders.card import Making, write_card
from ..encoders.export import write_encoder_folder
from ..evaluation import LinkingTask
from ..figures.curves import try_to_draw
from .gradient import ChunkedGradient
from .settings import MixedPrecision
from .step_loop import Ending

ENCODER_FOLDER = "encoder"
CURVES_FILE = "curves.svg"


def make_gradient(
    transformer: torch.nn.Module,
    base: EncoderShim,
    accelerator: Accelerator,
    *,
    precision: MixedPrecision,
    chunk_names: int,
    gradient_cache: bool,
) -> ChunkedGradient:
    """Make what computes gradients.

    transformer (Module): The model to train.
    base (EncoderShim): The encoder it comes from, for tokenizer and pooling.
    accelerator (Accelerator): Devices.
    precision (str): See `RunSettings`.
    chunk_names (int): Names in one forward pass.
    gradient_cache (bool): Compute chunks twice instead of keeping them.
    RETURNS (ChunkedGradient): The function.
    """
    return ChunkedGradient(
        transformer,
        base.settings,
        accelerator,
        pad_id=base.source.tokenizer.pad_token_id or 0,
        chunk_names=chunk_names,
        gradient_cache=gradient_cache,
        autocast=find_autocast(precision, accelerator.device),
    )


def find_autocast(precision: MixedPrecision, device: torch.device) -> torch.dtype | None:
    """Find what the forward pass computes in.

    precision (str): See `RunSettings`.
    device (device): Where it computes.
    RETURNS (Optional[dtype]): The type; None for that of the weights.
    """
    if precision == "fp16":
        return torch.float16
    dtype = resolve_precision(precision, device)
    return None if dtype == torch.float32 else dtype


def measure_both(base: EncoderShim, trained: EncoderShim, task: LinkingTask | None) -> dict[str, Any] | None:
    """Measure an encoder before and after its training.

    base (EncoderShim): The encoder that training started from.
    trained (EncoderShim): What came out.
    task (Optional[LinkingTask]): Held-out names; None for no scores.
    RETURNS (Optional[dict]): Scores "before" and "after".
    """
    if task is None:
        return None
    return {"before": measure_held_out(base, task), "after": measure_held_out(trained, task)}


def measure_ending(
    ending: Ending, base: EncoderShim, trained: EncoderShim, task: LinkingTask | None
) -> dict[str, Any] | None:
    """Measure an encoder before and after its training, unless that was interrupted: whoever stops a run does not want
    to wait for minutes, and the run that goes on measures.

    ending (Ending): How the training ended.
    base (EncoderShim): The encoder that training started from.
    trained (EncoderShim): What came out.
    task (Optional[LinkingTask]): Held-out names; None for no scores.
    RETURNS (Optional[dict]): Scores "before" and "after".
    """
    return None if ending.reason == "interrupted" else measure_both(base, trained, task)


def finish_run(
    trained: EncoderShim,
    output: Path,
    description: dict[str, Any],
    *,
    training: dict[str, Any],
    scores: dict[str, Any] | None,
    base_share: float,
    making: Callable[[dict[str, Any]], Making] | None,
) -> dict[str, Any]:
    """Write what a run leaves: the encoder, the curves, and last the report, which says that all is there.

    trained (EncoderShim): The encoder to export.
    output (Path): The run's folder.
    description (dict): What was known of the run before it started.
    training (dict): How the training went.
    scores (Optional[dict]): As `measure_both` gives them.
    base_share (float): Share of the base's weights in the encoder.
    making (Optional[Callable]): Says by the report how the encoder was trained; None to write no encoder.
    RETURNS (dict): The report.
    """
    report = {
        **description,
        "training": training,
        "held_out": scores,
        "encoder": {**description["encoder"], "trained": trained.fingerprint},
        "export": {"base_share": base_share, "dtype": "fp32"},
    }
    if making is not None:
        write_encoder_folder(trained.source, output / ENCODER_FOLDER, write_card(report, making(report)))
    try_to_draw({output.resolve().name: output}, output / CURVES_FILE)
    write_json(output / REPORT_FILE, report)
    return report
