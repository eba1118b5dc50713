"""SapBERT: names of one concept get similar vectors (self-alignment pretraining, Liu et al., NAACL 2021)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from typing_extensions import Self

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import EncoderSource
from spacy_sapbert.settings import Settings

from ..engine.checkpoints import load_weights
from ..engine.method import Model, Weights, copy_transformer
from ..engine.settings import refuse
from .pairs import PairMethod, PairSettings

ADAPTER = "names"
# Of low-rank updates, times the rank.
LORA_SCALE = 16


class AdapterSettings(Settings):
    """The trained weights (Liu et al., NAACL 2021, table 7)."""

    kind: Literal["bottleneck", "lora"] | None = Field(
        default=None, description="null to train all weights; otherwise few weights are added, and the others frozen."
    )
    reduction: int = Field(default=16, ge=1, description="Bottleneck: the ratio of the hidden width to its own.")
    rank: int = Field(default=8, ge=1, description="Rank of low-rank updates.")


class SapbertSettings(PairSettings):
    """All settings of a run of SapBERT."""

    adapter: AdapterSettings = AdapterSettings()

    @model_validator(mode="after")
    def _check_share(self) -> Self:
        if self.run.base_share and self.adapter.kind == "bottleneck":
            allowed = "0 with a bottleneck adapter, whose base has no such weights"
            refuse("run.base_share", self.run.base_share, allowed)
        return self


class Sapbert(PairMethod[SapbertSettings]):
    """A run of SapBERT. See `Method`."""

    name = "sapbert"
    purpose = "SapBERT (Liu et al., NAACL 2021): names of one concept get similar vectors."
    Settings = SapbertSettings

    def build(self) -> Model:
        self.tokenise(self.base)
        self.prepare_batches()
        return Model(make_transformer(self.base.source, self.settings))

    def loss(self, batch: np.ndarray, scale: float) -> dict[str, Any]:
        names, labels = self.list_names(batch)
        loss, counts = self.gradient.compute(
            self.take_tokens(names), lambda vectors: self.measure_pairs(vectors, names, labels), scale=scale
        )
        return {"loss": loss, "pairs": len(batch), **counts}

    @classmethod
    def rebuild(cls, weights: Weights, base: EncoderShim, settings: SapbertSettings) -> torch.nn.Module:
        """Merge low-rank updates into the weights. See `Method.rebuild`."""
        transformer = load_weights(make_transformer(base.source, settings), weights)
        if settings.adapter.kind == "lora":
            transformer.merge_adapter(ADAPTER)  # type: ignore[operator]
            merged = transformer.state_dict()
            transformer = copy_transformer(base.source)
            transformer.load_state_dict({name: merged[name] for name in transformer.state_dict()})
        return transformer


def make_transformer(source: EncoderSource, settings: SapbertSettings) -> torch.nn.Module:
    """Copy the base's transformer, and add an adapter if one is trained."""
    transformer = copy_transformer(source, settings.batch.dropout)
    if settings.adapter.kind is not None:
        add_adapter(transformer, settings.adapter)
    return transformer.train()


def add_adapter(transformer: torch.nn.Module, settings: AdapterSettings) -> None:
    """Freeze a Hugging Face transformer and add a trainable adapter.

    "bottleneck" is Pfeiffer's: one after the feed-forward part of each layer, and one more after the embeddings, which
    is included in the parameter counts of the SapBERT paper (table 7).
    """
    # The library takes seconds to import, and most runs do not need it.
    import adapters

    adapters.init(transformer)
    if settings.kind == "lora":
        config = adapters.LoRAConfig(r=settings.rank, alpha=LORA_SCALE)
    else:
        config = adapters.SeqBnInvConfig(reduction_factor=settings.reduction)
    transformer.add_adapter(ADAPTER, config=config)  # type: ignore[operator]  # added by the library, as the next ones
    transformer.train_adapter(ADAPTER)  # type: ignore[operator]
