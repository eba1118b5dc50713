"""Export any checkpoint of a run, finished or not, to an encoder folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spacy_sapbert.encoder.shim import EncoderShim

from .data.run_folder import RunDescription, RunFolder, RunReport
from .data.splits import check_held_out, read_held_out
from .encoders.bases import load_base
from .encoders.card import CardNotes, read_results, write_card
from .encoders.export import check_dtype, write_encoder_folder
from .engine.checkpoint import list_checkpoints, load_transformer, read_step
from .engine.source import TrainingFiles
from .errors import Errors
from .methods.registry import METHODS, make_settings
from .runner import measure_both


def export_run(
    run: str | Path,
    output: str | Path,
    *,
    base_share: float | None = None,
    dtype: str = "",
    step: int | None = None,
    held_out: str = "",
    results: str = "",
    notes: CardNotes | None = None,
) -> RunReport:
    """Export a checkpoint to an encoder folder. Its card shows only scores of exactly the stored weights.

    run (str | Path): The run's folder.
    output (str | Path): The encoder folder.
    base_share (float | None): Share of the base's weights; None for the share in the run's settings.
    dtype (str): The type of stored weights, such as "bf16" for half the size; empty for the method's default.
    step (int | None): The step of the checkpoint; None for the last.
    held_out (str): The file of held-out names for evaluation; empty for the run's own scores if it exported the same
        weights, else for none.
    results (str): A file with other results; see `read_results`.
    notes (CardNotes | None): Facts for the card.
    RETURNS (RunReport): The report that the card describes.
    RAISES (OSError): If there is no such run, checkpoint or file, or it is damaged.
    RAISES (ValueError): If an argument is invalid, the run is of an earlier version, or the base has changed since.
    """
    folder = RunFolder(run)
    description = folder.read_description()
    # The run may have been moved.
    paths = {**description.settings["paths"], "output": str(run)}
    settings = make_settings({**description.settings, "paths": paths}, folder.description)
    method = METHODS[settings.run.method]
    dtype = dtype or method.dtypes[0]
    share = settings.run.base_share if base_share is None else base_share
    check_export(share, dtype, method.dtypes)
    if share and (obstacle := method.find_obstacle(settings)):
        raise ValueError(Errors.E662.format(path=run, obstacle=obstacle))
    path = find_checkpoint(run, step)
    base = load_base(settings.paths.encoder, settings.encoder)
    if base.fingerprint != description.encoder["base"]:
        wanted = description.encoder["base"]
        raise ValueError(Errors.E663.format(name=settings.paths.encoder, found=base.fingerprint, wanted=wanted))
    transformer = method.make_transformer(base.source, settings)
    checkpoint = load_transformer(path, transformer)
    encoder = method.finish(transformer, base, settings, base_share=share, dtype=dtype)
    notes = notes or CardNotes()
    if results:
        notes = replace(notes, results=read_results(results, encoder.fingerprint))
    report = RunReport(
        **description.to_dict()
        | {"encoder": {**description.encoder, **encoder.settings.to_dict(), "trained": encoder.fingerprint}},
        training={"steps": checkpoint["step"], "seconds": checkpoint["seconds"]},
        held_out=_find_scores(folder, held_out, method.find_source(settings), description, (base, encoder)),
        export={"base_share": share, "dtype": dtype},
    )
    write_encoder_folder(encoder.content, output, write_card(report, method.describe(report), notes))
    return report


def check_export(base_share: float, dtype: str, dtypes: Sequence[str]) -> None:
    """Check the arguments of an export.

    base_share (float): Share of the base's weights.
    dtype (str): The type of stored weights.
    dtypes (Sequence[str]): The types that the method has.
    RAISES (ValueError): If a value is not allowed.
    """
    check_dtype(dtype, dtypes)
    if not 0.0 <= base_share < 1.0:
        allowed = "0 or more and less than 1"
        raise ValueError(Errors.E404.format(name="base_share", where="", value=base_share, allowed=allowed))


def find_checkpoint(run: str | Path, step: int | None = None) -> Path:
    """Find a checkpoint of a run.

    run (str | Path): The run's folder.
    step (int | None): The step of the checkpoint; None for the last.
    RETURNS (Path): The checkpoint's folder.
    RAISES (FileNotFoundError): If there is none.
    """
    found = {read_step(path): path for path in list_checkpoints(RunFolder(run).checkpoints)}
    wanted = max(found, default=None) if step is None else step
    if wanted not in found:
        which = "" if step is None else f" of step {step}"
        raise FileNotFoundError(
            Errors.E661.format(path=run, which=which, steps=", ".join(map(str, sorted(found))) or "none")
        )
    return found[wanted]


def _find_scores(
    folder: RunFolder,
    held_out: str,
    source: TrainingFiles,
    description: RunDescription,
    encoders: tuple[EncoderShim, EncoderShim],
) -> dict[str, Any] | None:
    """Measure the weights, or reuse the run's own scores if the weights are the same."""
    base, encoder = encoders
    if not held_out:
        report = folder.read_report()
        is_same = report is not None and report.encoder["trained"] == encoder.fingerprint
        return report.held_out if report is not None and is_same else None
    task = read_held_out(held_out)
    if source.hash() != description.data["sha256"]:
        raise ValueError(Errors.E669.format(path=source.path, run=folder.path))
    check_held_out(task, source.list_concepts(), source.path)
    return measure_both(base, encoder, task)
