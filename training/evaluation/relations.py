"""Relation classification: predicting the relation of two concepts from their vectors (Yuan et al., JBI 2022, 4.4)."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch
from pydantic import Field, model_validator
from typing_extensions import Self

from spacy_sapbert.encoder.transformer import forward, resolve_device
from spacy_sapbert.progress import show_progress
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.rrf import find_rows

from ..data.tokens import tokenise
from ..data.triples import read_triples
from .frame import Figure
from .measure import Measured, Missing, Task
from .settings import Limits, Seeds, TaskSettings
from .systems.encoder import EncoderSystem
from .systems.vectors import VectorSource, find_vectors

# The paper's data, of the Diseases Database, are not public.
DATA = "substitute: relations of the terminology"
TEST_SHARE = 0.2
WARM_UP = 0.1  # The share of steps in which the learning rate rises.
# The batch size, and the learning rate of AdamW without weight decay, which rises to this and falls to 0: for frozen
# vectors, and to fine-tune.
RATES = {False: (512, 1e-3), True: (96, 2e-5)}
SPLIT_SEED = 72
PREDICTED_AT_ONCE, ENCODED_AT_ONCE = 4096, 256
Encode = Callable[[np.ndarray], torch.Tensor]


class RelationTaskSettings(TaskSettings):
    """A section [tasks.NAME] with kind = "relations". The defaults are those of the paper, for frozen vectors."""

    inputs: ClassVar[tuple[str, ...]] = ("terminology", "triples")

    terminology: str = ""  # Has the names of the concepts. Triples of others are left out.
    triples: str = ""  # A folder of `triples`.
    # The terminology that an encoder was trained on: triples with both concepts in it are left out, so that training
    # had no names of at least one.
    unseen: str = ""
    min_triples: int = Field(default=50, ge=2)  # Relations with fewer are left out.
    max_triples: int = Field(default=0, ge=0)  # Draw so many of each relation at most; 0 for all.
    fine_tune: bool = False  # Train a copy of the encoder as well; otherwise vectors stay as they are.
    # Give frozen vectors mean 0 and variance 1 over the concepts of the training triples, as published ones have not.
    standardise: bool = False
    epochs: int = Field(default=50, ge=1)
    # One training for each; they decide first weights, order and dropout, not the split.
    seeds: Seeds = (72,)

    @model_validator(mode="after")
    def check(self) -> Self:
        """Refuse settings that don't fit together."""
        if self.max_triples == 1:
            raise ValueError("max_triples is 1, but has to be 0 for all, or 2 or more: one to learn and one to test")
        if self.fine_tune and self.standardise:
            raise ValueError("standardise is for frozen vectors: leave it out where encoders learn (fine_tune)")
        if not self.seeds or min(self.seeds) < 0:
            raise ValueError("seeds has to have one or more whole numbers of 0 or more")
        return self

    def make(self, name: str, limits: Limits) -> tuple[dict[str, Task], list[Missing]]:
        """Make the task, unless there are too few relations: an ontology may well have none."""
        terminology = Terminology.from_disk(Path(self.terminology))
        seen = Terminology.from_disk(Path(self.unseen)) if self.unseen else None
        try:
            data = choose_triples(terminology, self, seen=seen)
        except TooFewRelations as error:
            return {}, [Missing(str(error), title="Relations", task=name)]
        return {name: RelationTask(name, data, terminology, self)}, []


class TooFewRelations(ValueError):
    """There are not two relations with enough triples."""


@dataclass(frozen=True)
class RelationData:
    """Pairs of concepts with a label each, in an order that depends on nothing but them and the settings."""

    concepts: list[str]  # The ids of all concepts, sorted.
    heads: np.ndarray  # Rows of `concepts`, (triples,), int64.
    tails: np.ndarray
    labels: np.ndarray  # Numbers of labels, (triples,), int64.
    names: list[str]  # Of the labels.
    is_test: np.ndarray  # Which triples are to test on, (triples,), bool: a fifth of each label.
    report: dict[str, Any]  # Counts of read, kept and excluded triples.

    def hash(self) -> str:
        """Hash everything that determines an accuracy, except for the vectors."""
        digest = hashlib.sha256("\n".join([*self.concepts, "", *self.names]).encode())
        for array in (self.heads, self.tails, self.labels, self.is_test):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


