"""Relation classification as a task on which encoders are measured side by side."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.terminology import Terminology

from ...errors import Errors
from .concept_vectors import EncoderNames
from .relation_classification import FEATURES, HeadSettings, classify_features
from .relation_data import RelationData

# How tables call triples of all concepts, and those of which training had no names at one end at least.
RELATIONS, UNSEEN_RELATIONS = "relations", "unseen relations"
# To be raised whenever the same encoder may get other figures on the same triples.
CLASSIFICATION = 1


@dataclass(frozen=True)
class RelationTask:
    """Triples whose labels are to be told by an encoder's vectors, which stay as they are.

    data (RelationData): The triples.
    terminology (Terminology): Has the names.
    is_unseen (bool): Whether no triple may have two concepts that an encoder was trained on.
    settings (HeadSettings): How the classifier is trained.
    """

    data: RelationData
    terminology: Terminology
    is_unseen: bool = False
    settings: HeadSettings = FEATURES

    def hash(self) -> str:
        """Hash all that decides an accuracy, but for the encoder.

        RETURNS (str): SHA-256, hexadecimal.
        """
        parts = [CLASSIFICATION, self.data.hash(), self.terminology.fingerprint, asdict(self.settings)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def measure(self, encoder: EncoderShim) -> dict[str, Any]:
        """Measure an encoder.

        encoder (EncoderShim): The encoder.
        RETURNS (dict): What `classify_features` gives; the figure of tables is `accuracy`.
        """
        return classify_features(EncoderNames(encoder), self.terminology, self.data, self.settings)

    def check_unseen(self, concepts: Collection[str], path: str) -> None:
        """Refuse triples that are said to be unseen, and of which both concepts are trained on.

        concepts (Collection[str]): The ids of the concepts that are trained on.
        path (str): Where their names lie.
        RAISES (ValueError): If there are such triples.
        """
        if not self.is_unseen:
            return
        ids = self.data.concepts
        is_learned = np.array([concept in concepts for concept in ids], dtype=bool)
        seen = np.flatnonzero(is_learned[self.data.heads] & is_learned[self.data.tails])
        if len(seen):
            head, tail = ids[self.data.heads[seen[0]]], ids[self.data.tails[seen[0]]]
            raise ValueError(
                Errors.E832.format(n=len(seen), triples=len(self.data.labels), path=path, head=head, tail=tail)
            )
