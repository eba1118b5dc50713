"""Relations: maps from the vectors of heads to those of tails (Yuan et al., JBI 2022, section 3)."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from spacy_sapbert.index import GB, find_available

from ...data.run_folder import write_whole
from ...engine.objectives import cosines_between
from .settings import RelationKind, RelationStart

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
    """Load relations."""
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"Can't find the file {path}. Check the path: a relative one starts from the folder you run in "
            f"({Path.cwd()})."
        )
    try:
        with safe_open(path, framework="pt") as file:
            metadata, weights = file.metadata(), file.get_tensor(WEIGHTS)
        relations, labels = KINDS[metadata["kind"]](weights), json.loads(metadata["labels"])
        trained = metadata["encoder"]
    # The error of safetensors has no base class but Exception.
    except Exception as error:
        raise ValueError(
            f"{path} does not hold relations: {repr(error)}. It was probably cut, or written by another "
            "program. Give a relations.safetensors of a run with the method coder."
        ) from error
    if len(labels) != len(weights):
        raise ValueError(
            f"{path} does not hold relations: {(f'{len(labels)} labels for {len(weights)} relations')}. It was"
            " probably cut, or written by another program. Give a relations.safetensors of a run with the "
            "method coder."
        )
    if fingerprint is not None and fingerprint != trained:
        raise ValueError(
            f"The relations of {path} belong to the encoder {trained}, and are to be used with {fingerprint}. "
            "Give the encoder folder that the run has left beside them: encoders made by `export` have no "
            "relations."
        )
    return relations, labels
