"""An encoder folder out of a run's folder: of any of its checkpoints, also of a run that has not ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from spacy_sapbert.encoder import EncoderShim

from ..data.run_folder import read_description, read_report
from ..data.splits import check_held_out, read_held_out
from ..engine.checkpoint import list_checkpoints
from ..engine.finishing import measure_both
from ..engine.loop import CHECKPOINTS
from ..engine.settings import AdapterKind, TrainingSettings
from ..errors import Errors
from ..methods.base import TrainingData, find_method
from .bases import load_base
from .card import CardNotes, read_results, write_card
from .export import DTYPES, finish_encoder, write_encoder_folder


def export_run(
    run: str | Path,
    output: str | Path,
    *,
    base_share: float | None = None,
    dtype: str = "fp32",
    step: int | None = None,
    held_out: str = "",
    results: str = "",
    notes: CardNotes | None = None,
) -> dict[str, Any]:
    """Make an encoder folder of a checkpoint. Its card has no scores but those of the very weights that are stored.

    run (str | Path): The run's folder.
    output (str | Path): Where to.
    base_share (Optional[float]): Share of the base's weights; None for that of the run's settings.
    dtype (str): What weights are stored as: "fp32", or "bf16" for half the size.
    step (Optional[int]): Of which checkpoint; None for the last.
    held_out (str): The file of held-out names to measure on; empty for the run's own scores if it has exported the
        same weights, else for none.
    results (str): A file with what else was measured; see `read_results`.
    notes (Optional[CardNotes]): For the card.
    RETURNS (dict): What the card is made of: as the run's report, with `export`.
    RAISES (OSError): If there is no such run, checkpoint or file, or it is damaged.
    RAISES (ValueError): If an argument has no meaning, or the base is not the one that the run started from.
    """
    description = read_description(run)
    method = find_method(description["settings"])
    settings = method.make_settings(description["settings"])
    adapter = settings.adapter.kind if isinstance(settings, TrainingSettings) else None
    share = settings.run.base_share if base_share is None else base_share
    check_export(run, adapter, share, dtype)
    path = find_checkpoint(run, step)
    base = load_base(settings.paths.encoder, settings.encoder)
    if base.fingerprint != description["encoder"]["base"]:
        wanted = description["encoder"]["base"]
        raise ValueError(Errors.E663.format(name=settings.paths.encoder, found=base.fingerprint, wanted=wanted))
    transformer, checkpoint = method.load_weights(path, base.source, settings)
    encoder = finish_encoder(transformer, base, adapter=adapter, base_share=share, dtype=dtype)
    notes = notes or CardNotes()
    if results:
        notes = replace(notes, results=read_results(results, encoder.fingerprint))
    report = {
        **description,
        "training": {"steps": checkpoint["step"], "seconds": checkpoint["seconds"]},
        "held_out": _find_scores(
            run, held_out, method.data_of(settings), description["data"]["sha256"], (base, encoder)
        ),
        "encoder": {**description["encoder"], "trained": encoder.fingerprint},
        "export": {"base_share": share, "dtype": dtype},
    }
    write_encoder_folder(encoder.source, output, write_card(report, method.describe(report), notes))
    return report


def check_export(run: str | Path, adapter: AdapterKind | None, base_share: float, dtype: str) -> None:
    """Refuse what can't be exported.

    run (str | Path): The run's folder.
    adapter (Optional[str]): The kind of adapter that the run has.
    base_share (float): Share of the base's weights.
    dtype (str): What to store weights as.
    RAISES (ValueError): Naming the value and what is allowed.
    """
    if dtype not in DTYPES:
        raise ValueError(Errors.E620.format(what="dtype", value=dtype, allowed=", ".join(DTYPES)))
    if adapter == "bottleneck":
        raise ValueError(Errors.E662.format(path=run))
    if not 0.0 <= base_share < 1.0:
        raise ValueError(Errors.E624.format(name="base_share", value=base_share, allowed="0 or more and less than 1"))


def find_checkpoint(run: str | Path, step: int | None = None) -> Path:
    """Find a checkpoint of a run.

    run (str | Path): The run's folder.
    step (Optional[int]): After how many steps; None for the last.
    RETURNS (Path): Its folder.
    RAISES (FileNotFoundError): If there is none.
    """
    found = {int(path.name.removeprefix("step-")): path for path in list_checkpoints(Path(run) / CHECKPOINTS)}
    wanted = max(found, default=None) if step is None else step
    if wanted not in found:
        which = "" if step is None else f" of step {step}"
        raise FileNotFoundError(
            Errors.E661.format(path=run, which=which, steps=", ".join(map(str, sorted(found))) or "none")
        )
    return found[wanted]


def _find_scores(
    run: str | Path,
    held_out: str,
    learned: TrainingData,
    sha256: str | dict[str, str],
    encoders: tuple[EncoderShim, EncoderShim],
) -> dict[str, Any] | None:
    """Measure, or take the run's own scores if they are of the same weights."""
    base, encoder = encoders
    if not held_out:
        report = read_report(run)
        is_same = report is not None and report["encoder"]["trained"] == encoder.fingerprint
        return report["held_out"] if report is not None and is_same else None
    task = read_held_out(held_out)
    if learned.hash() != sha256:
        raise ValueError(Errors.E669.format(path=learned.path, run=run))
    check_held_out(task, learned.list_concepts(), learned.path)
    return measure_both(base, encoder, task)
