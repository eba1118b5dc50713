"""Separation of concepts in the vector space."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Separation(NamedTuple):
    """Measures of how well vectors separate concepts.

    nearest_is_same (float): Share of names whose nearest other name is of the same concept.
    silhouette (float): Mean silhouette by cosine distance (Rousseeuw, 1987), -1 to 1.
    """

    nearest_is_same: float
    silhouette: float


def measure_separation(vectors: np.ndarray, labels: np.ndarray) -> Separation:
    """Measure how well vectors separate concepts.

    vectors (ndarray): Shape (names, width), L2-normalised.
    labels (ndarray): The concept of each name; shape (names,), int64, two concepts or more.
    RETURNS (Separation): Both figures. Of equally near names the first counts.
    """
    from sklearn.metrics import silhouette_score

    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(axis=1)
    share = float((labels[nearest] == labels).mean())
    return Separation(share, float(silhouette_score(vectors, labels, metric="cosine")))
