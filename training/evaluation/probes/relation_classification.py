"""Relation classification: predicting the relation between two concepts from their vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

from spacy_sapbert.progress import show_progress
from spacy_sapbert.terminology import Terminology

from ...errors import Errors
from ..systems.concept_vectors import VectorSource, find_vectors
from .relation_data import RelationData

# The paper's data, of the Diseases Database, are not public.
DATA = "substitute: relations of the terminology"
PREDICTED_AT_ONCE = 4096
Predict = Callable[[np.ndarray], torch.Tensor]


@dataclass(frozen=True)
class HeadSettings:
    """Settings of the classifier (Yuan et al., JBI 2022, section 4.4). The defaults are for frozen vectors.

    epochs (int): Epochs over all triples.
    batch_size (int): Triples in a step.
    learning_rate (float): Of AdamW without weight decay. It rises to this in the first steps, then falls to 0.
    warm_up (float): The share of steps in which it rises.
    standardise (bool): Scale each dimension to mean 0 and variance 1 over the concepts of the training triples, so that
        the scale of the vectors has no effect. The published figures use unscaled vectors.
    seeds (tuple[int, ...]): One training for each; they decide first weights, order and dropout, not the split.
    """

    epochs: int = 50
    batch_size: int = 512
    learning_rate: float = 1e-3
    warm_up: float = 0.1
    standardise: bool = False
    seeds: tuple[int, ...] = (72,)

    def __post_init__(self) -> None:
        allowed = {
            "epochs": (self.epochs >= 1, "1 or more"),
            "batch_size": (self.batch_size >= 1, "1 or more"),
            "learning_rate": (0 < self.learning_rate < math.inf, "more than 0"),
            "warm_up": (0 <= self.warm_up <= 1, "a share between 0 and 1"),
            "seeds": (bool(self.seeds) and min(self.seeds, default=0) >= 0, "one or more numbers of 0 or more"),
        }
        for name, (is_fine, words) in allowed.items():
            if not is_fine:
                raise ValueError(Errors.E404.format(name=name, where="", value=getattr(self, name), allowed=words))


FEATURES = HeadSettings()
FINE_TUNING = replace(FEATURES, batch_size=96, learning_rate=2e-5)


def classify_features(
    vectors: VectorSource, terminology: Terminology, data: RelationData, settings: HeadSettings = FEATURES
) -> dict[str, Any]:
    """Train a linear classifier on the vectors of head and tail, which stay as they are, and test it.

    The logits are W [head; tail] + b, the loss is cross-entropy (Yuan et al., JBI 2022, section 4.4; "feature" in table
    4). The same on each run with equal settings.

    vectors (VectorSource): Table, encoder or word vectors. Triples with a concept that it lacks are excluded.
    terminology (Terminology): Has the names.
    data (RelationData): The triples.
    settings (HeadSettings): Settings of the classifier.
    RETURNS (dict): What `describe_runs` gives; `mode` is "feature".
    RAISES (ValueError): If no triple to train on, or none to test on, has vectors.
    """
    found, is_known = find_vectors(vectors, terminology, data.concepts)
    is_covered = is_known[data.heads] & is_known[data.tails]
    train_rows, test_rows = (np.flatnonzero(part & is_covered) for part in (~data.is_test, data.is_test))
    if not len(train_rows) or not len(test_rows):
        raise ValueError(
            Errors.E774.format(
                wanted=len(data.labels),
                what="triples to train or to test on",
                vectors="the vectors at both ends",
                examples=", ".join(data.names[:3]),
            )
        )
    if settings.standardise:
        found = _standardise(found, np.union1d(data.heads[train_rows], data.tails[train_rows]))
    features = torch.from_numpy(found)
    heads, tails = torch.from_numpy(data.heads), torch.from_numpy(data.tails)
    predictions = []
    for seed in settings.seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            classifier = torch.nn.Linear(2 * features.shape[1], len(data.names))

            def predict(rows: np.ndarray, classifier: torch.nn.Module = classifier) -> torch.Tensor:
                return classifier(torch.cat([features[heads[rows]], features[tails[rows]]], dim=1))

            train(predict, classifier.parameters(), data, train_rows, settings, seed)
            predictions.append(predict_labels(predict, test_rows))
    described = describe_runs(data, settings, train_rows, test_rows, predictions)
    return {
        "mode": "feature",
        **described,
        "concepts": len(is_known),
        "known_concepts": int(is_known.sum()),
        "vectors": vectors.fingerprint,
        "terminology": terminology.fingerprint,
    }


def train(
    predict: Predict,
    parameters: Iterable[torch.nn.Parameter],
    data: RelationData,
    rows: np.ndarray,
    settings: HeadSettings,
    seed: int,
) -> None:
    """Train a classifier.

    predict (Callable): Logits, shape (rows, labels), of some rows of triples.
    parameters (Iterable[Parameter]): The trained parameters.
    data (RelationData): The triples.
    rows (ndarray): Those to train on.
    settings (HeadSettings): Settings of the classifier.
    seed (int): Of the order in which they are seen.
    """
    optimizer = torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=0.0)
    n_steps = settings.epochs * math.ceil(len(rows) / settings.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate_at(step, n_steps, settings))
    generator = np.random.default_rng(seed)
    labels = torch.from_numpy(data.labels)
    with show_progress(total=n_steps, description=f"Relations, seed {seed}", unit="steps") as progress:
        for _ in range(settings.epochs):
            shuffled = generator.permutation(rows)
            for start in range(0, len(rows), settings.batch_size):
                batch = shuffled[start : start + settings.batch_size]
                logits = predict(batch)
                loss = torch.nn.functional.cross_entropy(logits, labels[batch].to(logits.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                progress.update()


def learning_rate_at(step: int, n_steps: int, settings: HeadSettings) -> float:
    """Compute the share of the learning rate at a step: it rises, then falls to 0.

    step (int): From 0 on.
    n_steps (int): Steps in all.
    settings (HeadSettings): Settings of the classifier.
    RETURNS (float): More than 0 in each step, 1 at the top.
    """
    n_warm_up = int(settings.warm_up * n_steps)
    if step < n_warm_up:
        return (step + 1) / n_warm_up
    return max(0, n_steps - step) / max(1, n_steps - n_warm_up)


def predict_labels(predict: Predict, rows: np.ndarray) -> np.ndarray:
    """Predict labels.

    predict (Callable): As for `train`.
    rows (ndarray): Rows of triples.
    RETURNS (ndarray): The most likely label of each, shape (rows,), int64.
    """
    blocks = [rows[start : start + PREDICTED_AT_ONCE] for start in range(0, len(rows), PREDICTED_AT_ONCE)]
    with torch.inference_mode():
        return np.concatenate([predict(block).argmax(dim=1).cpu().numpy() for block in blocks])


def describe_runs(
    data: RelationData,
    settings: HeadSettings,
    train_rows: np.ndarray,
    test_rows: np.ndarray,
    predictions: Sequence[np.ndarray],
) -> dict[str, Any]:
    """Describe the results of all seeds.

    data (RelationData): The triples.
    settings (HeadSettings): Settings of the classifier.
    train_rows, test_rows (ndarray): The rows of triples trained and tested on.
    predictions (Sequence[ndarray]): For each seed, the labels predicted of the latter.
    RETURNS (dict): `accuracy` and `macro_f1`, means over seeds, with `_sd`, their standard deviation (None of one
        seed); `accuracy_of_all`, where triples that were left out of the test count as wrong; `majority_accuracy`, of
        always giving the most frequent label; `labels`: the accuracy of each, a mean over seeds, and its triples in the
        test; `runs`, counts, settings, hash.
    """
    gold = data.labels[test_rows]
    runs = [score_labels(gold, predicted) for predicted in predictions]
    majority = int(np.bincount(data.labels[train_rows]).argmax())
    n_test = int(data.is_test.sum())
    scores = {
        key: summary
        for score in ("accuracy", "macro_f1")
        for key, summary in _summarise(score, [run[score] for run in runs]).items()
    }
    return {
        "task": "relation classification",
        "data": DATA,
        **scores,
        "accuracy_of_all": scores["accuracy"] * len(test_rows) / n_test,
        "majority_accuracy": float((gold == majority).mean()),
        "labels": _describe_labels(data.names, gold, predictions),
        "runs": [{"seed": seed, **run} for seed, run in zip(settings.seeds, runs, strict=True)],
        "train": len(train_rows),
        "test": len(test_rows),
        "coverage": (len(train_rows) + len(test_rows)) / len(data.labels),
        "settings": asdict(settings),
        "triples": data.report,
        "hash": data.hash(),
    }


def score_labels(gold: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Score predicted labels.

    gold, predicted (ndarray): Numbers of labels, shape (n,).
    RETURNS (dict): `accuracy`; `macro_f1`, the mean F1 of all labels that occur in either.
    """
    hits = gold == predicted
    right = np.bincount(gold[hits], minlength=int(max(gold.max(), predicted.max())) + 1)
    both = np.bincount(gold, minlength=len(right)) + np.bincount(predicted, minlength=len(right))
    return {"accuracy": float(hits.mean()), "macro_f1": float((2 * right[both > 0] / both[both > 0]).mean())}


def _standardise(vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    centre, spread = vectors[rows].mean(axis=0), vectors[rows].std(axis=0)
    return (vectors - centre) / np.where(spread > 0, spread, 1).astype(np.float32)


def _summarise(name: str, values: Sequence[float]) -> dict[str, Any]:
    return {name: mean(values), f"{name}_sd": stdev(values) if len(values) > 1 else None}


def _describe_labels(
    names: Sequence[str], gold: np.ndarray, predictions: Sequence[np.ndarray]
) -> dict[str, dict[str, Any]]:
    hits = np.mean([gold == predicted for predicted in predictions], axis=0)
    return {
        name: {"accuracy": float(hits[gold == label].mean()), "test": int((gold == label).sum())}
        for label, name in enumerate(names)
        if (gold == label).any()
    }
