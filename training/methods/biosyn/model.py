"""The model of BioSyn in training: the encoder, and the weight of sparse products."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import torch

from spacy_sapbert.encoder.settings import Precision
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenIds
from spacy_sapbert.encoder.transformer import forward, resolve_precision

from ...engine.method import Model


class BioSynModel(Model):
    """Score mentions against their candidates.

    transformer (torch.nn.Module): The transformer.
    base (EncoderShim): The base encoder, for tokenizer and pooling.
    device (torch.device): The device.
    precision (str): Precision of the forward pass.
    chunk_names (int): Strings in one forward pass.
    """

    def __init__(
        self,
        transformer: torch.nn.Module,
        base: EncoderShim,
        device: torch.device,
        *,
        precision: Precision,
        chunk_names: int,
    ) -> None:
        super().__init__(transformer)
        self.sparse_weight = torch.nn.Parameter(torch.zeros(()))
        self.to(device).train()
        self.device = device
        self.settings = base.settings
        self.pad_id = base.source.tokenizer.pad_token_id or 0
        self.autocast = resolve_precision(precision, device)
        self.chunk_names = chunk_names

    def forward(
        self, mentions: Sequence[TokenIds], candidates: Sequence[Sequence[TokenIds]], shared: torch.Tensor
    ) -> torch.Tensor:
        """Score candidates."""
        rows: dict[tuple[int, ...], int] = {}
        places = [
            [rows.setdefault(tuple(map(int, ids)), len(rows)) for ids in (mention, *names)]
            for mention, names in zip(mentions, candidates, strict=True)
        ]
        vectors = self._embed(list(rows))[torch.tensor(places, device=self.device)]
        # One row of `vectors` per mention: first its own vector, then those of its candidates.
        dense = (vectors[:, :1] * vectors[:, 1:]).sum(dim=2)
        return self.sparse_weight * shared.to(self.device) + dense

    def _embed(self, tokens: Sequence[TokenIds]) -> torch.Tensor:
        """Embed distinct strings in chunks of similar length, which need little padding."""
        order = np.argsort([len(ids) for ids in tokens], kind="stable")
        chunks = [order[start : start + self.chunk_names] for start in range(0, len(order), self.chunk_names)]
        is_whole = self.autocast == torch.float32
        with nullcontext() if is_whole else torch.autocast(self.device.type, dtype=self.autocast):
            embedded = [self._forward([tokens[row] for row in chunk]) for chunk in chunks]
        return torch.cat(embedded)[torch.from_numpy(np.argsort(order)).to(self.device)]

    def _forward(self, batch: Sequence[TokenIds]) -> torch.Tensor:
        return forward(self.transformer, batch, self.settings, pad_id=self.pad_id, device=self.device)
