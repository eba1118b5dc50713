"""A run of CODER from settings to an encoder folder and relations."""

from __future__ import annotations

import platform
import time
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

from spacy_sapbert.encoder import EncoderShim

from ...data.run_folder import list_versions
from ...data.splits import check_held_out, measure_held_out, read_held_out
from ...data.tokens import Tokens
from ...encoders.bases import load_base
from ...encoders.card import Making, describe_length
from ...encoders.export import as_encoder, finish_encoder
from ...engine.adapters import count_trainable
from ...engine.finishing import finish_run, make_gradient, measure_ending
from ...engine.step_loop import Ending
from ...engine.tensorboard import check_tensorboard
from ...errors import Errors
from ..sapbert.run import copy_transformer
from .data import Graph, load_graph
from .loss import CoderLoss
from .relations import RELATIONS_FILE, make_relations, save_relations
from .sampler import TripletSampler
from .settings import CoderSettings
from .trainer import CoderLoop, CoderModel, count_triplets

# Enough to tell the speed of the sampler, and few enough to take no time.
TIMED_BATCHES = 50


def train_coder(settings: CoderSettings) -> dict[str, Any]:
    """Train an encoder on names and relations (Yuan et al., JBI 2022), and export both.

    settings (CoderSettings): All settings. The run goes on from the last checkpoint in its output folder.
    RETURNS (dict): What happened, as saved in `report.json`: settings, counts, scores before and after, versions.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If there is nothing to learn from, a concept is held out, or the output folder has a run with
        other settings, data or relations.
    """
    if settings.run.tensorboard:
        check_tensorboard()
    accelerator = Accelerator()
    set_seed(settings.run.seed)
    output = Path(settings.paths.output)
    base = load_base(settings.paths.encoder, settings.encoder)
    graph = load_graph(
        settings.paths.terminology,
        settings.paths.triples,
        languages=settings.languages,
        lower_case=settings.data.lower_case,
        min_triples=settings.data.min_triples,
    )
    check_tails(graph, settings)
    task = read_held_out(settings.paths.held_out) if settings.paths.held_out else None
    if task is not None:
        check_held_out(task, graph.concepts.to_list(), settings.paths.terminology)
    model, loss = make_model(settings, base, graph)
    model.to(accelerator.device)
    description = describe_coder_run(settings, graph, base, model)
    gradient = make_gradient(
        model.transformer,
        base,
        accelerator,
        precision=settings.run.precision,
        chunk_names=settings.batch.chunk_names,
        gradient_cache=settings.batch.gradient_cache,
    )
    loop = CoderLoop(
        settings,
        model,
        graph,
        Tokens(graph.names, base),
        gradient,
        loss,
        accelerator,
        base.fingerprint,
        None if task is None else lambda: measure_held_out(as_encoder(model.transformer, base), task),
        description,
    )
    ending = loop.run()
    if not accelerator.is_main_process:
        return {}
    share = settings.run.base_share
    trained = finish_encoder(model.transformer, base, adapter=None, base_share=share)
    # Of a run that was here before, with relations.
    (output / RELATIONS_FILE).unlink(missing_ok=True)
    if model.relations is not None:
        save_relations(model.relations, graph.labels, trained.fingerprint, output / RELATIONS_FILE)
    return finish_run(
        trained,
        output,
        description,
        training={**_describe_ending(settings, ending), "batches_drawn_per_second": time_sampler(loop.sampler)},
        scores=measure_ending(ending, base, trained, task),
        base_share=share,
        making=describe_coder,
    )


def check_tails(graph: Graph, settings: CoderSettings) -> None:
    """Refuse to learn relations that all lead to one concept: there would be nothing to tell apart.

    graph (Graph): Triples and names.
    settings (CoderSettings): Whether relations are learned.
    RAISES (ValueError): If they are, and do.
    """
    if settings.loss.relations != "none" and (graph.tails == graph.tails[0]).all():
        concept = graph.concepts[int(graph.tails[0])]
        raise ValueError(Errors.E804.format(path=settings.paths.triples, n=len(graph), concept=concept))


def make_model(settings: CoderSettings, base: EncoderShim, graph: Graph) -> tuple[CoderModel, CoderLoss]:
    """Make what is trained, and its loss.

    settings (CoderSettings): All settings.
    base (EncoderShim): The encoder to start from, which stays as it is.
    graph (Graph): Whose relations are learned.
    RETURNS (Tuple[CoderModel, CoderLoss]): Both.
    """
    width = base.source.transformer.config.hidden_size
    relations = make_relations(
        settings.loss.relations, len(graph.labels), width, start=settings.relations.start, seed=settings.run.seed
    )
    model = CoderModel(copy_transformer(base.source, settings.batch.dropout), relations)
    return model, CoderLoss(settings, relations, width)


def describe_coder_run(settings: CoderSettings, graph: Graph, base: EncoderShim, model: CoderModel) -> dict[str, Any]:
    """Say what is known of a run before it starts.

    settings (CoderSettings): All settings.
    graph (Graph): What it trains on.
    base (EncoderShim): What it starts from.
    model (CoderModel): What it trains.
    RETURNS (dict): JSON data, which the report has too.
    """
    relations = 0 if model.relations is None else count_trainable(model.relations)
    return {
        "settings": settings.to_dict(),
        "data": {**graph.report, "sha256": graph.identity},
        "encoder": {"base": base.fingerprint, **base.settings.to_dict()},
        "parameters": {"transformer": count_trainable(model.transformer), "relations": relations},
        "versions": list_versions("accelerate"),
        "machine": {"processor": platform.machine(), "threads": torch.get_num_threads()},
    }


def time_sampler(sampler: TripletSampler) -> float:
    """Measure how fast batches are drawn, to be held against how fast they are learned.

    sampler (TripletSampler): The sampler.
    RETURNS (float): Batches a second.
    """
    start = time.perf_counter()
    for number in range(TIMED_BATCHES):
        sampler.draw(number)
    return round(TIMED_BATCHES / (time.perf_counter() - start), 1)


def describe_coder(report: dict[str, Any]) -> Making:
    """Say how CODER was trained.

    report (dict): Of the run.
    RETURNS (Making): For the card.
    """
    settings, data = report["settings"], report["data"]
    batch, has_relations = settings["batch"], settings["loss"]["relations"] != "none"
    return Making(
        "coder",
        "CODER (Yuan et al., JBI 2022): names of one concept get similar vectors"
        + (", and those of a head, moved by its relation, and of its tail." if has_relations else "."),
        [
            f"Data: {data['triples']:,} triples with {len(data['labels'])} labels, {data['names']:,} names of "
            f"{data['concepts']:,} concepts; languages: {', '.join(data['names_by_language'])}.",
            describe_length(report["training"], f"updates of {batch['accumulation']} x {batch['triplets']} triplets"),
            f"Relations: {settings['loss']['relations']}; learning rate {settings['optimizer']['learning_rate']}; "
            f"seed {settings['run']['seed']}.",
        ],
    )


def _describe_ending(settings: CoderSettings, ending: Ending) -> dict[str, Any]:
    seconds = max(ending.seconds, 1e-9)
    return {
        "steps": ending.step,
        "ended": ending.reason,
        "seconds": round(ending.seconds, 1),
        "triplets_per_second": round(ending.step * count_triplets(settings) / seconds, 1),
        "batches_per_second": round(ending.step * settings.batch.accumulation / seconds, 2),
    }
