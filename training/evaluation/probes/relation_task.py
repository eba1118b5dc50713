"""Relation classification as a task for the measurer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spacy_sapbert.terminology import Terminology

from ...errors import Errors
from ..systems.concept_vectors import VectorSource
from ..systems.encoder import EncoderSystem
from .relation_classification import FEATURES, HeadSettings, classify_features
from .relation_data import RelationData

# How tables call triples of all concepts, and those of which training had no names at one end at least.
RELATIONS, UNSEEN_RELATIONS = "relations", "unseen relations"


@dataclass(frozen=True)
class RelationTask:
    """Triples with labels to predict from vectors.

    data (RelationData): The triples.
    terminology (Terminology): Has the names.
    is_unseen (bool): Whether no triple may have two concepts that an encoder was trained on.
    settings (HeadSettings): Settings of the classifier.
    fine_tune (bool): Train a copy of the encoder as well; otherwise vectors stay as they are.
    """

    data: RelationData
    terminology: Terminology
    is_unseen: bool = False
    settings: HeadSettings = FEATURES
    fine_tune: bool = False

    def hash(self) -> str:
        """Hash everything that determines an accuracy, except for the vectors.

        RETURNS (str): SHA-256, hexadecimal.
        """
        parts = ["relations", self.fine_tune, self.data.hash(), self.terminology.fingerprint, asdict(self.settings)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def measure(self, system: VectorSource) -> dict[str, Any]:
        """Measure vectors.

        system (VectorSource): Table, encoder or word vectors; to fine-tune, an encoder.
        RETURNS (dict[str, Any]): What `describe_runs` returns; tables show `accuracy`.
        """
        if not self.fine_tune:
            return classify_features(system, self.terminology, self.data, self.settings)
        # Only fine-tuning needs it.
        from .relation_finetuning import finetune_relations

        assert isinstance(system, EncoderSystem)
        return finetune_relations(system.encoder, self.terminology, self.data, self.settings)

    def check_unseen(self, concepts: Collection[str], path: str) -> None:
        """Raise an error if both concepts of an unseen triple are training concepts.

        concepts (Collection[str]): The ids of the training concepts.
        path (str): The folder of their names.
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