@dataclass(frozen=True)
class RelationTask:
    """Triples with labels to predict from the vectors of head and tail. The logits are W [head; tail] + b."""

    name: str
    data: RelationData
    terminology: Terminology
    settings: RelationTaskSettings
    protocol = "relations"

    @property
    def needs(self) -> frozenset[str]:
        """Fine-tuning needs an encoder, which is checked when it is measured."""
        return frozenset({"encode"}) if self.settings.fine_tune else frozenset({"encode", "take"})

    def hash(self) -> str:
        """Hash triples, names and settings."""
        trained = ("fine_tune", "standardise", "epochs", "seeds")
        settings = [*RATES[self.settings.fine_tune], self.settings.model_dump(mode="json", include=set(trained))]
        parts = ["relations", self.data.hash(), self.terminology.fingerprint, settings]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Describe the task for reports."""
        title = "Relations of concepts that training has not seen" if self.settings.unseen else "Relations"
        counts = {name: self.data.report[name] for name in ("triples", "train", "test", "concepts")}
        return {"title": title, "counts": {**counts, "labels": len(self.data.names)}, "triples": self.data.report}

    def measure(self, system: VectorSource) -> Measured:
        """Train a classifier for each seed ("feature" or "fine-tune" in CODER's table 4), and test it.

        Triples with a concept that has no vector are left out; in `accuracy_of_all` they count as wrong. The same on
        each run with equal settings.
        """
        prepare = prepare_encoder if self.settings.fine_tune else prepare_vectors
        make_model, is_covered = prepare(system, self)
        is_test = self.data.is_test
        train_rows, test_rows = np.flatnonzero(~is_test & is_covered), np.flatnonzero(is_test & is_covered)
        predictions = []
        for seed in self.settings.seeds:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                model = make_model().train()
                train(model, self, train_rows, seed)
                predictions.append(predict_labels(model.eval(), test_rows))
        return score_runs(self, train_rows, test_rows, predictions)

    def check_unseen(self, concepts: Collection[str], path: str) -> None:
        """Refuse training concepts (of the folder `path`) among which an unseen triple has both ends."""
        ids, heads, tails = self.data.concepts, self.data.heads, self.data.tails
        is_learned = np.array([concept in concepts for concept in ids], dtype=bool)
        seen = np.flatnonzero(is_learned[heads] & is_learned[tails] & bool(self.settings.unseen))
        if len(seen):
            pair = f"{ids[heads[seen[0]]]} and {ids[tails[seen[0]]]}"
            reason = f"of {len(seen):,} of its {len(self.data.labels):,} triples both concepts are in {path}, as {pair}"
            raise ValueError(
                f"{self.name} is not unseen: {reason}. Give the terminology that is trained on as `unseen`."
            )


class RelationModel(torch.nn.Module):
    """A linear classifier on the vectors of head and tail, which a function gives. A transformer may learn with it."""

    def __init__(
        self, data: RelationData, width: int, encode: Encode, transformer: torch.nn.Module | None = None
    ) -> None:
        super().__init__()
        self.data, self.encode, self.transformer = data, encode, transformer
        self.classifier = torch.nn.Linear(2 * width, len(data.names))

    def forward(self, rows: np.ndarray) -> torch.Tensor:
        """Compute the logits of rows of triples. Each concept in them is encoded once."""
        ends = np.stack([self.data.heads[rows], self.data.tails[rows]], axis=1)
        concepts, places = np.unique(ends, return_inverse=True)
        vectors = self.encode(concepts)
        rows_of_vectors = torch.from_numpy(places.reshape(ends.shape)).to(vectors.device)
        return self.classifier(vectors[rows_of_vectors].flatten(start_dim=1))


def prepare_vectors(vectors: VectorSource, task: RelationTask) -> tuple[Callable[[], RelationModel], np.ndarray]:
    """Make a function that makes a model on vectors as they are, and tell which triples have vectors at both ends."""
    data = task.data
    found, is_known = find_vectors(vectors, task.terminology, data.concepts)
    is_covered = is_known[data.heads] & is_known[data.tails]
    if not (is_covered & data.is_test).any() or not (is_covered & ~data.is_test).any():
        reason = f"none to train or to test on has vectors at both ends, of {len(data.labels)}"
        raise ValueError(f"{task.name}: {reason} triples with {', '.join(data.names[:3])}. Check ids and names.")
    if task.settings.standardise:
        is_used = is_covered & ~data.is_test
        rows = np.union1d(data.heads[is_used], data.tails[is_used])
        spread = found[rows].std(axis=0)
        found = (found - found[rows].mean(axis=0)) / np.where(spread > 0, spread, 1).astype(np.float32)
    features = torch.from_numpy(found)
    return partial(RelationModel, data, features.shape[1], lambda concepts: features[concepts]), is_covered


def prepare_encoder(system: VectorSource, task: RelationTask) -> tuple[Callable[[], RelationModel], np.ndarray]:
    """Make a function that makes a model with a copy of an encoder, with the dropout of its configuration.

    Published figures cut names after 32 tokens.
    """
    if not isinstance(system, EncoderSystem):
        raise ValueError(f"{task.name} trains encoders (fine_tune), but got other vectors. Limit `tasks` of systems.")
    encoder, data, device = system.encoder, task.data, resolve_device("auto")
    pad_id = encoder.source.tokenizer.pad_token_id or 0
    rows = find_rows(pl.Series(data.concepts), task.terminology.concepts["id"])
    tokens = tokenise(task.terminology.concepts["canonical_name"].gather(rows), encoder)

    def make_model() -> RelationModel:
        transformer = copy.deepcopy(encoder.source.transformer).float().requires_grad_(True)

        def encode(concepts: np.ndarray) -> torch.Tensor:
            blocks = [concepts[start : start + ENCODED_AT_ONCE] for start in range(0, len(concepts), ENCODED_AT_ONCE)]
            batches = ([tokens[concept] for concept in block] for block in blocks)
            settings = encoder.settings
            return torch.cat([forward(transformer, batch, settings, pad_id=pad_id, device=device) for batch in batches])

        return RelationModel(data, encoder.width, encode, transformer).to(device)

    return make_model, np.ones(len(data.labels), dtype=bool)


def train(model: RelationModel, task: RelationTask, rows: np.ndarray, seed: int) -> None:
    """Train a model by cross-entropy on rows of triples; the seed is that of their order."""
    batch_size, learning_rate = RATES[task.settings.fine_tune]
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    n_steps = task.settings.epochs * math.ceil(len(rows) / batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: share_of_rate(step, n_steps))
    generator = np.random.default_rng(seed)
    labels = torch.from_numpy(task.data.labels)
    with show_progress(total=n_steps, description=f"Relations, seed {seed}", unit="steps") as progress:
        for _ in range(task.settings.epochs):
            shuffled = generator.permutation(rows)
            for start in range(0, len(rows), batch_size):
                batch = shuffled[start : start + batch_size]
                logits = model(batch)
                loss = torch.nn.functional.cross_entropy(logits, labels[batch].to(logits.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                progress.update()


def share_of_rate(step: int, n_steps: int) -> float:
    """Tell the share of the learning rate at a step, from 0 on: it rises to 1, then falls to 0."""
    n_warm_up = int(WARM_UP * n_steps)
    return (step + 1) / n_warm_up if step < n_warm_up else max(0, n_steps - step) / max(1, n_steps - n_warm_up)


def predict_labels(model: RelationModel, rows: np.ndarray) -> np.ndarray:
    """Predict the most likely label of each row of triples."""
    blocks = [rows[start : start + PREDICTED_AT_ONCE] for start in range(0, len(rows), PREDICTED_AT_ONCE)]
    with torch.inference_mode():
        return np.concatenate([model(block).argmax(dim=1).cpu().numpy() for block in blocks])


def score_runs(
    task: RelationTask, train_rows: np.ndarray, test_rows: np.ndarray, predictions: list[np.ndarray]
) -> Measured:
    """Score the predicted labels of each seed: means, and their standard deviations (not defined for one seed)."""
    from sklearn.metrics import f1_score

    data, n = task.data, len(test_rows)
    gold = data.labels[test_rows]
    hits = np.stack([gold == predicted for predicted in predictions])
    scores = {
        "accuracy": [float(hit.mean()) for hit in hits],
        "macro_f1": [float(f1_score(gold, predicted, average="macro")) for predicted in predictions],
    }
    figures = []
    for metric, values in scores.items():
        spread = stdev(values) if len(values) > 1 else math.nan
        figures += [Figure(metric, None, mean(values), n), Figure(f"{metric}_sd", None, spread, n)]
    n_all = int(data.is_test.sum())
    majority = int(np.bincount(data.labels[train_rows]).argmax())
    figures.append(Figure("accuracy_of_all", None, mean(scores["accuracy"]) * n / n_all, n_all))
    figures.append(Figure("majority_accuracy", None, float((gold == majority).mean()), n))
    for label, name in enumerate(data.names):
        if (gold == label).any():
            accuracy = float(hits[:, gold == label].mean())
            figures.append(Figure(f"accuracy.{name}", None, accuracy, int((gold == label).sum())))
    runs = zip(task.settings.seeds, *scores.values(), strict=True)
    details = {
        "mode": "fine-tune" if task.settings.fine_tune else "feature",
        "data": DATA,
        "train": len(train_rows),
        "test": n,
        "coverage": (len(train_rows) + n) / len(data.labels),
        "runs": [dict(zip(("seed", *scores), run, strict=True)) for run in runs],
    }
    return Measured(figures, details)


def choose_triples(
    terminology: Terminology, settings: RelationTaskSettings, *, seen: Terminology | None = None
) -> RelationData:
    """Choose triples, and split them with the same shares of all labels."""
    ids, triples = terminology.concepts["id"], read_triples(settings.triples)
    left_out: Counter[str] = Counter()
    report: dict[str, Any] = {"triples_read": len(triples), "labels_read": len(triples.labels)}
    rows, labels = find_rows(triples.concepts, ids), triples.labels.gather(triples.relations)
    frame = pl.DataFrame({"head": rows[triples.heads], "relation": labels, "tail": rows[triples.tails]})
    frame = _keep(frame, (pl.col("head") >= 0) & (pl.col("tail") >= 0), "unknown_concept", left_out)
    # They say the same as another with the concepts changed round. The first by name is kept.
    inverses = find_inverses(frame)
    frame = _keep(frame, ~pl.col("relation").is_in(list(inverses)), "inverse_label", left_out)
    # Of a pair of concepts under several relations, no answer would be right.
    n_pairs = frame.select("head", "tail").n_unique()
    frame = _keep(frame, pl.len().over("head", "tail") == 1, "pair_of_several_labels", left_out)
    report["pairs_of_several_labels"] = n_pairs - frame.height
    if seen is not None:
        # Only now: which labels are inverses, and which pairs have several, does not depend on what was trained on.
        is_seen = np.append(find_rows(ids, seen.concepts["id"]) >= 0, False)
        both = is_seen[frame["head"].to_numpy()] & is_seen[frame["tail"].to_numpy()]
        frame = _keep(frame, pl.lit(pl.Series(~both)), "seen", left_out)
        report["seen"] = seen.fingerprint
    is_frequent = pl.len().over("relation") >= settings.min_triples
    report["rare_labels"] = frame.filter(~is_frequent)["relation"].n_unique()
    frame = _keep(frame, is_frequent, "rare_label", left_out)
    # An order that is random, but the same whatever order they came in.
    frame = frame.sort("relation", "head", "tail")
    frame = frame[np.random.default_rng(SPLIT_SEED).permutation(frame.height)]
    if settings.max_triples:
        is_early = pl.int_range(pl.len()).over("relation") < settings.max_triples
        frame = _keep(frame, is_early, "beyond_maximum", left_out)
    if frame["relation"].n_unique() < 2:
        reason = f"{frame['relation'].n_unique()} of the relations in {settings.triples} are left, and two are needed"
        counts = ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in left_out.items())
        raise TooFewRelations(f"{reason}. Of {len(triples):,} triples were left out: {counts}. Lower min_triples.")
    return _assemble(frame, ids, {**report, "inverse_of": inverses, "left_out": dict(left_out)})


def find_inverses(frame: pl.DataFrame) -> dict[str, str]:
    """Find labels whose triples are those of another label with the concepts changed round: of two, the second by name,
    and that which stays. A label that is its own inverse is not among them.
    """
    forward, backward = _hash_labels(frame, "head", "tail"), _hash_labels(frame, "tail", "head")
    label_of: dict[str, str] = {}
    found = {}
    for label in sorted(forward):
        if backward[label] in label_of:
            found[label] = label_of[backward[label]]
        else:
            label_of.setdefault(forward[label], label)
    return found


def _hash_labels(frame: pl.DataFrame, first: str, second: str) -> dict[str, str]:
    hashes = {}
    for (label,), part in frame.partition_by("relation", as_dict=True).items():
        pairs = part.select(first, second).sort(first, second).to_numpy()
        hashes[label] = hashlib.sha256(np.ascontiguousarray(pairs).data).hexdigest()
    return hashes


def _keep(frame: pl.DataFrame, condition: pl.Expr, reason: str, left_out: Counter[str]) -> pl.DataFrame:
    kept = frame.filter(condition)
    left_out[reason] += frame.height - kept.height
    return kept


def _assemble(frame: pl.DataFrame, ids: pl.Series, report: dict[str, Any]) -> RelationData:
    names = frame["relation"].unique().sort()
    labels = find_rows(frame["relation"], names).copy()
    rows, places = np.unique(frame.select("head", "tail").to_numpy(), return_inverse=True)
    heads, tails = places.reshape(-1, 2).T.copy()
    counts = np.bincount(labels)
    # A fifth of each label, one triple at least. They are in random order, so the first will do.
    rank = frame.select(pl.int_range(pl.len()).over("relation")).to_series().to_numpy()
    is_test = rank < np.maximum(1, np.round(TEST_SHARE * counts)).astype(np.int64)[labels]
    report |= {
        "triples": len(labels),
        "train": int((~is_test).sum()),
        "test": int(is_test.sum()),
        "concepts": len(rows),
        "labels": dict(zip(names, counts.tolist(), strict=True)),
    }
    return RelationData(ids.gather(rows).to_list(), heads, tails, labels, names.to_list(), is_test, report)
