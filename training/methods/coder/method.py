"""CODER: an encoder trained on names and on the relations of a knowledge graph (Yuan et al., JBI 2022). CODER++: each
name is contrasted with its nearest neighbours, searched again as the encoder changes (Zeng et al., BioNLP 2022)."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from safetensors.torch import save_file

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import write_whole
from spacy_sapbert.index import GB, find_available
from spacy_sapbert.ragged import TokenLists

from ...encoders.embeddings import Embeddings
from ...engine.checkpoints import STEPS, list_checkpoints, read_step
from ...engine.method import Ending, Method, Model, TrainingData, copy_transformer
from ...engine.nearest import search_others
from ...engine.objectives import MultiSimilarityLoss, PairMiner, Pairs, cosines_between, list_pairs
from .data import (
    Graph,
    GroupedNames,
    GroupSampler,
    SynonymTable,
    TripletBatch,
    TripletSampler,
    load_graph,
    load_synonyms,
)
from .settings import CoderPlusPlusSettings, CoderSettings, FamilySettings, RelationKind, RelationStart

FamilySettingsT = TypeVar("FamilySettingsT", bound=FamilySettings)
RELATIONS_FILE = "relations.safetensors"
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
    # Of each number: itself, its gradient, and two moments of AdamW, in single precision.
    needed = labels * width**2 * 4 * 4
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


def measure_similarities(similarities: torch.Tensor, pairs: Pairs, constants: Sequence[float]) -> MinedLoss:
    """Compute the Multi-Similarity loss of mined pairs. The constants are alpha, beta, base and the miner's margin."""
    *of_loss, margin = constants
    # The miner only compares differences, so negative similarities serve as distances.
    mined = PairMiner(margin, "cosine").choose(-similarities, pairs)
    positives = int(mined.positives.sum())
    negatives = int(mined.negatives.sum())
    n_pairs = int(pairs.positives.sum()) + int(pairs.negatives.sum())
    loss = MultiSimilarityLoss(*of_loss).sum_up(similarities, mined)
    return MinedLoss(loss, positives, negatives, (positives + negatives) / max(1, n_pairs))


class CoderLoss:
    """L = L_MS + mu L_MS^rel, or the released code's variant: L_MS and a margin loss. Without relations, L_MS."""

    def __init__(self, settings: CoderSettings, relations: Relations | None, width: int) -> None:
        self.kind = settings.loss.relations
        weight = settings.relations.weight
        self.relations = relations
        self.of_terms = settings.terms.resolve("none", width)
        self.of_relations = settings.relations.resolve(self.kind, width)
        # As in the paper: translations have a smaller weight.
        self.weight = (0.1 if self.kind == "transe" else 1.0) if weight is None else weight

    def __call__(
        self, embeddings: torch.Tensor, concepts: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, tuple[MinedLoss, MinedLoss | None]]:
        """Compute the loss of a batch, the sum and both parts, from the vectors and concepts of k heads, k tails and,
        for the margin loss, k random concepts, and the labels of k relations."""
        terms = measure_similarities(cosines_between(embeddings, embeddings), list_pairs(concepts), self.of_terms)
        if self.relations is None:
            return terms.loss, (terms, None)
        heads, tails, *others = embeddings.split(len(labels))
        similarities = self.relations(heads, labels, tails)
        if self.kind != "transe_margin":
            # A head's positive tails are all names of the tail of its triplet.
            of_tails = concepts.chunk(2)[1]
            same = of_tails[:, None] == of_tails[None, :]
            relations = measure_similarities(similarities, Pairs(same, same, ~same), self.of_relations)
        else:
            # The mean of max(0, margin + |h + r - t| - |h + r - t'|) over triplets, with a random concept t'.
            wrong = self.relations(heads, labels, others[0]).diagonal()
            costs = torch.relu(self.of_relations[-1] + wrong - similarities.diagonal())
            n_violated = int((costs > 0).sum())
            relations = MinedLoss(costs.mean(), n_violated, n_violated, n_violated / len(costs))
        return terms.loss + self.weight * relations.loss, (terms, relations)


