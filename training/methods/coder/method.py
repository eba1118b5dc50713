"""CODER: an encoder trained on names and on the relations of a knowledge graph (Yuan et al., JBI 2022)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists

from ...data.run_folder import RunReport
from ...encoders.card import Making, describe_length
from ...engine.method import Ending, Method, Model, TrainingData, copy_transformer
from .data import Graph, TripletBatch, TripletSampler, load_graph
from .loss import (
    RELATIONS_FILE,
    BatchLabels,
    CoderLoss,
    MinedLoss,
    Relations,
    check_memory,
    group_by_decay,
    make_relations,
    save_relations,
)
from .settings import CoderOptimizer, CoderSettings

# Enough to measure the sampler's speed, and fast.
TIMED_BATCHES = 50


class CoderModel(Model):
    """The transformer and the relations; None for only the term loss."""

    def __init__(self, transformer: torch.nn.Module, relations: Relations | None) -> None:
        super().__init__(transformer)
        self.relations = relations

    def group_parameters(self, settings: CoderOptimizer) -> list[dict[str, Any]]:
        """Group parameters by decay and learning rate."""
        groups = group_by_decay(self.transformer)
        if self.relations is not None:
            rate = (settings.relation_learning_rate or settings.learning_rate) / settings.learning_rate
            groups.append({"params": list(self.relations.parameters()), "rate": rate})
        return groups


class Coder(Method[CoderSettings]):
    """A run of CODER. See `Method`."""

    name = "coder"
    Settings = CoderSettings
    unit = "triplets"

    model: CoderModel
    graph: Graph
    tokens: TokenLists
    sampler: TripletSampler
    objective: CoderLoss

    def load(self) -> TrainingData:
        """Read names and triples. See `Method.load`."""
        paths, data = self.settings.paths, self.settings.data
        self.graph = load_graph(
            paths.terminology,
            paths.triples,
            data.list_languages(),
            lower_case=data.lower_case,
            clean_names=data.clean_names,
            min_triples=data.min_triples,
        )
        if self.settings.loss.relations != "none" and (self.graph.tails == self.graph.tails[0]).all():
            concept = self.graph.concepts[int(self.graph.tails[0])]
            raise ValueError(
                f"All {len(self.graph)} triples of {paths.triples} that can be used have the same tail, {concept}, so "
                "that there is nothing to tell apart. Give triples with other tails, or set loss.relations to none."
            )
        return TrainingData(paths.terminology, self.graph.report, self.graph.identity, self.graph.concepts.to_list())

    def build(self) -> CoderModel:
        """Tokenise names, and make sampler, relations, loss and model. See `Method.build`."""
        settings, batch = self.settings, self.settings.batch
        kind, width = settings.loss.relations, self.base.source.transformer.config.hidden_size
        self.tokens = self.make_tokens(self.graph.names, self.base)
        self.sampler = TripletSampler(
            self.graph,
            batch.triplets,
            batch.repetitions,
            seed=settings.run.seed,
            label_balance=batch.label_balance,
            random_concepts=kind == "transe_margin",
        )
        n_labels = len(self.graph.labels)
        check_memory(kind, n_labels, width, self.accelerator.device)
        relations = make_relations(kind, n_labels, width, start=settings.relations.start, seed=settings.run.seed)
        self.objective = CoderLoss(settings, relations, width)
        return CoderModel(copy_transformer(self.base.source, settings.batch.dropout), relations)

    def make_optimizer(self) -> torch.optim.AdamW:
        """Group parameters by decay and learning rate. See `Method.make_optimizer`."""
        how = self.settings.optimizer
        groups = self.model.group_parameters(how)
        return torch.optim.AdamW(groups, lr=how.learning_rate, weight_decay=how.weight_decay)

    def _draw(self, update: int) -> list[TripletBatch]:
        n = self.settings.batch.accumulation
        return [self.sampler.draw(update * n + i) for i in range(n)]

    def loss(self, batch: int, scale: float) -> dict[str, Any]:
        """Average the gradients of several batches, each with its own loss. See `Method.loss`."""
        n = self.settings.batch.accumulation
        entries = [self._learn(drawn, scale / n) for drawn in self._draw(batch)]
        # Losses and shares are averaged, pairs are summed over batches.
        means = {name: sum(entry[name] for entry in entries) / n for name in entries[0]}
        counts = {name: sum(entry[name] for entry in entries) for name in ("positives", "negatives")}
        return {**means, "triplets": n * self.settings.batch.triplets, **counts}

    def _learn(self, batch: TripletBatch, scale: float) -> dict[str, float]:
        labels = self._label(batch)
        tokens = [self.tokens[name] for name in batch.names.tolist()]
        loss, (terms, relations) = self.gradient.compute(
            tokens, lambda embeddings: self.objective(embeddings, labels), scale=scale
        )
        return {"loss": loss, **_measure("term", terms), **(_measure("relation", relations) if relations else {})}

    def _label(self, batch: TripletBatch) -> BatchLabels:
        device, settings = self.accelerator.device, self.settings

        def move(values: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(values).to(device)

        is_masked = settings.relations.mask_known and settings.loss.relations in ("diagonal", "full", "transe")
        return BatchLabels(
            move(batch.concepts),
            move(batch.relations),
            move(self.sampler.find_known(batch)) if is_masked else None,
            move(batch.names) if settings.loss.ignore_homonyms else None,
        )

    def describe_batch(self, batch: int) -> dict[str, Any]:
        """List names and relations. See `Method.describe_batch`."""
        drawn = self._draw(batch)
        return {
            "names": [self.graph.names.gather(part.names).to_list() for part in drawn],
            "relations": [[self.graph.labels[label] for label in part.relations.tolist()] for part in drawn],
        }

    def finish(self, trained: EncoderShim, ending: Ending) -> dict[str, Any]:
        """Save relations, and compare the speeds of drawing batches and of training. See `Method.finish`."""
        path = self.folder.path / RELATIONS_FILE
        if self.model.relations is not None:
            save_relations(self.model.relations, self.graph.labels, trained.fingerprint, path)
        else:
            # Remove the relations of an earlier run.
            path.unlink(missing_ok=True)
        start = time.perf_counter()
        for number in range(TIMED_BATCHES):
            self.sampler.draw(number)
        drawn = TIMED_BATCHES / (time.perf_counter() - start)
        learned = ending.step * self.settings.batch.accumulation / max(ending.seconds, 1e-9)
        return {"batches_per_second": round(learned, 2), "batches_drawn_per_second": round(drawn, 1)}

    @classmethod
    def describe(cls, report: RunReport) -> Making:
        """Describe the training. See `Method.describe`."""
        settings, data = report.settings, report.data
        batch, has_relations = settings["batch"], settings["loss"]["relations"] != "none"
        return Making(
            "coder",
            "CODER (Yuan et al., JBI 2022): names of one concept get similar vectors"
            + (", and those of a head, moved by its relation, and of its tail." if has_relations else "."),
            [
                f"Data: {data['triples']:,} triples with {len(data['labels'])} labels, {data['names']:,} names of "
                f"{data['concepts']:,} concepts; languages: {', '.join(data['names_by_language'])}.",
                describe_length(report.training, f"updates of {batch['accumulation']} x {batch['triplets']} triplets"),
                f"Relations: {settings['loss']['relations']}; learning rate {settings['optimizer']['learning_rate']}; "
                f"seed {settings['run']['seed']}.",
            ],
        )


def _measure(name: str, part: MinedLoss) -> dict[str, float]:
    counts = {"positives": part.positives, "negatives": part.negatives} if name == "term" else {}
    return {f"{name}_loss": float(part.loss.detach()), f"{name}_mined": round(part.share, 4), **counts}
