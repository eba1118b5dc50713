"""What methods that learn from pairs of names have in common: settings, data, batches and the objective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import polars as pl
import torch
from pydantic import Field, model_validator
from typing_extensions import Self

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists
from spacy_sapbert.files import save_array, write_whole
from spacy_sapbert.terminology import Terminology

from ..data.pairs import PairData, load_pairs
from ..data.relatedness import Relatedness, find_opposites
from ..data.tokens import alter_writing
from ..engine.method import Method, TrainingData
from ..engine.nearest import search_others
from ..engine.objectives import Loss, PairMiner, list_pairs, make_loss, make_miner
from ..engine.settings import BatchSettings, PathSettings, Section, TrainingSettings, refuse

NEIGHBOURS_FILE = "neighbours-{of}.npy"
# Concepts to look through for each neighbour that is wanted, where related ones are left out.
LOOKED_THROUGH = 3
PairSettingsT = TypeVar("PairSettingsT", bound=Any)
LossName = Literal["multi_similarity", "cosine", "triplet", "nca", "lifted_structure", "info_nce", "circle"]


class PairPaths(PathSettings):
    """Paths of a run."""

    pairs: str = Field(description="The folder of pairs.")
    terminology: str = Field(
        default="",
        description="With `batch.neighbours`: the folder of the terminology that the pairs were made of. Concepts that "
        "share a name, or of which one is an ancestor of the other, are then no neighbours, and opposites are half of "
        "the pool. Empty to group by similarity alone.",
    )


class ObjectiveSettings(Section):
    """The loss and its pairs."""

    loss: LossName = Field(default="multi_similarity", description="The loss.")
    preset: Literal["paper", "released"] = Field(
        default="paper", description="Constants of the paper or of the released code."
    )
    miner: Literal["sapbert", "coder", "off"] = Field(default="sapbert", description="The miner of pairs.")
    constants: dict[str, float] = Field(default={}, description="Constants of the loss that override the preset's.")
    margin: float | None = Field(default=None, description="The miner's margin; null for its default.")
    ignore_homonyms: bool = Field(
        default=False,
        description="Exclude homonyms, equal names of different concepts, from the negatives. The paper includes them.",
    )

    @model_validator(mode="after")
    def _check_constants(self) -> Self:
        make_loss(self.loss, self.preset, **self.constants)
        make_miner(self.miner, self.margin)
        return self


class PairBatch(BatchSettings):
    """The batch of a step, and limits of the run."""

    pairs: int = Field(default=256, ge=2, description="Pairs in a step: half the number of names.")
    epochs: int = Field(default=1, ge=1, description="Epochs over all pairs.")
    source_balance: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Balance of sources: 0 draws each pair once per epoch, 1 all sources with equal probability; "
        "values between favour small sources.",
    )
    neighbours: int = Field(
        default=0,
        ge=0,
        description="0 for random batches; otherwise, each pair is grouped with pairs of this number of concepts, "
        "which are similar to its own by the base encoder.",
    )
    neighbour_pool: int = Field(
        default=0,
        ge=0,
        description="Draw neighbours at random from this number of the most similar concepts; 0 to take the most "
        "similar ones.",
    )
    altered: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of names in other writing: misspelt, with normal words (singular, American spelling), or "
        "reordered.",
    )

    @model_validator(mode="after")
    def _check_neighbours(self) -> Self:
        if self.neighbours >= self.pairs:
            refuse("batch.neighbours", self.neighbours, "less than batch.pairs")
        if self.neighbour_pool and not 0 < self.neighbours <= self.neighbour_pool:
            allowed = "0 without batch.neighbours" if not self.neighbours else "batch.neighbours or more"
            refuse("batch.neighbour_pool", self.neighbour_pool, allowed)
        return self


class PairSettings(TrainingSettings):
    """What the settings of methods that learn from pairs have in common."""

    paths: PairPaths
    objective: ObjectiveSettings = ObjectiveSettings()
    batch: PairBatch = PairBatch()

    @model_validator(mode="after")
    def _check_terminology(self) -> Self:
        if self.paths.terminology and not self.batch.neighbours:
            refuse("paths.terminology", self.paths.terminology, "empty without batch.neighbours")
        return self


class Objective:
    """A loss over the pairs of a batch that a miner has chosen; without a miner, over all."""

    def __init__(self, loss: Loss, miner: PairMiner | None) -> None:
        self.loss = loss
        self.miner = miner

    def __call__(
        self, embeddings: torch.Tensor, labels: torch.Tensor, names: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, dict[str, int]]:
        """Compute the loss of a batch.

        embeddings (torch.Tensor): Shape (n, width).
        labels (torch.Tensor): The concept of each name, shape (n,).
        names (torch.Tensor | None): A number for each distinct name, to exclude homonyms from the negatives; None to
            include them.
        RETURNS (tuple[torch.Tensor, dict[str, int]]): The loss, and the numbers of mined pairs in both directions.
        """
        pairs = list_pairs(labels, names)
        if self.miner is not None:
            pairs = self.miner(embeddings, pairs)
        counts = {"positives": int(pairs.positives.sum()), "negatives": int(pairs.negatives.sum())}
        return self.loss(embeddings, labels, pairs), counts


class Batches:
    """Batches of pairs in an order determined by the seed, so that a run can be resumed at any batch.

    labels (np.ndarray): The concept of each pair; shape (pairs,), int64.
    size (int): Pairs in a batch.
    seed (int): Seed of the order, which differs between epochs.
    epochs (int): Passes over all pairs.
    weights (np.ndarray | None): Relative frequency of each pair; shape (pairs,). None: each pair once per epoch.
    neighbours (np.ndarray | None): Similar concepts of each concept, padded with -1; shape (concepts, pool). A batch
        then consists of groups: a pair, and one pair each of some neighbours of its concept.
    group (int): Neighbours of a group, drawn from the pool; 0 for all of the pool.
    """

    def __init__(
        self,
        labels: np.ndarray,
        size: int,
        seed: int,
        epochs: int = 1,
        weights: np.ndarray | None = None,
        neighbours: np.ndarray | None = None,
        group: int = 0,
    ) -> None:
        self.labels = labels
        self.size = size
        self.seed = seed
        self.epochs = epochs
        self.weights = weights
        self.neighbours = neighbours
        self.group = group or (0 if neighbours is None else neighbours.shape[1])
        self.per_epoch = -(-len(labels) // size)
        self._by_concept = np.argsort(labels, kind="stable")
        self._counts = np.bincount(labels)
        self._starts = self._counts.cumsum() - self._counts

    def iterate(self, start: int = 0) -> Iterator[np.ndarray]:
        """Iterate over the rows of the batches of all epochs, from one on. The last one of an epoch may be smaller."""
        for epoch in range(start // self.per_epoch, self.epochs):
            order = self._draw_order(epoch)
            first = start - epoch * self.per_epoch if start > epoch * self.per_epoch else 0
            for batch in range(first, self.per_epoch):
                rows = order[batch * self.size : (batch + 1) * self.size]
                yield rows if self.neighbours is None else self._add_neighbours(rows, epoch, batch)

    def _draw_order(self, epoch: int) -> np.ndarray:
        rng, n = np.random.default_rng([self.seed, epoch]), len(self.labels)
        if self.weights is None:
            return rng.permutation(n)
        return rng.choice(n, size=n, p=self.weights / self.weights.sum())

    def _add_neighbours(self, rows: np.ndarray, epoch: int, batch: int) -> np.ndarray:
        """Keep one pair for each group, and fill the groups with random pairs of neighbours."""
        assert self.neighbours is not None
        rng = np.random.default_rng([self.seed, epoch, batch])
        seeds = rows[: max(1, round(len(rows) / (1 + self.group)))]
        pools = self.neighbours[self.labels[seeds]]
        if self.group < pools.shape[1]:
            # In random order, with the padding last.
            order = np.argsort(np.where(pools < 0, 2.0, rng.random(pools.shape)), axis=1)
            pools = np.take_along_axis(pools, order, axis=1)[:, : self.group]
        concepts = pools[pools >= 0]
        starts, counts = self._starts[concepts], self._counts[concepts]
        chosen = self._by_concept[starts + rng.integers(0, counts)]
        # Groups may share neighbours. A repeated pair adds nothing.
        return np.unique(np.concatenate([seeds, chosen]))


def balance_sources(data: PairData, balance: float) -> np.ndarray:
    """Weight pairs so that small sources are drawn more often.

    First a source is drawn, in proportion to its number of pairs to the power of 1 - balance, then one of its pairs.
    Pairs of a concept with several sources can be drawn through each of them. A balance of 1 draws all sources equally
    often, 0 in proportion to their pairs. The weights are relative; shape (pairs,), float64.
    """
    if data.sources is None:
        raise ValueError(
            "batch.source_balance is set, but the folder of pairs does not say which sources name its concepts: only "
            "pairs of a terminology have sources. Make the pairs of one, or set batch.source_balance to 0."
        )
    # One row per concept and source.
    split = [joined.split("|") for joined in data.sources]
    concepts = np.repeat(np.arange(len(split)), [len(sources) for sources in split])
    _, sources = np.unique([source for sources in split for source in sources], return_inverse=True)
    pairs_of_concept = np.bincount(data.labels, minlength=len(split))
    n_pairs = np.bincount(sources, pairs_of_concept[concepts])
    rates = np.divide(n_pairs ** (1.0 - balance), n_pairs, out=np.zeros_like(n_pairs), where=n_pairs > 0)
    return np.bincount(concepts, rates[sources])[data.labels]


class PairMethod(Method[PairSettingsT], Generic[PairSettingsT]):
    """A run of a method that learns from pairs of names. See `Method`. Its settings are `PairSettings`."""

    unit = "pairs"

    data: PairData
    objective: Objective
    order: Batches
    tokens: TokenLists
    # Of the same names in other writing.
    altered_tokens: TokenLists
    # Says which neighbours are related, and which are opposites; None to group by similarity alone.
    terminology: Terminology | None = None

    def load(self) -> TrainingData:
        """Read the pairs. See `Method.load`."""
        self.data = load_pairs(self.settings.paths.pairs)
        if self.settings.paths.terminology:
            self.terminology = Terminology.from_disk(self.settings.paths.terminology)
        counts = {"pairs": len(self.data), "names": len(self.data.names)}
        path, concepts = self.settings.paths.pairs, self.data.concepts.to_list()
        return TrainingData(path, counts, self.hash_data(), concepts)

    def hash_data(self) -> dict[str, str]:
        """Hash what batches depend on: the pairs, and the terminology if there is one."""
        terminology = {} if self.terminology is None else {"terminology": self.terminology.fingerprint}
        return {"pairs": self.data.sha256, **terminology}

    def prepare_batches(self) -> None:
        """Order the pairs, and make the objective. One process of a launch searches for neighbours."""
        batch, objective = self.settings.batch, self.settings.objective
        weights = balance_sources(self.data, batch.source_balance) if batch.source_balance else None
        with self.accelerator.main_process_first():
            neighbours = self._find_neighbours() if batch.neighbours else None
        seed, labels = self.settings.run.seed, self.data.labels
        self.order = Batches(labels, batch.pairs, seed, batch.epochs, weights, neighbours, batch.neighbours)
        steps = self.order.epochs * self.order.per_epoch
        self.n_steps = min(steps, batch.max_steps or steps)
        loss = make_loss(objective.loss, objective.preset, **objective.constants)
        self.objective = Objective(loss, make_miner(objective.miner, objective.margin))

    def tokenise(self, encoder: EncoderShim) -> None:
        """Tokenise the names, and the same names in other writing if there is a share of them."""
        self.tokens = self.make_tokens(self.data.names, encoder)
        if self.settings.batch.altered:
            self.altered_tokens = self.make_tokens(alter_writing(self.data.names, seed=self.settings.run.seed), encoder)

    def take_tokens(self, names: np.ndarray) -> list[np.ndarray]:
        """Take the token ids of rows of names. Which are in other writing depends on the seed and these rows only."""
        share = self.settings.batch.altered
        if not share:
            return [self.tokens[name] for name in names.tolist()]
        rng = np.random.default_rng([self.settings.run.seed, int(names.sum())])
        is_altered = rng.random(len(names)) < share
        return [
            (self.altered_tokens if altered else self.tokens)[name]
            for name, altered in zip(names.tolist(), is_altered.tolist(), strict=True)
        ]

    def measure_pairs(
        self, vectors: torch.Tensor, names: np.ndarray, labels: np.ndarray
    ) -> tuple[torch.Tensor, dict[str, int]]:
        """Compute the loss of the vectors of names, and the numbers of mined pairs."""
        device = self.accelerator.device
        homonyms = torch.from_numpy(names).to(device) if self.settings.objective.ignore_homonyms else None
        return self.objective(vectors, torch.from_numpy(labels).to(device), homonyms)

    def list_names(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """List the rows of the names of pairs and the concept of each: first all on the left, then all on the right."""
        names = np.concatenate([self.data.left[rows], self.data.right[rows]])
        return names, np.concatenate([self.data.labels[rows], self.data.labels[rows]])

    def encode_before(self, strings: pl.Series) -> np.ndarray:
        """Encode strings with the base encoder: unit vectors, float32."""
        return self.base.encode(strings.to_list())

    def batches(self, start: int) -> Iterator[Any]:
        """Iterate over rows of pairs. See `Method.batches`."""
        return self.order.iterate(start)

    def describe_batch(self, batch: Any) -> dict[str, Any]:
        """List names and labels. See `Method.describe_batch`."""
        names, labels = self.list_names(batch)
        return {"names": self.data.names.gather(names).to_list(), "labels": labels.tolist()}

    def _find_neighbours(self) -> np.ndarray:
        """Find the most similar concepts of each concept, by the vector of one name each; shape (concepts, pool).

        With a terminology, concepts that may be the same or contain each other are left out, and opposites, which are
        less similar than many others, take half of the places; missing ones are -1. A file in the folder of the run
        keeps them, so that a resumed run draws the same batches.
        """
        data, batch, terminology = self.data, self.settings.batch, self.terminology
        n_concepts = len(data.concepts)
        n = min(batch.neighbour_pool or batch.neighbours, n_concepts - 1)
        of = "-".join(part[:12] for part in (self.base.fingerprint, *self.hash_data().values()))
        path = self.folder.path / NEIGHBOURS_FILE.format(of=of)
        kept = _read_neighbours(path, n_concepts)
        if kept is not None and kept.shape[1] >= n:
            return kept[:, :n]
        _, first_pair = np.unique(data.labels, return_index=True)
        vectors = self.encode_before(data.names.gather(data.left[first_pair]))
        wanted = n if terminology is None else min(LOOKED_THROUGH * n, n_concepts - 1)
        neighbours, _ = search_others(vectors, np.arange(n_concepts), wanted, self.base.fingerprint)
        if terminology is not None:
            neighbours = _tell_apart(neighbours, n, data.concepts.to_list(), terminology)
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_whole(path) as temporary, temporary.open("wb") as file:
            save_array(file, neighbours)
        return neighbours


def _tell_apart(neighbours: np.ndarray, n: int, ids: list[str], terminology: Terminology) -> np.ndarray:
    """Leave out related concepts, and add opposites, as often as it takes to fill half of the places."""
    relatedness = Relatedness(terminology)
    row_of = {id_: row for row, id_ in enumerate(ids)}
    opposites: dict[int, list[int]] = defaultdict(list)
    for concept, opposite in find_opposites(terminology):
        if concept in row_of and opposite in row_of:
            opposites[row_of[concept]].append(row_of[opposite])
    chosen = np.full((len(neighbours), n), -1, dtype=np.int64)
    for row, found in enumerate(neighbours.tolist()):
        first = list(islice(cycle(opposites[row]), n // 2)) if row in opposites else []
        others = (other for other in found if not relatedness.is_related(ids[row], ids[other]))
        kept = [*first, *islice(others, n - len(first))]
        chosen[row, : len(kept)] = kept
    return chosen


def _read_neighbours(path: Path, n_concepts: int) -> np.ndarray | None:
    """Read stored neighbours; None if there are none or the file is damaged: they are searched again."""
    try:
        kept = np.load(path)
    except (OSError, ValueError, EOFError):
        return None
    is_whole = kept.ndim == 2 and len(kept) == n_concepts and kept.dtype == np.int64 and kept.size
    return kept if is_whole and -1 <= kept.min() and kept.max() < n_concepts else None
