"""SapBERT: names of one concept get similar vectors (Liu et al., NAACL 2021)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from spacy_sapbert.encoder import EncoderShim, EncoderSource

from ...data.pairs import PairData, hash_pairs, list_pair_concepts, load_pairs
from ...data.run_folder import RunReport
from ...data.tokens import Tokens
from ...encoders.card import Making, describe_length
from ...engine.batches import Batches, balance_sources, find_neighbours
from ...engine.method import Learned, Method
from ...engine.model import Model
from ...engine.objectives import make_loss, make_miner
from .adapters import add_adapter, merge_adapter, save_adapter
from .loss import Objective
from .settings import SapbertSettings

ADAPTER_FOLDER = "adapter"
NEIGHBOURS_FILE = "neighbours-{base}-{data}.npy"


@dataclass(frozen=True)
class PairFolder:
    """A folder of pairs. See `Source`.

    path (str): The folder.
    """

    path: str

    def hash(self) -> str:
        """Hash the pairs. See `Source.hash`."""
        return hash_pairs(self.path)

    def list_concepts(self) -> set[str]:
        """List the concepts with pairs. See `Source.list_concepts`."""
        return list_pair_concepts(self.path)


class Sapbert(Method[SapbertSettings]):
    """A run of SapBERT. See `Method`."""

    name = "sapbert"
    Settings = SapbertSettings
    unit = "pairs"

    data: PairData
    tokens: Tokens
    order: Batches
    objective: Objective

    @classmethod
    def find_source(cls, settings: SapbertSettings) -> PairFolder:
        """Name the pairs. See `Method.find_source`."""
        return PairFolder(settings.paths.pairs)

    def load(self) -> Learned:
        """Read the pairs. See `Method.load`."""
        self.data = load_pairs(self.settings.paths.pairs)
        counts = {"pairs": len(self.data), "names": len(self.data.names)}
        return Learned(counts, self.data.sha256, self.data.concepts.to_list())

    def build(self) -> Model:
        """Tokenise names, order batches and make the model. See `Method.build`."""
        objective = self.settings.objective
        self.tokens = Tokens(self.data.names, self.base)
        with self.accelerator.main_process_first():
            self.order = self._order_pairs()
        self.objective = Objective(
            make_loss(objective.loss, objective.preset, **objective.constants),
            make_miner(objective.miner, objective.margin),
        )
        return Model(self.make_transformer(self.base.source, self.settings))

    def _order_pairs(self) -> Batches:
        batch, data = self.settings.batch, self.data
        weights = balance_sources(data, batch.source_balance) if batch.source_balance else None
        neighbours = None
        if batch.neighbours:
            name = NEIGHBOURS_FILE.format(base=self.base.fingerprint[:12], data=data.sha256[:12])
            neighbours = find_neighbours(data, self.base, batch.neighbours, self.folder.path / name)
        return Batches(data.labels, batch.pairs, self.settings.run.seed, batch.epochs, weights, neighbours)

    @classmethod
    def make_transformer(cls, source: EncoderSource, settings: SapbertSettings) -> torch.nn.Module:
        """Copy the base's transformer, and add an adapter. See `Method.make_transformer`."""
        transformer = super().make_transformer(source, settings)
        if settings.adapter.kind is not None:
            add_adapter(transformer, settings.adapter)
        return transformer.train()

    @property
    def n_steps(self) -> int:
        """Return the number of steps. See `Method.n_steps`."""
        steps, limit = self.order.epochs * self.order.per_epoch, self.settings.batch.max_steps
        return min(steps, limit) if limit else steps

    def batches(self, start: int) -> Iterator[np.ndarray]:
        """Iterate over rows of pairs. See `Method.batches`."""
        return self.order.iterate(start)

    def loss(self, batch: np.ndarray, scale: float) -> dict[str, Any]:
        """Compute the loss of pairs. See `Method.loss`."""
        device = self.accelerator.device
        names, labels = self._list_names(batch)
        homonyms = torch.from_numpy(names).to(device) if self.settings.objective.ignore_homonyms else None
        loss, counts = self.gradient.compute(
            [self.tokens[name] for name in names.tolist()],
            lambda embeddings: self.objective(embeddings, torch.from_numpy(labels).to(device), homonyms),
            scale=scale,
        )
        return {"loss": loss, "pairs": len(batch), **counts._asdict()}

    def describe_batch(self, batch: np.ndarray) -> dict[str, Any]:
        """List names and labels. See `Method.describe_batch`."""
        names, labels = self._list_names(batch)
        return {"names": self.data.names.gather(names).to_list(), "labels": labels.tolist()}

    def _list_names(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """List the names of pairs and their labels: first all on the left, then all on the right."""
        names = np.concatenate([self.data.left[rows], self.data.right[rows]])
        return names, np.concatenate([self.data.labels[rows], self.data.labels[rows]])

    @classmethod
    def find_obstacle(cls, settings: SapbertSettings) -> str:
        """Identify runs that save an adapter instead of an encoder. See `Method.find_obstacle`."""
        is_bottleneck = settings.adapter.kind == "bottleneck"
        return "trains a bottleneck adapter, which leaves no encoder that could be measured" if is_bottleneck else ""

    @classmethod
    def merge(cls, transformer: torch.nn.Module, base: torch.nn.Module, settings: SapbertSettings) -> torch.nn.Module:
        """Merge low-rank updates into the weights. See `Method.merge`."""
        return merge_adapter(transformer, base) if settings.adapter.kind == "lora" else transformer

    def save_extras(self, trained: EncoderShim) -> None:
        """Save a bottleneck adapter, which can't be merged. See `Method.save_extras`."""
        if self.settings.adapter.kind == "bottleneck":
            save_adapter(self.model.transformer, self.folder.path / ADAPTER_FOLDER)

    @classmethod
    def describe(cls, report: RunReport) -> Making:
        """Describe the training. See `Method.describe`."""
        settings, data = report.settings, report.data
        adapter = f"; adapter {settings['adapter']['kind']}, merged" if settings["adapter"]["kind"] else ""
        return Making(
            "sapbert",
            "SapBERT (Liu et al., NAACL 2021): names of one concept get similar vectors.",
            [
                f"Data: {data['pairs']:,} pairs of {data['names']:,} names (SHA-256 {data['sha256'][:12]}...).",
                describe_length(report.training, f"steps of {settings['batch']['pairs']} pairs"),
                f"Objective: {settings['objective']['loss']} ({settings['objective']['preset']}), "
                f"miner {settings['objective']['miner']}; learning rate {settings['optimizer']['learning_rate']}; "
                f"seed {settings['run']['seed']}{adapter}.",
            ],
        )