class CoderFamily(Method[FamilySettingsT], Generic[FamilySettingsT]):
    """What CODER and CODER++ have in common: updates of several batches, and an optimizer."""

    table: Any
    relations: Relations | None = None
    tokens: TokenLists

    @abstractmethod
    def _draw(self, number: int) -> Any: ...

    @abstractmethod
    def _learn(self, batch: Any, scale: float) -> dict[str, Any]: ...

    def loss(self, batch: int, scale: float) -> dict[str, Any]:
        """Average the gradients of several batches, each with its own loss. See `Method.loss`."""
        n = self.settings.batch.accumulation
        entries = [self._learn(self._draw(batch * n + i), scale / n) for i in range(n)]
        totals = {name: sum(entry[name] for entry in entries) for name in entries[0]}
        # Counts are summed; losses and shares are averaged.
        return {name: total if isinstance(total, int) else total / n for name, total in totals.items()}

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
        if self.relations is not None:
            rate = (getattr(how, "relation_learning_rate", None) or how.learning_rate) / how.learning_rate
            groups.append({"params": list(self.relations.parameters()), "rate": rate})
        return torch.optim.AdamW(groups, lr=how.learning_rate, weight_decay=how.weight_decay)


class Coder(CoderFamily[CoderSettings]):
    """A run of CODER. See `Method`."""

    name = "coder"
    purpose = (
        "CODER (Yuan et al., JBI 2022): names of one concept get similar vectors. With relations, so do a head, moved "
        "by its relation, and its tail."
    )
    Settings = CoderSettings
    unit = "triplets"

    table: Graph

    def load(self) -> TrainingData:
        paths = self.settings.paths
        self.table = load_graph(paths, self.settings.data)
        if self.settings.loss.relations != "none" and (self.table.tails == self.table.tails[0]).all():
            concept = self.table.concepts[int(self.table.tails[0])]
            raise ValueError(
                f"All {len(self.table.heads)} triples of {paths.triples} that can be used have one tail, {concept}, so "
                "that there is nothing to tell apart. Give triples with other tails, or set loss.relations to none."
            )
        return TrainingData(paths.terminology, self.table.report, self.table.identity, self.table.concepts.to_list())

    def build(self) -> Model:
        settings = self.settings
        batch = self.settings.batch
        n_labels = len(self.table.labels)
        kind = settings.loss.relations
        width = self.base.source.transformer.config.hidden_size
        self.tokens = self.make_tokens(self.table.names, self.base)
        sizes = batch.triplets, batch.repetitions
        self.sampler = TripletSampler(
            self.table, *sizes, settings.run.seed, batch.label_balance, random_concepts=kind == "transe_margin"
        )
        check_memory(kind, n_labels, width, self.accelerator.device)
        self.relations = make_relations(kind, n_labels, width, start=settings.relations.start, seed=settings.run.seed)
        self.objective = CoderLoss(settings, self.relations, width)
        return Model(copy_transformer(self.base.source, batch.dropout), relations=self.relations)

    def _draw(self, number: int) -> TripletBatch:
        return self.sampler.draw(number)

    def _learn(self, batch: TripletBatch, scale: float) -> dict[str, Any]:
        device = self.accelerator.device
        concepts, labels = (torch.from_numpy(rows).to(device) for rows in (batch.concepts, batch.relations))
        loss, (terms, relations) = self.gradient.compute(
            [self.tokens[name] for name in batch.names.tolist()],
            lambda vectors: self.objective(vectors, concepts, labels),
            scale=scale,
        )
        entry: dict[str, Any] = {"loss": loss}
        for name, part in (("term", terms), ("relation", relations)):
            if part is not None:
                entry |= {f"{name}_loss": float(part.loss.detach()), f"{name}_mined": round(part.share, 4)}
        counts = {"positives": terms.positives, "negatives": terms.negatives}
        return {**entry, "triplets": len(batch.relations), **counts}

    def finish(self, trained: EncoderShim, ending: Ending) -> dict[str, Any]:
        if self.relations is not None:
            self.relations.save(self.table.labels, trained.fingerprint, self.folder.path / RELATIONS_FILE)
        return {}


