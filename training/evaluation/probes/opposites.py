"""Opposites: whether a mention is nearer to a synonym of its concept than to any name of the opposite concept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...data.relatedness import OppositePair
from ..systems.concept_vectors import NameVectors, scale_to_unit


@dataclass(frozen=True)
class OppositesTask:
    """Pairs of opposites as a task for the measurer.

    pairs (Sequence[OppositePair]): The pairs.
    """

    pairs: Sequence[OppositePair]

    def hash(self) -> str:
        """Hash the pairs. See `ProbeTask.hash`."""
        parts = ["opposites", *map(asdict, self.pairs)]
        return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()

    def measure(self, system: NameVectors) -> dict[str, Any]:
        """Measure vectors. See `measure_opposites`."""
        return measure_opposites(system, self.pairs)


def measure_opposites(vectors: NameVectors, pairs: Sequence[OppositePair]) -> dict[str, Any]:
    """Measure how many mentions are nearer to their concept than to its opposite.

    A mention is right if the nearest of its synonyms is nearer, by cosine, than the nearest name of the opposite. Equal
    cosines are wrong, and so are mentions without a vector.

    vectors (NameVectors): An encoder or word vectors.
    pairs (Sequence[OppositePair]): The pairs, at least one.
    RETURNS (dict[str, Any]): `accuracy` over all pairs, `mean_of_kinds`, `pairs`; and under `kinds`, for each kind,
        `accuracy` and `pairs`. Accuracies are shares.
    """
    strings = [string for pair in pairs for string in (pair.mention, *pair.synonyms, *pair.opposite_names)]
    row_of = {string: row for row, string in enumerate(dict.fromkeys(strings))}
    unit = scale_to_unit(vectors.encode(list(row_of))[0])

    def find_nearest(mention: str, names: Sequence[str]) -> float:
        return float((unit[[row_of[name] for name in names]] @ unit[row_of[mention]]).max())

    is_right: dict[str, list[bool]] = {}
    for pair in pairs:
        nearest = find_nearest(pair.mention, pair.synonyms), find_nearest(pair.mention, pair.opposite_names)
        is_right.setdefault(pair.kind, []).append(nearest[0] > nearest[1])
    kinds = {kind: {"accuracy": float(np.mean(hits)), "pairs": len(hits)} for kind, hits in is_right.items()}
    return {
        "task": "opposites",
        "accuracy": float(np.mean([hit for hits in is_right.values() for hit in hits])),
        "mean_of_kinds": float(np.mean([values["accuracy"] for values in kinds.values()])),
        "pairs": len(pairs),
        "kinds": kinds,
        "vectors": vectors.fingerprint,
    }


def list_rows(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """List the accuracies of several systems on one task, for a table.

    figures (Sequence[dict[str, Any]]): The figures of each system.
    RETURNS (list[list[str]]): For each kind, and for all: its name, the number of pairs, and accuracies in percent.
    """
    rows = [
        [kind, f"{values['pairs']:,}", *(f"{100 * each['kinds'][kind]['accuracy']:.1f}" for each in figures)]
        for kind, values in figures[0]["kinds"].items()
    ]
    for label, key in (("mean of kinds", "mean_of_kinds"), ("all pairs", "accuracy")):
        rows.append([label, f"{figures[0]['pairs']:,}", *(f"{100 * each[key]:.1f}" for each in figures)])
    return rows
