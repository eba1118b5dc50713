"""The training loop of CODER: batches of triplets, several in each update of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from spacy_sapbert.files import read_manifest

from ...data.tokens import Tokens
from ...engine.checkpoint import CHECKPOINT_FILE, list_checkpoints
from ...engine.checkpoint import FORMAT_VERSION as CHECKPOINT_VERSION
from ...engine.gradient import ChunkedGradient
from ...engine.step_loop import CHECKPOINTS, Ending, StepLoop
from ...errors import Errors
from .data import Graph
from .loss import BatchLabels, CoderLoss, MinedLoss
from .relations import Relations
from .sampler import TripletBatch, TripletSampler
from .settings import CoderOptimizer, CoderSettings


class CoderModel(torch.nn.Module):
    """What is trained: the transformer and the relations.

    transformer (Module): The model, in training mode.
    relations (Optional[Relations]): None for terms alone.
    """

    def __init__(self, transformer: torch.nn.Module, relations: Relations | None) -> None:
        super().__init__()
        self.transformer = transformer
        self.relations = relations

    def list_groups(self, settings: CoderOptimizer) -> list[dict[str, Any]]:
        """Group parameters by their decay and learning rate, as `StepLoop` takes them.

        settings (CoderOptimizer): Both.
        RETURNS (List[dict]): The groups.
        """
        groups = group_by_decay(self.transformer)
        if self.relations is not None:
            rate = (settings.relation_learning_rate or settings.learning_rate) / settings.learning_rate
            groups.append({"params": list(self.relations.parameters()), "rate": rate})
        return groups


def group_by_decay(transformer: torch.nn.Module) -> list[dict[str, Any]]:
    """Group parameters for `AdamW`: as in the released code, biases and layer normalisation do not decay.

    transformer (Module): The model.
    RETURNS (List[dict]): The groups.
    """
    decaying: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for module in transformer.modules():
        for name, parameter in module.named_parameters(recurse=False):
            is_spared = name == "bias" or isinstance(module, torch.nn.LayerNorm)
            (others if is_spared else decaying).append(parameter)
    return [{"params": decaying}, {"params": others, "weight_decay": 0.0}]


class CoderLoop(StepLoop[int]):
    """Run the updates of one training.

    settings (CoderSettings): All settings.
    model (CoderModel): The model, on its device.
    graph (Graph): Triples and names.
    tokens (Tokens): Of the names.
    gradient (ChunkedGradient): Computes gradients.
    loss (CoderLoss): Of a batch.
    accelerator (Accelerator): Devices.
    base (str): The fingerprint of the encoder that training starts from.
    evaluate (Optional[Callable]): As for `StepLoop`.
    description (Optional[dict]): As for `StepLoop`.
    """

    def __init__(
        self,
        settings: CoderSettings,
        model: CoderModel,
        graph: Graph,
        tokens: Tokens,
        gradient: ChunkedGradient,
        loss: CoderLoss,
        accelerator: Accelerator,
        base: str,
        evaluate: Callable[[], dict[str, Any]] | None = None,
        description: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            model,
            model.list_groups(settings.optimizer),
            output=Path(settings.paths.output),
            optimizer=settings.optimizer,
            limits=settings.batch,
            run=settings.run,
            n_steps=settings.batch.max_steps or None,
            accelerator=accelerator,
            evaluate=evaluate,
            description=description,
        )
        self.settings = settings
        self.graph = graph
        self.tokens = tokens
        self.gradient = gradient
        self.loss = loss
        self.base = base
        batch = settings.batch
        self.sampler = TripletSampler(
            graph,
            batch.triplets,
            batch.repetitions,
            seed=settings.run.seed,
            label_balance=batch.label_balance,
            random_concepts=settings.loss.relations == "transe_margin",
        )

    def run(self) -> Ending:
        """See `StepLoop`.

        RAISES (ValueError): As there; and if the last checkpoint has learned other relations.
        """
        self._check_labels()
        return super().run()

    def iterate(self, start: int) -> Iterator[int]:
        """See `StepLoop`: the numbers of the updates, without an end: `batch.max_steps` and `max_minutes` are one."""
        return count(start)

    def compute_gradients(self, batch: int, scale: float) -> dict[str, Any]:
        """See `StepLoop`. The gradient is the mean of those of the batches, each of which has a loss of its own."""
        n = self.settings.batch.accumulation
        entries = [self._learn(self.sampler.draw(batch * n + i), scale / n) for i in range(n)]
        # Means of losses and shares; pairs of all batches.
        means = {name: sum(entry[name] for entry in entries) / n for name in entries[0]}
        counts = {name: sum(entry[name] for entry in entries) for name in ("positives", "negatives")}
        return {**means, "triplets": n * self.settings.batch.triplets, **counts}

    def _learn(self, batch: TripletBatch, scale: float) -> dict[str, float]:
        labels = self._label(batch)
        tokens = [self.tokens[name] for name in batch.names.tolist()]
        loss, (terms, relations) = self.gradient.compute(
            tokens, lambda embeddings: self.loss(embeddings, labels), scale=scale
        )
        return {"loss": loss, **_describe("term", terms), **(_describe("relation", relations) if relations else {})}

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
        """See `StepLoop`."""
        n = self.settings.batch.accumulation
        drawn = [self.sampler.draw(batch * n + i) for i in range(n)]
        return {
            "names": [self.graph.names.gather(part.names).to_list() for part in drawn],
            "relations": [[self.graph.labels[label] for label in part.relations.tolist()] for part in drawn],
        }

    def decisive(self) -> dict[str, Any]:
        """See `StepLoop`."""
        return {
            **self.settings.decisive(),
            "graph": self.graph.identity,
            "base": {"fingerprint": self.base},
            "labels": list(self.graph.labels),
        }

    def describe_speed(self) -> dict[str, str]:
        """See `StepLoop`."""
        return {"triplets": f"{self.step * count_triplets(self.settings) / max(self.seconds, 1e-9):.0f}/s"}

    def _check_labels(self) -> None:
        """Refuse a checkpoint of other relations by their names: numbers would be given to others."""
        for path in list_checkpoints(self.output / CHECKPOINTS)[-1:]:
            learned = read_manifest(path / CHECKPOINT_FILE, CHECKPOINT_VERSION, check_files=False)["settings"]
            former, present = set(learned.get("labels", [])), set(self.graph.labels)
            if former != present:
                gone, new = (
                    ", ".join(sorted(labels)[:10]) or "none" for labels in (former - present, present - former)
                )
                raise ValueError(Errors.E805.format(path=path, gone=gone, new=new))


def count_triplets(settings: CoderSettings) -> int:
    """Count the triplets of an update.

    settings (CoderSettings): All settings.
    RETURNS (int): Triplets.
    """
    return settings.batch.triplets * settings.batch.accumulation


def _describe(name: str, part: MinedLoss) -> dict[str, float]:
    counts = {"positives": part.positives, "negatives": part.negatives} if name == "term" else {}
    return {f"{name}_loss": float(part.loss.detach()), f"{name}_mined": round(part.share, 4), **counts}
