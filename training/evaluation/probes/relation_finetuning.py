"""Relation classification with fine-tuning of the encoder."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import polars as pl
import torch

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists
from spacy_sapbert.encoder.transformer import forward, resolve_device
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.rrf import find_rows

from ...data.tokens import tokenise
from .relation_classification import FINE_TUNING, HeadSettings, describe_runs, predict_labels, train
from .relation_data import RelationData

ENCODED_AT_ONCE = 256


class RelationModel(torch.nn.Module):
    """A transformer and a linear classifier on the vectors of two names.

    encoder (EncoderShim): Whose weights to copy; also says how names become vectors.
    tokens (TokenLists): Token ids of each concept's name.
    data (RelationData): The triples.
    """

    def __init__(self, encoder: EncoderShim, tokens: TokenLists, data: RelationData) -> None:
        super().__init__()
        self.transformer = copy.deepcopy(encoder.source.transformer).float().requires_grad_(True)
        self.classifier = torch.nn.Linear(2 * encoder.width, len(data.names))
        self.settings = encoder.settings
        self.pad_id = encoder.source.tokenizer.pad_token_id or 0
        self.tokens = tokens
        self.data = data

    def forward(self, rows: np.ndarray) -> torch.Tensor:
        """Predict labels; each name in the rows is encoded once.

        rows (ndarray): Rows of triples.
        RETURNS (Tensor): Logits, shape (rows, labels).
        """
        ends = np.stack([self.data.heads[rows], self.data.tails[rows]], axis=1)
        concepts, places = np.unique(ends, return_inverse=True)
        vectors = torch.cat(
            [self._encode(concepts[i : i + ENCODED_AT_ONCE]) for i in range(0, len(concepts), ENCODED_AT_ONCE)]
        )
        rows_of_vectors = torch.from_numpy(places.reshape(ends.shape)).to(vectors.device)
        return self.classifier(vectors[rows_of_vectors].flatten(start_dim=1))

    def _encode(self, concepts: np.ndarray) -> torch.Tensor:
        batch = [self.tokens[concept] for concept in concepts]
        device = self.classifier.weight.device
        return forward(self.transformer, batch, self.settings, pad_id=self.pad_id, device=device)


def finetune_relations(
    encoder: EncoderShim, terminology: Terminology, data: RelationData, settings: HeadSettings = FINE_TUNING
) -> dict[str, Any]:
    """Train an encoder and a linear classifier together, and test them (Yuan et al., JBI 2022, section 4.4;
    "fine-tune" in table 4). The encoder stays as it is: a copy is trained, with the dropout of its configuration.

    encoder (EncoderShim): The encoder. Published figures cut names after 32 tokens.
    terminology (Terminology): Has the names.
    data (RelationData): The triples.
    settings (HeadSettings): Settings of the classifier. Vectors can't be standardised, as they change.
    RETURNS (dict): What `describe_runs` gives; `mode` is "fine-tune".
    """
    rows = find_rows(pl.Series(data.concepts), terminology.concepts["id"])
    tokens = tokenise(terminology.concepts["canonical_name"].gather(rows), encoder)
    device = resolve_device("auto")
    train_rows, test_rows = (np.flatnonzero(part) for part in (~data.is_test, data.is_test))
    predictions = []
    for seed in settings.seeds:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = RelationModel(encoder, tokens, data).to(device).train()
            train(model, model.parameters(), data, train_rows, settings, seed)
            predictions.append(predict_labels(model.eval(), test_rows))
    return {
        "mode": "fine-tune",
        **describe_runs(data, settings, train_rows, test_rows, predictions),
        "vectors": encoder.fingerprint,
        "terminology": terminology.fingerprint,
    }
