"""SapBERT: names of one concept get similar vectors (Liu et al., NAACL 2021)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from spacy_sapbert.encoder.transformer import EncoderSource

from ...data.run_folder import RunReport
from ...encoders.card import Making, describe_length
from ...engine.model import Model
from ...engine.objectives import make_loss, make_miner
from ..pairs import PairMethod
from .adapters import add_adapter, merge_adapter
from .loss import Objective
from .settings import SapbertSettings


class Sapbert(PairMethod[SapbertSettings]):
    """A run of SapBERT. See `Method`."""

    name = "sapbert"
    Settings = SapbertSettings

    objective: Objective

    def build(self) -> Model:
        """Tokenise names, order batches and make the model. See `Method.build`."""
        objective = self.settings.objective
        self.tokenise(self.base)
        with self.accelerator.main_process_first():
            self.order = self.order_pairs()
        self.objective = Objective(
            make_loss(objective.loss, objective.preset, **objective.constants),
            make_miner(objective.miner, objective.margin),
        )
        return Model(self.make_transformer(self.base.source, self.settings))

    @classmethod
    def make_transformer(cls, source: EncoderSource, settings: SapbertSettings) -> torch.nn.Module:
        """Copy the base's transformer, and add an adapter. See `Method.make_transformer`."""
        transformer = super().make_transformer(source, settings)
        if settings.adapter.kind is not None:
            add_adapter(transformer, settings.adapter)
        return transformer.train()

    def loss(self, batch: np.ndarray, scale: float) -> dict[str, Any]:
        """Compute the loss of pairs. See `Method.loss`."""
        device = self.accelerator.device
        names, labels = self.list_names(batch)
        homonyms = torch.from_numpy(names).to(device) if self.settings.objective.ignore_homonyms else None
        loss, counts = self.gradient.compute(
            self.take_tokens(names),
            lambda embeddings: self.objective(embeddings, torch.from_numpy(labels).to(device), homonyms),
            scale=scale,
        )
        return {"loss": loss, "pairs": len(batch), **counts._asdict()}

    @classmethod
    def find_obstacle(cls, settings: SapbertSettings) -> str:
        """Identify runs whose base has no weights to average with. See `Method.find_obstacle`."""
        is_bottleneck = settings.adapter.kind == "bottleneck"
        return "trains a bottleneck adapter, which the base does not have" if is_bottleneck else ""

    @classmethod
    def merge(cls, transformer: torch.nn.Module, base: torch.nn.Module, settings: SapbertSettings) -> torch.nn.Module:
        """Merge low-rank updates into the weights. See `Method.merge`."""
        return merge_adapter(transformer, base) if settings.adapter.kind == "lora" else transformer

    @classmethod
    def describe(cls, report: RunReport) -> Making:
        """Describe the training. See `Method.describe`."""
        settings, data = report.settings, report.data
        objective, batch, kind = settings["objective"], settings["batch"], settings["adapter"]["kind"]
        constants = "".join(f", {name} {value:g}" for name, value in objective["constants"].items())
        details = [
            f"Objective: {objective['loss']} ({objective['preset']}{constants}), miner {objective['miner']}",
            f"learning rate {settings['optimizer']['learning_rate']}",
            f"seed {settings['run']['seed']}",
        ]
        # Runs of earlier versions have fewer settings.
        if neighbours := batch.get("neighbours"):
            details.append(f"neighbours of a pair in its batch: {neighbours}")
        if altered := batch.get("altered"):
            details.append(f"{altered:g} of the names in other writing")
        if kind:
            details.append(f"adapter {kind}{', merged' if kind == 'lora' else ''}")
        return Making(
            "sapbert",
            "SapBERT (Liu et al., NAACL 2021): names of one concept get similar vectors.",
            [
                f"Data: {data['pairs']:,} pairs of {data['names']:,} names (SHA-256 {data['sha256'][:12]}...).",
                describe_length(report.training, f"steps of {batch['pairs']} pairs"),
                f"{'; '.join(details)}.",
            ],
        )
