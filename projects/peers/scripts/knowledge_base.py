"""A dictionary in the form of scispaCy's knowledge bases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def make_entities(names: Sequence[str], ids: Sequence[str]) -> list[dict[str, Any]]:
    """Make one entity of each concept.

    Its canonical name is the first of its names in the dictionary, and its aliases are the others, each once and
    in their order. A dictionary has neither types nor definitions.

    names (Sequence[str]): The names.
    ids (Sequence[str]): The concept of each; equal ids joined with "|" are one concept.
    RETURNS (list[dict]): `concept_id`, `canonical_name`, `aliases`, `types` and `definition` of each, as
        `scispacy.linking_utils.Entity` has them.
    """
    names_of: dict[str, dict[str, None]] = {}
    for name, concept_id in zip(names, ids, strict=True):
        names_of.setdefault(concept_id, {})[name] = None
    entities = []
    for concept_id, distinct in names_of.items():
        canonical_name, *aliases = distinct
        entities.append(
            {
                "concept_id": concept_id,
                "canonical_name": canonical_name,
                "aliases": aliases,
                "types": [],
                "definition": None,
            }
        )
    return entities
