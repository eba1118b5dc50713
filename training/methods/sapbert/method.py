"""SapBERT: names of one concept get similar vectors (Liu et al., NAACL 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import EncoderSource

from ...data.run_folder import RunReport
from ...encoders.card import Making, describe_length
from ...encoders.export import finish_encoder
from ...engine.method import Model, copy_transformer, load_weights
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
            self.order_pairs()
        self.objective = Objective(
            make_loss(objective.loss, objective.preset, **objective.constants),
            make_miner(objective.miner, objective.margin),
        )
        return Model(make_transformer(self.base.source, self.settings))

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
    def to_encoder(
        cls,
        weights: Mapping[str, torch.Tensor],
        base: EncoderShim,
        settings: SapbertSettings,
        *,
        base_share: float = 0.0,
        dtype: str = "",
    ) -> EncoderShim:
        """Merge low-rank updates into the weights. See `Method.to_encoder`."""
        kind = settings.adapter.kind
        if base_share and kind == "bottleneck":
            raise ValueError(
                f"The weights of the run {settings.paths.output} can't be averaged with those of its base: it trains a "
                "bottleneck adapter, which the base does not have. Export it with the base share 0."
            )
        transformer = load_weights(make_transformer(base.source, settings), weights)
        if kind == "lora":
            transformer = merge_adapter(transformer, base.source.transformer)
        return finish_encoder(transformer, base, base_share=base_share, dtype=dtype or cls.dtypes[0])

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
                f"Data: {data['pairs']:,} pairs of {data['names']:,} names (SHA-256 "
                f"{data['sha256']['pairs'][:12]}...).",
                describe_length(report.training, f"steps of {batch['pairs']} pairs"),
                f"{'; '.join(details)}.",
            ],
        )


def make_transformer(source: EncoderSource, settings: SapbertSettings) -> torch.nn.Module:
    """Copy the base's transformer, and add an adapter if one is trained."""
    transformer = copy_transformer(source, settings.batch.dropout)
    if settings.adapter.kind is not None:
        add_adapter(transformer, settings.adapter)
    return transformer.train()
