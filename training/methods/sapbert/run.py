"""SapBERT: an encoder that has learned which names mean the same (Liu et al., NAACL 2021)."""

from __future__ import annotations

import copy
import platform
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

from spacy_sapbert.encoder import EncoderShim, EncoderSource

from ...data.pairs import PairData, load_pairs
from ...data.run_folder import list_versions
from ...data.splits import check_held_out, measure_held_out, read_held_out
from ...data.tokens import Tokens
from ...encoders.bases import load_base
from ...encoders.card import describe_sapbert
from ...encoders.export import as_encoder, finish_encoder
from ...engine.adapters import add_adapter, count_trainable, save_adapter
from ...engine.batches import make_batches
from ...engine.finishing import find_autocast, finish_run, measure_ending
from ...engine.gradient import GradientStep, Objective
from ...engine.loop import Ending, TrainingLoop
from ...engine.objectives import make_loss, make_miner
from ...engine.settings import TrainingSettings
from ...engine.tensorboard import check_tensorboard

ADAPTER_FOLDER = "adapter"


def pretrain(settings: TrainingSettings) -> dict[str, Any]:
    """Train an encoder on pairs of names, and export it.

    settings (TrainingSettings): All settings. The run goes on from the last checkpoint in its output folder.
    RETURNS (dict): What happened, as saved in `report.json`: settings, counts, scores before and after, versions.
    RAISES (ValueError): If there are pairs of a concept that is held out.
    """
    if settings.run.tensorboard:
        check_tensorboard()
    accelerator = Accelerator()
    set_seed(settings.run.seed)
    base = load_base(settings.paths.encoder, settings.encoder)
    data = load_pairs(settings.paths.pairs)
    task = read_held_out(settings.paths.held_out) if settings.paths.held_out else None
    if task is not None:
        check_held_out(task, data.concepts.to_list(), settings.paths.pairs)
    tokens = Tokens(data.names, base)
    with accelerator.main_process_first():
        batches = make_batches(settings, data, base)
    transformer = make_trainable(base.source, settings).to(accelerator.device)
    description = describe_run(settings, data, base)
    loop = TrainingLoop(
        settings,
        transformer,
        data,
        tokens,
        batches,
        make_step(settings, transformer, base, accelerator),
        accelerator,
        base.fingerprint,
        None if task is None else lambda: measure_held_out(as_encoder(transformer, base), task),
        description,
    )
    ending = loop.run()
    if not accelerator.is_main_process:
        return {}
    share, kind = settings.run.base_share, settings.adapter.kind
    trained = finish_encoder(transformer, base, adapter=kind, base_share=share)
    scores = measure_ending(ending, base, trained, task)
    output = Path(settings.paths.output)
    if kind == "bottleneck":
        # It can't be merged: whoever wants these vectors has to load the base and the adapter.
        save_adapter(transformer, output / ADAPTER_FOLDER)
    return finish_run(
        trained,
        output,
        description,
        training={**_describe_ending(settings, ending), "trainable_parameters": count_trainable(transformer)},
        scores=scores,
        base_share=share,
        making=None if kind == "bottleneck" else describe_sapbert,
    )


def make_trainable(source: EncoderSource, settings: TrainingSettings) -> torch.nn.Module:
    """Copy an encoder's transformer, in single precision and ready to train.

    source (EncoderSource): The encoder, which stays as it is.
    settings (TrainingSettings): Dropout and adapter.
    RETURNS (Module): The copy, in training mode.
    """
    transformer = copy_transformer(source, settings.batch.dropout)
    if settings.adapter.kind is not None:
        add_adapter(transformer, settings.adapter)
    return transformer.train()


def copy_transformer(source: EncoderSource, dropout: float | None) -> torch.nn.Module:
    """Copy an encoder's transformer, in single precision and ready to train.

    source (EncoderSource): The encoder, which stays as it is.
    dropout (Optional[float]): In place of the encoder's own.
    RETURNS (Module): The copy, in training mode.
    """
    transformer = copy.deepcopy(source.transformer).float().requires_grad_(True)
    if dropout is not None:
        for module in transformer.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
    return transformer.train()


def make_step(
    settings: TrainingSettings, transformer: torch.nn.Module, base: EncoderShim, accelerator: Accelerator
) -> GradientStep:
    """Make what computes gradients.

    settings (TrainingSettings): Objective, chunks and precision.
    transformer (Module): The model to train.
    base (EncoderShim): The encoder it comes from, for tokenizer and pooling.
    accelerator (Accelerator): Devices.
    RETURNS (GradientStep): The function.
    """
    objective = settings.objective
    return GradientStep(
        transformer,
        base.settings,
        Objective(
            make_loss(objective.loss, objective.preset, **objective.constants),  # type: ignore[arg-type]
            make_miner(objective.miner, objective.margin),  # type: ignore[arg-type]
        ),
        accelerator,
        pad_id=base.source.tokenizer.pad_token_id or 0,
        chunk_names=settings.batch.chunk_names,
        gradient_cache=settings.batch.gradient_cache,
        autocast=find_autocast(settings.run.precision, accelerator.device),
    )


def describe_run(settings: TrainingSettings, data: PairData, base: EncoderShim) -> dict[str, Any]:
    """Say what is known of a run before it starts.

    settings (TrainingSettings): All settings.
    data (PairData): What it trains on.
    base (EncoderShim): What it starts from.
    RETURNS (dict): JSON data, which the report has too.
    """
    return {
        "settings": settings.to_dict(),
        "data": {"pairs": len(data), "names": len(data.names), "sha256": data.sha256},
        "encoder": {"base": base.fingerprint, **base.settings.to_dict()},
        "versions": list_versions("accelerate"),
        "machine": {"processor": platform.machine(), "threads": torch.get_num_threads()},
    }


def _describe_ending(settings: TrainingSettings, ending: Ending) -> dict[str, Any]:
    return {
        "steps": ending.step,
        "ended": ending.reason,
        "seconds": round(ending.seconds, 1),
        "pairs_per_second": round(ending.step * settings.batch.pairs / max(ending.seconds, 1e-9), 1),
    }
