"""The losses of CODER: over names of one concept, and over heads and tails (Yuan et al., JBI 2022, section 3)."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from spacy_sapbert.index import GB, find_available

from ...data.run_folder import write_whole
from ...engine.objectives import MultiSimilarityLoss, PairMiner, Pairs, cosines_between, list_pairs
from .settings import CoderSettings, RelationKind, RelationStart, resolve

RELATIONS_FILE = "relations.safetensors"
# Of each number: itself, its gradient, and two moments of AdamW, in single precision.
FLOAT_BYTES, COPIES = 4, 4
WEIGHTS = "relations"


class Relations(torch.nn.Module):
    """Weights of relations, one entry per label.

    weights (torch.Tensor): Initial values, shape (labels, ...).
    """

    def __init__(self, weights: torch.Tensor) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(weights)

    @abstractmethod
    def forward(self, heads: torch.Tensor, labels: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        """Compare each head, mapped by its relation, with all tails."""


class DiagonalRelations(Relations):
    """Cosines of M_r^T h and t with a diagonal M_r, as in DistMult: a vector of `width` numbers per label."""

    def forward(self, heads: torch.Tensor, labels: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        """See `Relations`."""
        return cosines_between(self.weights[labels] * heads, tails)


class FullRelations(Relations):
    """Cosines of M_r^T h and t with a full M_r: `width` x `width` numbers per label, feasible for few labels."""

    def forward(self, heads: torch.Tensor, labels: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        """See `Relations`."""
        # A batch has few labels. Copying a matrix for each head would dominate the cost.
        parts = [(labels == label).nonzero()[:, 0] for label in labels.unique()]
        turned = torch.cat([heads[rows] @ self.weights[labels[rows[0]]] for rows in parts])
        return cosines_between(turned[torch.cat(parts).argsort()], tails)


class TranslationRelations(Relations):
    """Negative distances between h + r and t, without normalisation (TransE: Bordes et al., NIPS 2013)."""

    def forward(self, heads: torch.Tensor, labels: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        """See `Relations`."""
        # Not by a matrix product, whose rounding errors hide small distances.
        return -torch.cdist(heads + self.weights[labels], tails, compute_mode="donot_use_mm_for_euclid_dist")


KINDS: dict[str, type[Relations]] = {
    "diagonal": DiagonalRelations,
    "full": FullRelations,
    "transe": TranslationRelations,
}
TRANSLATIONS = ("transe", "transe_margin")


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
    return TranslationRelations(weights) if kind in TRANSLATIONS else KINDS[kind](weights)


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


def save_relations(relations: Relations, labels: Sequence[str], fingerprint: str, path: Path) -> None:
    """Save relations with their labels."""
    kind = next(name for name, made in KINDS.items() if isinstance(relations, made))
    metadata = {"kind": kind, "labels": json.dumps(list(labels)), "encoder": fingerprint}
    with write_whole(path) as temporary:
        save_file({WEIGHTS: relations.weights.detach().cpu().contiguous()}, temporary, metadata)


def load_relations(path: str | Path, fingerprint: str | None = None) -> tuple[Relations, list[str]]:
    """Load relations and their labels.

    path (str | Path): A file that training has left beside an encoder.
    fingerprint (str | None): Fingerprint of the encoder to use them with; None for any.
    RETURNS (tuple[Relations, list[str]]): The relations, and their labels.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If the file is malformed, or has relations of another encoder.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"Can't find the file {path} (seen from {Path.cwd()}).")
    try:
        with safe_open(path, framework="pt") as file:
            metadata, weights = file.metadata(), file.get_tensor(WEIGHTS)
        relations, labels = KINDS[metadata["kind"]](weights), json.loads(metadata["labels"])
        trained = metadata["encoder"]
        if len(labels) != len(weights):
            raise ValueError(f"{len(labels)} labels for {len(weights)} relations")
    # The error of safetensors has no base class but Exception.
    except Exception as error:
        raise ValueError(
            f"{path} does not hold relations: {error!r}. It was probably cut, or written by another program. Give a "
            f"{RELATIONS_FILE} of a run with the method coder."
        ) from error
    if fingerprint is not None and fingerprint != trained:
        raise ValueError(
            f"The relations of {path} belong to the encoder {trained}, and are to be used with {fingerprint}. Give the "
            "encoder folder that the run has left beside them: encoders made by `export` have no relations."
        )
    return relations, labels


class BatchLabels(NamedTuple):
    """Labels of the names of a batch: k heads, then k tails, and optionally k random concepts."""

    concepts: torch.Tensor  # The concept of each, shape (2k,) or (3k,), int64.
    relations: torch.Tensor  # The label of each triplet, shape (k,), int64.
    # Whether head i has its relation to tail j in the graph, shape (k, k), bool: such pairs are no negatives.
    known: torch.Tensor | None = None
    # A number for each distinct name, shaped like `concepts`: homonyms are no negatives.
    names: torch.Tensor | None = None


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
    """L = L_MS + mu L_MS^rel, or the released code's variant: L_MS and a margin loss.

    settings (CoderSettings): Constants.
    relations (Relations | None): The relations, which map heads; None for only the term loss.
    width (int): Width of the vectors.
    """

    def __init__(self, settings: CoderSettings, relations: Relations | None, width: int) -> None:
        kind, weight = settings.loss.relations, settings.relations.weight
        self.relations = relations
        self.of_terms = SimilarityObjective(*resolve(settings.terms, "none", width))
        constants = resolve(settings.relations, kind, width)
        self.of_relations = SimilarityObjective(*constants)
        self.margin = constants[-1] if kind == "transe_margin" else None
        # As in the paper: translations have a smaller weight.
        self.weight = (0.1 if kind == "transe" else 1.0) if weight is None else weight

    def __call__(
        self, embeddings: torch.Tensor, labels: BatchLabels
    ) -> tuple[torch.Tensor, tuple[MinedLoss, MinedLoss | None]]:
        """Compute the loss of a batch, the sum and both parts, from the vectors of k heads, k tails and, for the margin
        loss, k random concepts."""
        terms = self.of_terms(cosines_between(embeddings, embeddings), list_pairs(labels.concepts, labels.names))
        if self.relations is None:
            return terms.loss, (terms, None)
        heads, tails, *others = embeddings.split(len(labels.relations))
        similarities = self.relations(heads, labels.relations, tails)
        if self.margin is None:
            relations = self.of_relations(similarities, list_relation_pairs(labels))
        else:
            wrong = self.relations(heads, labels.relations, others[0])
            relations = compute_margin_loss(similarities.diagonal(), wrong.diagonal(), self.margin)
        return terms.loss + self.weight * relations.loss, (terms, relations)


def list_relation_pairs(labels: BatchLabels) -> Pairs:
    """Label the positive tails of each head: names of the tail of its triplet."""
    tails = labels.concepts.chunk(2)[1]
    same = tails[:, None] == tails[None, :]
    negatives = ~same if labels.known is None else ~same & ~labels.known
    return Pairs(same, same, negatives)


def group_by_decay(transformer: torch.nn.Module) -> list[dict[str, Any]]:
    """Group parameters for AdamW. As in CODER's released code, biases and layer normalisation do not decay."""
    decaying: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for module in transformer.modules():
        for name, parameter in module.named_parameters(recurse=False):
            is_spared = name == "bias" or isinstance(module, torch.nn.LayerNorm)
            (others if is_spared else decaying).append(parameter)
    return [{"params": decaying}, {"params": others, "weight_decay": 0.0}]
