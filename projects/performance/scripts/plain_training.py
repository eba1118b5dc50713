"""The reference loop's way from pairs to gradients, written plainly: what the trainer is measured against.

Each side of the pairs is tokenised at every step, padded to 25 tokens and encoded in a pass of its own (Liu et al.,
NAACL 2021, released code). Loss, mining, optimiser and precision are those of the trainer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from transformers import AutoModel, AutoTokenizer

from spacy_sapbert.encoder.settings import EncoderSettings
from spacy_sapbert.encoder.transformer import pool
from training.engine.objectives import make_loss, make_miner
from training.methods.pairs import Objective


class PlainTrainer:
    """Train as the reference code does.

    encoder (str): Encoder folder or hub name.
    settings (EncoderSettings): Its pooling, and the length that names are padded to.
    learning_rate (float): Of AdamW.
    autocast (dtype | None): Precision of the forward pass.
    """

    def __init__(
        self, encoder: str, settings: EncoderSettings, learning_rate: float, autocast: torch.dtype | None
    ) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(encoder, trust_remote_code=False)
        model = AutoModel.from_pretrained(
            encoder, add_pooling_layer=False, trust_remote_code=False, use_safetensors=True
        )
        self.model = model.float().train()
        for module in self.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        self.settings = settings
        self.objective = Objective(make_loss("multi_similarity"), make_miner("sapbert"))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate, weight_decay=0.01)
        self.autocast = autocast

    def step(self, left: Sequence[str], right: Sequence[str], labels: Sequence[int]) -> float:
        """Take one step.

        left, right (Sequence[str]): The names of each pair.
        labels (Sequence[int]): The concept of each pair.
        RETURNS (float): The loss.
        """
        embeddings = torch.cat([self._encode(list(left)), self._encode(list(right))])
        loss, _ = self.objective(embeddings, torch.tensor([*labels, *labels]))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def _encode(self, names: list[str]) -> torch.Tensor:
        length = self.settings.max_length
        batch = self.tokenizer(names, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
        with nullcontext() if self.autocast is None else torch.autocast("cpu", dtype=self.autocast):
            hidden = self.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])[0]
        return pool(hidden, batch["attention_mask"], self.settings.pooling)