class CoderPlusPlus(CoderFamily[CoderPlusPlusSettings]):
    """A run of CODER++. See `Method`.

    At the start of each period of `batch.refresh_steps` updates, all names are encoded and indexed, and the neighbours
    of the period's anchors are stored in a file, so that a run resumed within the period uses the same. The released
    code searches neighbours of all names, although most do not become anchors before the next refresh.
    """

    name = "coder_plusplus"
    purpose = "CODER++ (Zeng et al., BioNLP 2022): each name is contrasted with its nearest neighbours."
    Settings = CoderPlusPlusSettings
    unit = "groups"

    table: SynonymTable
    # Of the present period: the names that become anchors, ascending, and the neighbours of each.
    anchors: np.ndarray = np.empty(0, dtype=np.int64)
    neighbours: np.ndarray

    def load(self) -> TrainingData:
        path = self.settings.paths.terminology
        settings = self.settings
        self.table = load_synonyms(path, settings.data, settings.batch.neighbours)
        return TrainingData(path, self.table.report, self.table.identity, self.table.concepts.to_list())

    def build(self) -> Model:
        batch = self.settings.batch
        self.tokens = self.make_tokens(self.table.names, self.base)
        self.constants = self.settings.terms.resolve("none", self.base.width)
        self.sampler = GroupSampler(self.table, batch.groups, batch.synonyms, seed=self.settings.run.seed)
        return Model(copy_transformer(self.base.source, batch.dropout))

    def loss(self, batch: int, scale: float) -> dict[str, Any]:
        """Refresh the neighbours if it is time, and average the gradients of several batches. See `Method.loss`."""
        refresh = self._prepare(batch)
        return {**super().loss(batch, scale), **({"refresh": refresh} if refresh else {})}

    def _draw(self, number: int) -> GroupedNames:
        return self.sampler.draw(number, lambda wanted: self.neighbours[np.searchsorted(self.anchors, wanted)])

    def _learn(self, batch: GroupedNames, scale: float) -> dict[str, Any]:
        same = torch.from_numpy(batch.same).to(self.accelerator.device)
        positives = same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)

        def cost(vectors: torch.Tensor) -> tuple[torch.Tensor, dict[str, int]]:
            pairs = Pairs(positives, positives, ~same)
            mined = measure_similarities(cosines_between(vectors, vectors), pairs, self.constants)
            return mined.loss, {"positives": mined.positives, "negatives": mined.negatives}

        tokens = [self.tokens[name] for name in batch.names.tolist()]
        loss, counts = self.gradient.compute(tokens, cost, scale=scale)
        return {"loss": loss, "groups": self.settings.batch.groups, "names": len(batch.names), **counts}

    def _prepare(self, step: int) -> dict[str, Any] | None:
        """Read the neighbours of a period. At its start, one process searches for them, and they are described."""
        start = step // self.settings.batch.refresh_steps * self.settings.batch.refresh_steps
        if len(self.anchors) and step != start:
            return None
        path = self.folder.path / "neighbours" / f"step-{start:08d}.npz"
        if step == start:
            if self.accelerator.is_main_process:
                self._search(path, start)
            self.accelerator.wait_for_everyone()
        elif not path.is_file():
            raise FileNotFoundError(
                f"The neighbours of step {step} are not in {path}. They were looked for at step {start}, with the "
                "encoder as it was then, and were probably deleted since. Put the file back, or set another output "
                "folder."
            )
        with np.load(path) as arrays:
            self.anchors = arrays["anchors"]
            self.neighbours = arrays["neighbours"]
            return json.loads(str(arrays["report"])) if step == start else None

    def _search(self, path: Path, start: int) -> None:
        """Search for the neighbours of all anchors of a period, unless a run that was stopped has left them."""
        batch = self.settings.batch
        encoder = self.take_snapshot()
        names = self.table.names.to_list()
        # Including updates after the last: a longer run may resume this one.
        updates = start * batch.accumulation, (start + batch.refresh_steps) * batch.accumulation
        anchors = np.unique(self.sampler.list_anchors(*updates))
        digest = hashlib.sha256(f"{encoder.fingerprint} {batch.neighbours} ".encode() + anchors.tobytes())
        digest.update("\n".join(names).encode())
        identity = digest.hexdigest()
        if path.is_file():
            with np.load(path) as arrays:
                if str(arrays["identity"]) == identity:
                    return
        began = time.perf_counter()
        # A search that is killed goes on with the vectors that it has left.
        vectors = path.parent / "vectors"
        embedded = Embeddings(encoder, vectors).take(names)
        lists, found = search_others(embedded, anchors, batch.neighbours, encoder.fingerprint)
        report = {"seconds": round(time.perf_counter() - began, 1), "anchors": len(anchors), **found}
        with write_whole(path) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                anchors=anchors.astype(np.int32),
                neighbours=lists.astype(np.int32),
                identity=np.array(identity),
                report=np.array(json.dumps(report)),
            )
        shutil.rmtree(vectors, ignore_errors=True)
        # Lists of periods that end before the oldest checkpoint are not needed any more.
        checkpoints = list_checkpoints(self.folder.checkpoints)
        oldest = read_step(checkpoints[0]) if checkpoints else 0
        for old in path.parent.glob(f"{STEPS}.npz"):
            if int(old.stem.removeprefix("step-")) + batch.refresh_steps <= oldest:
                old.unlink()

    def finish(self, trained: EncoderShim, ending: Ending) -> dict[str, Any]:
        """List the neighbour searches, including those before resuming. See `Method.finish`."""
        entries = self.folder.read_metrics()
        return {
            "refreshes": [{"step": entry["step"] - 1, **entry["refresh"]} for entry in entries if "refresh" in entry]
        }
