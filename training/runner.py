"""A run from settings to an encoder folder, the same for all methods."""

from __future__ import annotations

import platform
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

from spacy_sapbert.encoder.settings import TRANSFORMER
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.progress import show_phase

from .data.run_folder import RunDescription, RunReport, list_versions, write_json
from .data.run_lock import lock_run
from .data.splits import check_held_out, read_held_out
from .data.task import LinkingTask
from .data.task_samples import limit_names
from .encoders.bases import load_base
from .encoders.card import write_card
from .encoders.export import write_encoder_folder
from .engine.loop import Ending, TrainingLoop
from .engine.method import Method
from .engine.processes import open_processes
from .engine.settings import TrainingSettings
from .engine.tensorboard import check_tensorboard
from .evaluation.measure import measure_held_out
from .figures.curves import try_to_draw
from .methods.registry import METHODS


def train(settings: TrainingSettings) -> RunReport | None:
    """Train an encoder, and export it. A stopped run resumes from its last checkpoint.

    settings (TrainingSettings): Settings of the method `run.method`.
    RETURNS (RunReport | None): As saved in `report.json`; None in all processes except the main one.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If there are no training data, they contain a held-out concept, or the output folder has a run
        with other settings, data or base encoder.
    RAISES (FloatingPointError): If embeddings, loss, gradients or weights are infinite or NaN.
    RAISES (RuntimeError): If another run uses the output folder, or the processes of a launch are not connected.
    """
    if settings.run.tensorboard:
        check_tensorboard()
    with open_processes() as accelerator, _lock(settings, accelerator):
        return _train(settings, accelerator)


def _lock(settings: TrainingSettings, accelerator: Accelerator) -> AbstractContextManager[None]:
    return lock_run(Path(settings.paths.output)) if accelerator.is_main_process else nullcontext()


def _train(settings: TrainingSettings, accelerator: Accelerator) -> RunReport | None:
    set_seed(settings.run.seed)
    with show_phase("Loading the base encoder"):
        # Names are encoded in the same precision when neighbours are searched. Encoders have no fp16.
        precision = "auto" if settings.run.precision == "fp16" else settings.run.precision
        base = load_base(settings.paths.encoder, settings.encoder, TRANSFORMER, precision)
    method = METHODS[settings.run.method](settings, base, accelerator)
    with show_phase("Reading the data"):
        method.learned = method.load()
    task = read_held_out(settings.paths.held_out) if settings.paths.held_out else None
    if task is not None:
        check_held_out(task, method.learned.concepts, method.find_source(settings).path)
        if settings.run.held_out_names:
            task = limit_names(task, settings.run.held_out_names)
    with show_phase("Tokenising names and making the model"):
        method.model = method.build().to(accelerator.device)
    description = describe_run(method)

    def evaluate() -> dict[str, Any]:
        assert task is not None
        return measure_held_out(method.take_snapshot(), task)

    ending = TrainingLoop(method, evaluate if task else None, description).run()
    return finish_run(method, ending, description, task) if accelerator.is_main_process else None


def describe_run(method: Method[Any]) -> RunDescription:
    """Describe a run before its first step.

    method (Method): The method, with data and model.
    RETURNS (RunDescription): The description.
    """
    base, device = method.base, method.accelerator.device
    return RunDescription(
        settings=method.settings.to_dict(),
        data={**method.learned.report, "sha256": method.learned.sha256},
        encoder={"base": base.fingerprint, **base.settings.to_dict()},
        versions=list_versions(*method.list_packages()),
        parameters=method.count_parameters(),
        machine={"processor": platform.machine(), "device": device.type, "threads": torch.get_num_threads()},
    )


def finish_run(method: Method[Any], ending: Ending, description: RunDescription, task: LinkingTask | None) -> RunReport:
    """Write the results of a run: the encoder with its card, curves, and last the report, which marks the run complete.

    method (Method): The trained method.
    ending (Ending): How the training ended.
    description (RunDescription): The description of the run.
    task (LinkingTask | None): Held-out names; None for no scores.
    RETURNS (RunReport): The report.
    """
    settings, base, folder = method.settings, method.base, method.folder
    trained = method.finish(method.model.transformer, base, settings, base_share=settings.run.base_share)
    # An interrupted run is not measured: the user should not wait. The resumed run is.
    scores = None if ending.reason == "interrupted" else measure_both(base, trained, task)
    report = RunReport(
        **description.to_dict()
        | {"encoder": {**description.encoder, **trained.settings.to_dict(), "trained": trained.fingerprint}},
        training=_describe_ending(method, ending),
        held_out=scores,
        export={"base_share": settings.run.base_share, "dtype": method.dtypes[0]},
    )
    write_encoder_folder(trained.content, folder.encoder, write_card(report, method.describe(report)))
    method.save_extras(trained)
    try_to_draw({folder.path.resolve().name: folder.path}, folder.curves)
    write_json(folder.report, report.to_dict())
    return report


def measure_both(base: EncoderShim, trained: EncoderShim, task: LinkingTask | None) -> dict[str, Any] | None:
    """Measure an encoder before and after training.

    base (EncoderShim): The base encoder.
    trained (EncoderShim): The trained encoder.
    task (LinkingTask | None): Held-out names; None for no scores.
    RETURNS (dict[str, Any] | None): Scores "before" and "after".
    """
    if task is None:
        return None
    with show_phase("Measuring held-out names"):
        return {"before": measure_held_out(base, task), "after": measure_held_out(trained, task)}


def _describe_ending(method: Method[Any], ending: Ending) -> dict[str, Any]:
    speed = ending.step * method.units_per_step / max(ending.seconds, 1e-9)
    return {
        "steps": ending.step,
        "ended": ending.reason,
        "seconds": round(ending.seconds, 1),
        f"{method.unit}_per_second": round(speed, 2),
        **method.report(ending.step, ending.seconds),
    }
