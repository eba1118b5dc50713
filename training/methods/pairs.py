"""What methods that learn from pairs of names have in common: settings, data, batches and the objective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, cycle, islice
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import polars as pl
import torch
from pydantic import Field, model_validator
from typing_extensions import Self

from spacy_sapbert.arrays import save_array
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import write_whole
from spacy_sapbert.ragged import TokenLists
from spacy_sapbert.settings import Settings
from spacy_sapbert.terminology import Terminology

from ..data.pairs import PairData, load_pairs
from ..data.relatedness import Relatedness, find_opposites
from ..data.tokens import alter_writing
from ..engine.method import Method, TrainingData
from ..engine.nearest import search_others
from ..engine.objectives import LOSSES, Loss, PairMiner, list_pairs, make_loss, make_miner
from ..engine.settings import BatchSettings, PathSettings, TrainingSettings, refuse

# Concepts to look through for each neighbour that is wanted, where related ones are left out.
LOOKED_THROUGH = 3
PairSettingsT = TypeVar("PairSettingsT", bound=Any)


class PairPaths(PathSettings):
    """Paths of a run."""

    pairs: str = Field(description="The folder of pairs.")
    terminology: str = Field(
        default="",
        description="With `batch.neighbours`: the folder of the terminology that the pairs were made of. Concepts that "
        "share a name, and a concept and its ancestors, are then no neighbours, and opposites are half of the pool. "
        "Empty to group by similarity alone.",
    )


class ObjectiveSettings(Settings):
    """The loss and its pairs."""

    loss: str = Field(default="multi_similarity", description=f"The loss: {', '.join(LOSSES)}.")
    miner: Literal["sapbert", "coder", "off"] = Field(default="sapbert", description="The miner of pairs.")
    constants: dict[str, float] = Field(default={}, description="Constants of the loss that override the paper's.")
    margin: float | None = Field(default=None, description="The miner's margin; null for its default.")
    ignore_homonyms: bool = Field(
        default=False, description="Exclude homonyms, equal names of different concepts, from the negatives."
    )

    @model_validator(mode="after")
    def _check_constants(self) -> Self:
        make_loss(self.loss, **self.constants)
        make_miner(self.miner, self.margin)
        return self


class PairBatch(BatchSettings):
    """The batch of a step, and limits of the run."""

    pairs: int = Field(default=256, ge=2, description="Pairs in a step: half the number of names.")
    epochs: int = Field(default=1, ge=1, description="Epochs over all pairs.")
    source_balance: float = Field(
        default=0.0, ge=0, le=1, description="0 draws each pair once per epoch, 1 all sources with equal probability."
    )
    neighbours: int = Field(
        default=0, ge=0, description="Concepts, similar by the base encoder, to group each pair with; 0 for no groups."
    )
    neighbour_pool: int = Field(
        default=0, ge=0, description="Draw neighbours from this number of most similar concepts; 0 to take the nearest."
    )
    altered: float = Field(
        default=0.0, ge=0, le=1, description="Share of names that are misspelt, in normal words, or reordered."
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

    @property
    def uses_terminology(self) -> bool:
        """Whether the run needs the terminology of its pairs."""
        return bool(self.batch.neighbours)

    @model_validator(mode="after")
    def _check_terminology(self) -> Self:
        if self.paths.terminology and not self.uses_terminology:
            refuse("paths.terminology", self.paths.terminology, "empty without batch.neighbours")
        return self


class Objective(NamedTuple):
    """A loss over the pairs of a batch that a miner has chosen; without a miner, over all."""

    loss: Loss
    miner: PairMiner | None

    def __call__(
        self, embeddings: torch.Tensor, labels: torch.Tensor, names: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, dict[str, int]]:
        """Compute the loss of a batch, and the numbers of mined pairs in both directions. `labels` are the concepts.
        With a number for each distinct name, homonyms are not negatives."""
        pairs = list_pairs(labels, names)
        if self.miner is not None:
            pairs = self.miner(embeddings, pairs)
        counts = {"positives": int(pairs.positives.sum()), "negatives": int(pairs.negatives.sum())}
        return self.loss(embeddings, labels, pairs), counts


@dataclass
class Batches:
    """Batches of pairs in an order determined by the seed, so that a run can be resumed at any batch."""

    labels: np.ndarray  # The concept of each pair; shape (pairs,), int64.
    size: int  # Pairs in a batch.
    seed: int  # Of the order, which differs between epochs.
    epochs: int = 1  # Passes over all pairs.
    weights: np.ndarray | None = None  # Relative frequency of each pair. None: each pair once per epoch.
    # Similar concepts of each concept, padded with -1; shape (concepts, pool). A batch then consists of groups: a pair,
    # and one pair each of some neighbours of its concept.
    neighbours: np.ndarray | None = None
    group: int = 0  # Neighbours of a group, drawn from the pool; 0 for all of the pool.

    def __post_init__(self) -> None:
        self.per_epoch = -(-len(self.labels) // self.size)
        self._by_concept = np.argsort(self.labels, kind="stable")
        self._counts = np.bincount(self.labels)
        self._starts = self._counts.cumsum() - self._counts

    def iterate(self, start: int = 0) -> Iterator[np.ndarray]:
        """Iterate over the rows of the batches of all epochs, from one on. The last one of an epoch may be smaller."""
        for number in range(start, self.epochs * self.per_epoch):
            epoch, batch = divmod(number, self.per_epoch)
            if number == start or not batch:
                rng = np.random.default_rng([self.seed, epoch])
                n = len(self.labels)
                shares = None if self.weights is None else self.weights / self.weights.sum()
                order = rng.permutation(n) if shares is None else rng.choice(n, size=n, p=shares)
            rows = order[batch * self.size : (batch + 1) * self.size]
            yield rows if self.neighbours is None else self._add_neighbours(rows, self.neighbours, [epoch, batch])

    def _add_neighbours(self, rows: np.ndarray, neighbours: np.ndarray, number: list[int]) -> np.ndarray:
        """Keep one pair for each group, and fill the groups with random pairs of neighbours."""
        rng = np.random.default_rng([self.seed, *number])
        group = self.group or neighbours.shape[1]
        seeds = rows[: max(1, round(len(rows) / (1 + group)))]
        pools = neighbours[self.labels[seeds]]
        if group < pools.shape[1]:
            # In random order, with the padding last.
            order = np.argsort(np.where(pools < 0, 2.0, rng.random(pools.shape)), axis=1)
            pools = np.take_along_axis(pools, order, axis=1)[:, :group]
        concepts = pools[pools >= 0]
        chosen = self._by_concept[self._starts[concepts] + rng.integers(0, self._counts[concepts])]
        # Groups may share neighbours. A repeated pair adds nothing.
        return np.unique(np.concatenate([seeds, chosen]))


def balance_sources(data: PairData, balance: float) -> np.ndarray:
    """Weight pairs so that small sources are drawn more often; relative weights, shape (pairs,).

    First a source is drawn, in proportion to its number of pairs to the power of 1 - balance, then one of its pairs.
    Pairs of a concept with several sources can be drawn through each of them. A balance of 1 draws all sources equally
    often, 0 in proportion to their pairs.
    """
    if data.sources is None:
        raise ValueError(
            "batch.source_balance is set, but the folder of pairs does not say which sources name its concepts: only "
            "pairs of a terminology have sources. Make the pairs of one, or set batch.source_balance to 0."
        )
    # One row per concept and source.
    split = [joined.split("|") for joined in data.sources]
    concepts = np.repeat(np.arange(len(split)), [len(sources) for sources in split])
    _, sources = np.unique(list(chain.from_iterable(split)), return_inverse=True)
    n_pairs = np.bincount(sources, np.bincount(data.labels, minlength=len(split))[concepts])
    rates = np.divide(n_pairs ** (1.0 - balance), n_pairs, out=np.zeros_like(n_pairs), where=n_pairs > 0)
    return np.bincount(concepts, rates[sources])[data.labels]


class PairMethod(Method[PairSettingsT], Generic[PairSettingsT]):
    """A run of a method that learns from pairs of names. See `Method`. Its settings are `PairSettings`."""

    unit = "pairs"

    # Of the names and, if there is a share of them, of the same names in other writing.
    tokens: TokenLists
    # Says which neighbours are related, and which are opposites; None to group by similarity alone.
    terminology: Terminology | None = None

    def load(self) -> TrainingData:
        """Read the pairs, and the terminology if there is one. See `Method.load`."""
        paths = self.settings.paths
        self.data = load_pairs(paths.pairs)
        self.hashes = {"pairs": self.data.sha256}
        if paths.terminology and self.settings.batch.neighbours:
            self.terminology = Terminology.from_disk(paths.terminology)
            self.hashes["terminology"] = self.terminology.fingerprint
        report = {"pairs": len(self.data), "names": len(self.data.names), "sources": self.data.files}
        return TrainingData(paths.pairs, report, self.hashes, self.data.concepts.to_list())

    def prepare_batches(self) -> None:
        """Order the pairs, and make the objective. One process of a launch searches for neighbours."""
        batch = self.settings.batch
        objective = self.settings.objective
        weights = self.weigh_pairs()
        with self.accelerator.main_process_first():
            neighbours = self.find_neighbours() if batch.neighbours else None
        seed = self.settings.run.seed
        labels = self.data.labels
        self.order = Batches(labels, batch.pairs, seed, batch.epochs, weights, neighbours, batch.neighbours)
        steps = self.order.epochs * self.order.per_epoch
        self.n_steps = min(steps, batch.max_steps or steps)
        loss = make_loss(objective.loss, **objective.constants)
        self.objective = Objective(loss, make_miner(objective.miner, objective.margin))

    def weigh_pairs(self) -> np.ndarray | None:
        """Say how often pairs are drawn, relative to each other; None: each once per epoch."""
        balance = self.settings.batch.source_balance
        return balance_sources(self.data, balance) if balance else None

    def tokenise(self, encoder: EncoderShim) -> None:
        """Tokenise the names, also in other writing if there is a share of them."""
        names = self.data.names
        is_altered = self.settings.batch.altered
        altered = [alter_writing(names, seed=self.settings.run.seed)] if is_altered else []
        self.tokens = self.make_tokens(pl.concat([names, *altered]), encoder)

    def take_tokens(self, names: np.ndarray) -> list[np.ndarray]:
        """Take the token ids of rows of names. Which are in other writing depends on the seed and these rows only."""
        if self.settings.batch.altered:
            rng = np.random.default_rng([self.settings.run.seed, int(names.sum())])
            is_altered = rng.random(len(names)) < self.settings.batch.altered
            names = names + len(self.data.names) * is_altered
        return [self.tokens[name] for name in names.tolist()]

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
        return names, np.tile(self.data.labels[rows], 2)

    def batches(self, start: int) -> Iterator[Any]:
        return self.order.iterate(start)

    def find_neighbours(self) -> np.ndarray:
        """Find the most similar concepts of each concept, by the vector of one name each; shape (concepts, pool).

        With a terminology, concepts that may be the same or contain each other are left out, and opposites, which are
        less similar than many others, take half of the places; missing ones are -1. A file in the folder of the run
        keeps them, so that a resumed run draws the same batches.
        """
        data = self.data
        batch = self.settings.batch
        terminology = self.terminology
        n_concepts = len(data.concepts)
        n = min(batch.neighbour_pool or batch.neighbours, n_concepts - 1)
        hashes = [self.base.fingerprint, data.sha256, *([terminology.fingerprint] if terminology else [])]
        path = self.folder.path / f"neighbours-{n}-{'-'.join(part[:12] for part in hashes)}.npy"
        if path.is_file():
            return np.load(path)
        _, first_pair = np.unique(data.labels, return_index=True)
        vectors = self.base.encode(data.names.gather(data.left[first_pair]).to_list())
        n_wanted = min(LOOKED_THROUGH * n, n_concepts - 1) if terminology else n
        neighbours, _ = search_others(vectors, np.arange(n_concepts), n_wanted, self.base.fingerprint)
        if terminology:
            neighbours = _tell_apart(neighbours, n, data.concepts.to_list(), terminology)
        with write_whole(path) as temporary:
            save_array(temporary, neighbours)
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
    for row, row_neighbours in enumerate(neighbours.tolist()):
        first = islice(cycle(opposites[row]), n // 2) if row in opposites else ()
        others = (other for other in row_neighbours if not relatedness.is_related(ids[row], ids[other]))
        kept = list(islice(chain(first, others), n))
        chosen[row, : len(kept)] = kept
    return chosen
