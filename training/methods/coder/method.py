"""CODER: an encoder trained on names and on the relations of a knowledge graph (Yuan et al., JBI 2022)."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from safetensors.torch import save_file

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists
from spacy_sapbert.files import write_whole
from spacy_sapbert.index import GB, find_available

from ...data.run_folder import RunReport
from ...encoders.card import Making, describe_length
from ...engine.method import Ending, Method, Model, TrainingData, copy_transformer
from ...engine.objectives import MultiSimilarityLoss, PairMiner, Pairs, cosines_between, list_pairs
from .data import Graph, TripletBatch, TripletSampler, load_graph
from .settings import CoderSettings, FamilySettings, RelationKind, RelationStart

FamilySettingsT = TypeVar("FamilySettingsT", bound=FamilySettings)
RELATIONS_FILE = "relations.safetensors"
# Of each number: itself, its gradient, and two moments of AdamW, in single precision.
FLOAT_BYTES, COPIES = 4, 4
TRANSLATIONS = ("transe", "transe_margin")


class Relations(torch.nn.Module):
    """Weights of relations, one entry per label. They compare each head, mapped by its relation, with all tails.

    "diagonal" and "full" are cosines of M_r^T h and t, with a vector (as in DistMult) or a matrix for each label; the
    others negative distances between h + r and t, without normalisation (TransE: Bordes et al., NIPS 2013).
    """

    def __init__(self, kind: RelationKind, weights: torch.Tensor) -> None:
        super().__init__()
        self.kind = kind
        self.weights = torch.nn.Parameter(weights)

    def forward(self, heads: torch.Tensor, labels: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        """Compute similarities, shape (heads, tails)."""
        if self.kind == "diagonal":
            return cosines_between(self.weights[labels] * heads, tails)
        if self.kind == "full":
            # A batch has few labels. Copying a matrix for each head would dominate the cost.
            parts = [(labels == label).nonzero()[:, 0] for label in labels.unique()]
            turned = torch.cat([heads[rows] @ self.weights[labels[rows[0]]] for rows in parts])
            return cosines_between(turned[torch.cat(parts).argsort()], tails)
        # Not by a matrix product, whose rounding errors hide small distances.
        return -torch.cdist(heads + self.weights[labels], tails, compute_mode="donot_use_mm_for_euclid_dist")

    def save(self, labels: Sequence[str], fingerprint: str, path: Path) -> None:
        """Save the weights with their labels and the fingerprint of the encoder they belong to."""
        kind = "transe" if self.kind in TRANSLATIONS else self.kind
        metadata = {"kind": kind, "labels": json.dumps(list(labels)), "encoder": fingerprint}
        with write_whole(path) as temporary:
            save_file({"relations": self.weights.detach().cpu().contiguous()}, temporary, metadata)


def make_relations(
    kind: RelationKind, labels: int, width: int, *, start: RelationStart | None = None, seed: int = 0
) -> Relations | None:
    """Initialise trainable relations."""
    if kind == "none":
        return None
    shape = (labels, width, width) if kind == "full" else (labels, width)
    if (start or ("normal" if kind in TRANSLATIONS else "identity")) == "normal":
        weights = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        # Scaled so that a matrix preserves the length of random vectors.
        weights = weights / width**0.5 if kind == "full" else weights
    elif kind == "full":
        weights = torch.eye(width).repeat(labels, 1, 1)
    else:
        weights = torch.full(shape, 0.0 if kind in TRANSLATIONS else 1.0)
    return Relations(kind, weights)


def check_memory(kind: RelationKind, labels: int, width: int, device: torch.device) -> None:
    """Refuse matrices that do not fit into memory, before it is asked for."""
    if kind != "full":
        return
    needed = labels * width**2 * FLOAT_BYTES * COPIES
    available = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else find_available()
    if available is not None and needed > available:
        raise MemoryError(
            f"Matrices of {labels:,} relations, {width} x {width} numbers each, need {needed / GB:.1f} GB with "
            f"gradients and moments, and {device} has {available / GB:.1f} GB left. Set loss.relations to diagonal, "
            f"which needs {needed / width / GB:.3f} GB, raise data.min_triples for fewer labels, or take a larger "
            "machine."
        )


class MinedLoss(NamedTuple):
    """A loss, and the numbers of mined pairs."""

    loss: torch.Tensor
    positives: int
    negatives: int
    share: float  # Of mined pairs among all pairs.


class SimilarityObjective:
    """The Multi-Similarity loss of mined pairs."""

    def __init__(self, alpha: float, beta: float, base: float, margin: float) -> None:
        self.loss = MultiSimilarityLoss(alpha, beta, base)
        self.miner = PairMiner(margin, "cosine")

    def __call__(self, similarities: torch.Tensor, pairs: Pairs) -> MinedLoss:
        """Compute the loss."""
        # The miner only compares differences, so negative similarities serve as distances.
        mined = self.miner.choose(-similarities, pairs)
        positives, negatives = int(mined.positives.sum()), int(mined.negatives.sum())
        n_pairs = int(pairs.positives.sum()) + int(pairs.negatives.sum())
        share = (positives + negatives) / max(1, n_pairs)
        return MinedLoss(self.loss.sum_up(similarities, mined), positives, negatives, share)


def compute_margin_loss(right: torch.Tensor, wrong: torch.Tensor, margin: float) -> MinedLoss:
    """Compute the mean of max(0, margin + |h + r - t| - |h + r - t'|) over triplets, with a random concept t' (TransE:
    Bordes et al., NIPS 2013). Both arguments are minus the distances, shape (k,)."""
    costs = torch.relu(margin + wrong - right)
    n_violated = int((costs > 0).sum())
    return MinedLoss(costs.mean(), n_violated, n_violated, n_violated / len(costs))


class CoderLoss:
    """L = L_MS + mu L_MS^rel, or the released code's variant: L_MS and a margin loss. Without relations, L_MS."""

    def __init__(self, settings: CoderSettings, relations: Relations | None, width: int) -> None:
        kind, weight = settings.loss.relations, settings.relations.weight
        self.relations = relations
        self.of_terms = SimilarityObjective(*settings.terms.resolve("none", width))
        constants = settings.relations.resolve(kind, width)
        self.of_relations = SimilarityObjective(*constants)
        self.margin = constants[-1] if kind == "transe_margin" else None
        # As in the paper: translations have a smaller weight.
        self.weight = (0.1 if kind == "transe" else 1.0) if weight is None else weight

    def __call__(
        self, embeddings: torch.Tensor, concepts: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, tuple[MinedLoss, MinedLoss | None]]:
        """Compute the loss of a batch, the sum and both parts, from the vectors and concepts of k heads, k tails and,
        for the margin loss, k random concepts, and the labels of k relations."""
        terms = self.of_terms(cosines_between(embeddings, embeddings), list_pairs(concepts))
        if self.relations is None:
            return terms.loss, (terms, None)
        heads, tails, *others = embeddings.split(len(labels))
        similarities = self.relations(heads, labels, tails)
        if self.margin is None:
            # A head's positive tails are all names of the tail of its triplet.
            of_tails = concepts.chunk(2)[1]
            same = of_tails[:, None] == of_tails[None, :]
            relations = self.of_relations(similarities, Pairs(same, same, ~same))
        else:
            wrong = self.relations(heads, labels, others[0])
            relations = compute_margin_loss(similarities.diagonal(), wrong.diagonal(), self.margin)
        return terms.loss + self.weight * relations.loss, (terms, relations)


class CoderModel(Model):
    """The transformer, and the relations if there are some."""

    def __init__(self, transformer: torch.nn.Module, relations: Relations | None = None) -> None:
        super().__init__(transformer)
        self.relations = relations


class CoderFamily(Method[FamilySettingsT], Generic[FamilySettingsT]):
    """What CODER and CODER++ have in common: updates of several batches, and an optimizer."""

    model: CoderModel
    tokens: TokenLists

    @abstractmethod
    def draw(self, number: int) -> Any:
        """Draw a batch, with the rows of its names as `names`."""

    @abstractmethod
    def learn(self, batch: Any, scale: float) -> dict[str, Any]:
        """Compute the gradient of a batch, and return what to log of it."""

    def draw_update(self, update: int) -> list[Any]:
        """Draw the batches of an update."""
        n = self.settings.batch.accumulation
        return [self.draw(update * n + i) for i in range(n)]

    def loss(self, batch: int, scale: float) -> dict[str, Any]:
        """Average the gradients of several batches, each with its own loss. See `Method.loss`."""
        drawn = self.draw_update(batch)
        entries = [self.learn(part, scale / len(drawn)) for part in drawn]
        totals = {name: sum(entry[name] for entry in entries) for name in entries[0]}
        # Counts are summed; losses and shares are averaged.
        return {name: n if isinstance(n, int) else n / len(drawn) for name, n in totals.items()}

    def take_tokens(self, names: np.ndarray) -> list[np.ndarray]:
        """Take the token ids of rows of names."""
        return [self.tokens[name] for name in names.tolist()]

    def make_optimizer(self) -> torch.optim.AdamW:
        """Group parameters by decay. As in CODER's released code, biases and layer normalisation do not decay."""
        how = self.settings.optimizer
        decaying: list[torch.nn.Parameter] = []
        others: list[torch.nn.Parameter] = []
        for module in self.model.transformer.modules():
            for name, parameter in module.named_parameters(recurse=False):
                is_spared = name == "bias" or isinstance(module, torch.nn.LayerNorm)
                (others if is_spared else decaying).append(parameter)
        groups: list[dict[str, Any]] = [{"params": decaying}, {"params": others, "weight_decay": 0.0}]
        if self.model.relations is not None:
            rate = (getattr(how, "relation_learning_rate", None) or how.learning_rate) / how.learning_rate
            groups.append({"params": list(self.model.relations.parameters()), "rate": rate})
        return torch.optim.AdamW(groups, lr=how.learning_rate, weight_decay=how.weight_decay)


class Coder(CoderFamily[CoderSettings]):
    """A run of CODER. See `Method`."""

    name = "coder"
    Settings = CoderSettings
    unit = "triplets"

    graph: Graph
    sampler: TripletSampler
    objective: CoderLoss

    def load(self) -> TrainingData:
        """Read triples and names. See `Method.load`."""
        paths = self.settings.paths
        self.graph = load_graph(paths, self.settings.data)
        if self.settings.loss.relations != "none" and (self.graph.tails == self.graph.tails[0]).all():
            concept = self.graph.concepts[int(self.graph.tails[0])]
            raise ValueError(
                f"All {len(self.graph)} triples of {paths.triples} that can be used have the same tail, {concept}, so "
                "that there is nothing to tell apart. Give triples with other tails, or set loss.relations to none."
            )
        return TrainingData(paths.terminology, self.graph.report, self.graph.identity, self.graph.concepts.to_list())

    def build(self) -> CoderModel:
        """Tokenise names, and make sampler, relations, loss and model. See `Method.build`."""
        settings, batch, n_labels = self.settings, self.settings.batch, len(self.graph.labels)
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
        check_memory(kind, n_labels, width, self.accelerator.device)
        relations = make_relations(kind, n_labels, width, start=settings.relations.start, seed=settings.run.seed)
        self.objective = CoderLoss(settings, relations, width)
        return CoderModel(copy_transformer(self.base.source, batch.dropout), relations)

    def draw(self, number: int) -> TripletBatch:
        """Draw a batch. See `CoderFamily.draw`."""
        return self.sampler.draw(number)

    def learn(self, batch: TripletBatch, scale: float) -> dict[str, Any]:
        """Compute the gradient of a batch. See `CoderFamily.learn`."""
        device = self.accelerator.device
        concepts, labels = (torch.from_numpy(rows).to(device) for rows in (batch.concepts, batch.relations))
        loss, (terms, relations) = self.gradient.compute(
            self.take_tokens(batch.names), lambda vectors: self.objective(vectors, concepts, labels), scale=scale
        )
        entry: dict[str, Any] = {"loss": loss}
        for name, part in (("term", terms), ("relation", relations)):
            if part is not None:
                entry |= {f"{name}_loss": float(part.loss.detach()), f"{name}_mined": round(part.share, 4)}
        counts = {"positives": terms.positives, "negatives": terms.negatives}
        return {**entry, "triplets": len(batch.relations), **counts}

    def describe_batch(self, batch: int) -> dict[str, Any]:
        """List names and relations. See `Method.describe_batch`."""
        drawn = self.draw_update(batch)
        return {
            "names": [self.graph.names.gather(part.names).to_list() for part in drawn],
            "relations": [[self.graph.labels[label] for label in part.relations.tolist()] for part in drawn],
        }

    def finish(self, trained: EncoderShim, ending: Ending) -> dict[str, Any]:
        """Save relations. See `Method.finish`."""
        path = self.folder.path / RELATIONS_FILE
        if self.model.relations is not None:
            self.model.relations.save(self.graph.labels, trained.fingerprint, path)
        return {}

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
