"""A run from settings to an encoder folder, the same for all methods; and exports of its checkpoints."""

from __future__ import annotations

import atexit
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, set_seed

from spacy_sapbert.encoder.folder import write_encoder
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import find_chosen, resolve_device, use_device
from spacy_sapbert.progress import show_phase

from ..data.accuracy import evaluate_names
from ..data.run_folder import RunDescription, RunFolder, RunReport, list_versions, lock_run, write_json
from ..data.splits import check_held_out, read_held_out
from ..data.task import LinkingTask, limit_names
from ..encoders.bases import load_base
from ..encoders.card import NO_NOTES, CardNotes, read_encoder_results, write_card
from ..encoders.export import check_dtype
from .checkpoints import list_checkpoints, load_transformer, read_step
from .loop import TrainingLoop
from .method import METHODS, Ending, Method, TrainingData, make_settings
from .nearest import search_on_device
from .settings import TrainingSettings, refuse

# Packages whose versions affect results, besides what every run lists. They are listed if they are installed.
PACKAGES = ("accelerate", "pytorch-metric-learning", "scann", "scikit-learn")
# The other processes wait while the main one encodes all names, measures or exports.
WAIT = timedelta(hours=12)


def train(settings: TrainingSettings) -> RunReport | None:
    """Train an encoder, and export it. A stopped run resumes from its last checkpoint. The report is the one saved in
    `report.json`; processes other than the main one return None.
    """
    if settings.run.tensorboard and not find_spec("tensorboard"):
        raise ImportError("run.tensorboard is true, but tensorboard is not installed: pip install tensorboard.")
    with open_processes() as accelerator:
        with lock_run(Path(settings.paths.output)) if accelerator.is_main_process else nullcontext():
            return _train(settings, accelerator)


def _train(settings: TrainingSettings, accelerator: Accelerator) -> RunReport | None:
    set_seed(settings.run.seed)
    with show_phase("Loading the base encoder"):
        # Names are encoded in the same precision when neighbours are searched. Encoders have no fp16.
        precision = "auto" if settings.run.precision == "fp16" else settings.run.precision
        method_class = METHODS[settings.run.method]
        base = load_base(settings.paths.encoder, settings.encoder, method_class.base_kind, precision)
    method = method_class(settings, base, accelerator)
    with show_phase("Reading the data"):
        method.learned = method.load()
    task = _read_task(settings.paths.held_out, method.learned)
    if task is not None and settings.run.held_out_names:
        task = limit_names(task, settings.run.held_out_names)
    with show_phase("Tokenising names and making the model"):
        method.model = method.build().to(accelerator.device)
    device = accelerator.device
    description = RunDescription(
        settings=settings.to_dict(),
        data={**method.learned.report, "sha256": method.learned.sha256},
        encoder={"base": base.fingerprint, **base.settings.to_dict()},
        versions=list_versions(*PACKAGES),
        parameters={name: count_trainable(part) for name, part in method.model.named_children()},
        machine={"processor": platform.machine(), "device": device.type, "threads": torch.get_num_threads()},
    )
    evaluate = None if task is None else lambda: measure_names(method.take_snapshot(), task)
    ending = TrainingLoop(method, evaluate, description).run()
    return _finish(method, ending, description, task) if accelerator.is_main_process else None


def _read_task(path: str, learned: TrainingData) -> LinkingTask | None:
    """Read held-out names, and check that none of their concepts is learned."""
    if not path:
        return None
    task = read_held_out(path)
    check_held_out(task, learned.concepts, learned.path)
    return task


