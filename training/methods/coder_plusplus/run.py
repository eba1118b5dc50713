"""A run of CODER++ from settings to an encoder folder."""

from __future__ import annotations

import platform
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, set_seed

from spacy_sapbert.compat import has_scann
from spacy_sapbert.encoder import EncoderShim

from ...data.run_folder import list_versions
from ...data.splits import check_held_out, measure_held_out, read_held_out
from ...encoders.bases import load_base
from ...encoders.card import Making, describe_length
from ...encoders.export import as_encoder, finish_encoder
from ...engine.adapters import count_trainable
from ...engine.finishing import finish_run, make_gradient, measure_ending
from ...engine.metrics import read_metrics
from ...engine.step_loop import Ending
from ...engine.tensorboard import check_tensorboard
from ..sapbert.run import copy_transformer
from .data import NameTable, load_name_table
from .settings import CoderPlusPlusSettings
from .trainer import CoderPlusPlusLoop


def train_coder_plusplus(settings: CoderPlusPlusSettings) -> dict[str, Any]:
    """Train an encoder on names beside their nearest ones (CODER++: Zeng et al., BioNLP 2022), and export it.

    settings (CoderPlusPlusSettings): All settings. The run goes on from the last checkpoint in its output folder.
    RETURNS (dict): What happened, as saved in `report.json`: settings, counts, scores before and after, versions.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If there is nothing to learn from, a concept is held out, or the output folder has a run with
        other settings or names.
    """
    if settings.run.tensorboard:
        check_tensorboard()
    # The others wait while one process encodes all names.
    accelerator = Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours=12))])
    set_seed(settings.run.seed)
    base = load_base(settings.paths.encoder, settings.encoder)
    table = load_name_table(
        settings.paths.terminology,
        languages=settings.languages,
        lower_case=settings.data.lower_case,
        neighbours=settings.batch.neighbours,
    )
    task = read_held_out(settings.paths.held_out) if settings.paths.held_out else None
    if task is not None:
        check_held_out(task, table.concepts.to_list(), settings.paths.terminology)
    transformer = copy_transformer(base.source, settings.batch.dropout).to(accelerator.device)
    gradient = make_gradient(
        transformer,
        base,
        accelerator,
        precision=settings.run.precision,
        chunk_names=settings.batch.chunk_names,
        gradient_cache=settings.batch.gradient_cache,
    )
    description = describe_coder_plusplus_run(settings, table, base, transformer)
    loop = CoderPlusPlusLoop(
        settings,
        transformer,
        table,
        gradient,
        accelerator,
        base,
        None if task is None else lambda: measure_held_out(as_encoder(transformer, base), task),
        description,
    )
    ending = loop.run()
    if not accelerator.is_main_process:
        return {}
    share = settings.run.base_share
    trained = finish_encoder(transformer, base, adapter=None, base_share=share)
    return finish_run(
        trained,
        Path(settings.paths.output),
        description,
        training={**_describe_ending(settings, ending), "refreshes": _list_refreshes(settings)},
        scores=measure_ending(ending, base, trained, task),
        base_share=share,
        making=describe_coder_plusplus,
    )


def describe_coder_plusplus_run(
    settings: CoderPlusPlusSettings, table: NameTable, base: EncoderShim, transformer: torch.nn.Module
) -> dict[str, Any]:
    """Say what is known of a run before it starts.

    settings (CoderPlusPlusSettings): All settings.
    table (NameTable): What it trains on.
    base (EncoderShim): What it starts from.
    transformer (Module): What it trains.
    RETURNS (dict): JSON data, which the report has too.
    """
    return {
        "settings": settings.to_dict(),
        "data": {**table.report, "sha256": table.identity},
        "encoder": {"base": base.fingerprint, **base.settings.to_dict()},
        "parameters": {"transformer": count_trainable(transformer)},
        "versions": list_versions("accelerate", *(["scann"] if has_scann() else [])),
        "machine": {"processor": platform.machine(), "threads": torch.get_num_threads()},
    }


def describe_coder_plusplus(report: dict[str, Any]) -> Making:
    """Say how CODER++ was trained.

    report (dict): Of the run.
    RETURNS (Making): For the card.
    """
    settings, data = report["settings"], report["data"]
    batch = settings["batch"]
    return Making(
        "coder",
        "CODER++ (Zeng et al., BioNLP 2022): names are told from those that were nearest to them.",
        [
            f"Data: {data['names']:,} names of {data['concepts']:,} concepts; languages: "
            f"{', '.join(data['names_by_language'])}.",
            describe_length(report["training"], f"updates of {batch['accumulation']} x {batch['groups']} groups"),
            f"Groups: a name, {batch['neighbours']} neighbours, looked for every {batch['refresh_steps']:,} updates, "
            f"{batch['synonyms']} synonyms at most; learning rate {settings['optimizer']['learning_rate']}; "
            f"seed {settings['run']['seed']}.",
        ],
    )


def _describe_ending(settings: CoderPlusPlusSettings, ending: Ending) -> dict[str, Any]:
    groups = ending.step * settings.batch.groups * settings.batch.accumulation
    return {
        "steps": ending.step,
        "ended": ending.reason,
        "seconds": round(ending.seconds, 1),
        "groups_per_second": round(groups / max(ending.seconds, 1e-9), 2),
    }


def _list_refreshes(settings: CoderPlusPlusSettings) -> list[dict[str, Any]]:
    """List how neighbours were looked for, in all runs that were needed."""
    entries = read_metrics(settings.paths.output)
    return [{"step": entry["step"] - 1, **entry["refresh"]} for entry in entries if "refresh" in entry]