def count_trainable(module: torch.nn.Module) -> int:
    """Count the elements of a module's trainable parameters."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def _finish(method: Method[Any], ending: Ending, description: RunDescription, task: LinkingTask | None) -> RunReport:
    """Write the results of a run: the encoder with its card, and last the report, which marks the run complete."""
    settings = method.settings
    base = method.base
    folder = method.folder
    weights = dict(method.model.transformer.named_parameters())
    trained = method.to_encoder(weights, base, settings, base_share=settings.run.base_share)
    # An interrupted run is not measured: the user should not wait. The resumed run is.
    scores = None if ending.reason == "interrupted" else measure_both(base, trained, task)
    training = {
        "steps": ending.step,
        "ended": ending.reason,
        "seconds": round(ending.seconds, 1),
        f"{method.unit}_per_second": round(ending.units / max(ending.seconds, 1e-9), 2),
        **method.finish(trained, ending),
    }
    facts = {"training": training, "held_out": scores}
    facts["export"] = {"base_share": settings.run.base_share, "dtype": method.dtypes[0]}
    report = _write(method, settings, description, trained, folder.encoder, facts)
    write_json(folder.report, report.to_dict())
    return report


def _write(
    method: Method[Any] | type[Method[Any]],
    settings: TrainingSettings,
    description: RunDescription,
    encoder: EncoderShim,
    folder: str | Path,
    made: dict[str, Any],
    notes: CardNotes = NO_NOTES,
) -> RunReport:
    """Write an encoder with its card, and return the report, which has what was `made` besides the description."""
    values = {**description.to_dict(), **made}
    values["encoder"] |= {**encoder.settings.to_dict(), "trained": encoder.fingerprint}
    report = RunReport(**values)
    card = write_card(report, method.purpose, settings.list_changes(), notes)
    write_encoder(replace(encoder.content, card=card.encode("utf8")), folder)
    return report


def measure_names(encoder: EncoderShim, task: LinkingTask) -> dict[str, Any]:
    """Measure the accuracy of an encoder on held-out names."""
    return evaluate_names(
        encoder.encode_unscaled, task, search=partial(search_on_device, device=resolve_device("auto"))
    )


def measure_both(base: EncoderShim, trained: EncoderShim, task: LinkingTask | None) -> dict[str, Any] | None:
    """Measure an encoder "before" and "after" training; None without held-out names."""
    if task is None:
        return None
    with show_phase("Measuring held-out names"):
        return {"before": measure_names(base, task), "after": measure_names(trained, task)}


def export_run(
    run: str | Path,
    output: str | Path,
    *,
    base_share: float | None = None,
    dtype: str = "",
    step: int | None = None,
    held_out: str = "",
    results: str = "",
    notes: CardNotes = NO_NOTES,
) -> RunReport:
    """Export a checkpoint of a run, finished or not, to an encoder folder.

    By default, the run's settings decide on the share of the base's weights and the type of stored weights. The card
    shows only scores of exactly the stored weights: on the file of held-out names if there is one, else the run's own,
    and the scores in a file of results (see `read_encoder_results`).
    """
    folder = RunFolder(run)
    description = folder.read_description()
    # The run may have been moved.
    paths = {**description.settings["paths"], "output": str(run)}
    settings = make_settings({**description.settings, "paths": paths}, folder.description)
    method = METHODS[settings.run.method]
    dtype = dtype or method.dtypes[0]
    share = settings.run.base_share if base_share is None else base_share
    check_dtype(dtype, method.dtypes)
    if not 0.0 <= share < 1.0:
        refuse("base_share", share, "0 or more and less than 1")
    path = find_checkpoint(run, step)
    base = load_base(settings.paths.encoder, settings.encoder)
    if base.fingerprint != description.encoder["base"]:
        raise ValueError(
            f"The base encoder '{settings.paths.encoder}' has the fingerprint {base.fingerprint}, but the run started "
            f"from {description.encoder['base']}. Its files have changed, or it is another one of that name. Put the "
            "former one back."
        )
    weights, data = load_transformer(path)
    encoder = method.to_encoder(weights, base, settings, base_share=share, dtype=dtype)
    if results:
        notes = notes._replace(results=read_encoder_results(results, encoder.fingerprint))
    if held_out:
        learned = read_data(settings, base)
        if learned.sha256 != description.data["sha256"]:
            raise ValueError(
                f"The data in {learned.path} are no longer those that the run {run} was trained on, so that nothing "
                "tells whether the names to measure on were held out. Put them back, or leave --held-out away."
            )
        scores = measure_both(base, encoder, _read_task(held_out, learned))
    else:
        # The run's own scores, if the weights are the same.
        report = folder.read_report()
        scores = report.held_out if report is not None and report.encoder["trained"] == encoder.fingerprint else None
    facts = {"training": {"steps": data["step"], "seconds": data["seconds"]}, "held_out": scores}
    facts["export"] = {"base_share": share, "dtype": dtype}
    return _write(method, settings, description, encoder, output, facts, notes)


def read_data(settings: TrainingSettings, base: EncoderShim) -> TrainingData:
    """Read the training data of a run without training, for checks. The base encoder is loaded."""
    with open_processes() as accelerator:
        return METHODS[settings.run.method](settings, base, accelerator).load()


def find_checkpoint(run: str | Path, step: int | None = None) -> Path:
    """Find the checkpoint of a step of a run; None for the last."""
    checkpoints = {read_step(path): path for path in list_checkpoints(RunFolder(run).checkpoints)}
    chosen = max(checkpoints, default=None) if step is None else step
    if chosen not in checkpoints:
        which = "" if step is None else f" of step {step}"
        raise FileNotFoundError(
            f"The run {run} has no checkpoint{which}; there are: {', '.join(map(str, sorted(checkpoints))) or 'none'}. "
            "Checkpoints are saved every run.checkpoint_steps steps and at the end, and only the last two are kept. "
            "Choose one of these, or let the run go on."
        )
    return checkpoints[chosen]


@contextmanager
def open_processes() -> Iterator[Accelerator]:
    """Connect the processes of a launch, and let none leave before the main one has ended.

    A launcher stops all processes as soon as one fails. Without an orderly end, a process that leaves early can abort
    in the threads of its open connections, and the launcher then stops the main one during its export.

    Encoders compute where the processes train. `use_device` decides about both; without it, accelerate does.
    """
    chosen = find_chosen()
    launched = int(os.environ.get("WORLD_SIZE", 1))
    if chosen is not None and chosen.index is not None:
        if launched > 1:
            refuse("--device", str(chosen), f"cuda, because each of the {launched} processes has a GPU of its own")
        # With one process, accelerate takes the current device.
        torch.cuda.set_device(chosen)
    was_connected = torch.distributed.is_available() and torch.distributed.is_initialized()
    is_cpu = chosen is not None and chosen.type == "cpu"
    accelerator = Accelerator(cpu=is_cpu, kwargs_handlers=[InitProcessGroupKwargs(timeout=WAIT)])
    if launched > 1 and accelerator.num_processes == 1:
        raise RuntimeError(
            f"{launched} processes were started, but they are not connected: each would train alone in the same "
            "folder. On CPUs, set ACCELERATE_USE_CPU=1 or start with `accelerate launch --cpu`."
        )
    if accelerator.num_processes > 1 and not was_connected:
        # At the end of the process, because its next run uses the same connections.
        atexit.register(accelerator.end_training)
    with use_device(accelerator.device):
        yield accelerator
    accelerator.wait_for_everyone()
