"""Relation classification: predicting the relation of two concepts from their vectors (Yuan et al., JBI 2022, 4.4)."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean, stdev
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl
import torch
from pydantic import Field

from spacy_sapbert.encoder.transformer import forward, resolve_device
from spacy_sapbert.progress import show_progress
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.names import find_rows

from ..data.accuracy import Figure
from ..data.tokens import tokenise
from ..data.triples import read_triples
from ..engine.loop import learning_rate
from ..engine.settings import OptimizerSettings
from .settings import Limits, Measured, Missing, Seeds, TaskSettings, hash_json
from .systems.encoder import EncoderSystem
from .systems.vectors import find_vectors

# The paper's data, of the Diseases Database, are not public.
DATA = "substitute: relations of the terminology"
TEST_SHARE = 0.2
WARM_UP = 0.1  # The share of steps in which the learning rate rises.
# The batch size, and the learning rate of AdamW without weight decay, which rises to this and falls to 0: for frozen
# vectors, and to fine-tune.
RATES = {False: (512, 1e-3), True: (96, 2e-5)}
SPLIT_SEED = 72
PREDICTED_AT_ONCE = 4096
ENCODED_AT_ONCE = 256
Encode = Callable[[np.ndarray], torch.Tensor]


class RelationTaskSettings(TaskSettings):
    """A section [tasks.NAME] with kind = "relations". The defaults are the paper's, for frozen vectors."""

    inputs: ClassVar[tuple[str, ...]] = ("terminology", "triples")

    terminology: str = ""  # Has the names of the concepts. Triples of others are left out.
    triples: str = ""  # A folder of `triples`.
    # The terminology that an encoder was trained on: triples with both concepts in it are left out, so that training
    # had no names of at least one.
    unseen: str = ""
    min_triples: int = Field(default=50, ge=2)  # Relations with fewer are left out.
    max_triples: int = Field(default=0, ge=0)  # The most triples of each relation; 0 for all.
    fine_tune: bool = False  # Train a copy of the encoder as well; otherwise vectors stay as they are.
    epochs: int = Field(default=50, ge=1)
    # One training for each; they decide first weights, order and dropout, not the split.
    seeds: Annotated[Seeds, Field(min_length=1)] = (72,)

    def make(self, name: str, limits: Limits) -> Iterator[RelationTask | Missing]:
        """Make the task, unless there are too few relations: an ontology may well have none."""
        terminology = Terminology.from_disk(self.terminology)
        seen = Terminology.from_disk(self.unseen) if self.unseen else None
        try:
            yield RelationTask(name, choose_triples(terminology, self, seen=seen), terminology, self)
        except TooFewRelations as error:
            yield Missing(str(error), title="Relations", task=name)


class TooFewRelations(ValueError):
    """There are not two relations with enough triples."""


@dataclass(frozen=True)
class RelationData:
    """Pairs of concepts with a label each, in an order that depends on nothing but them and the settings."""

    concepts: list[str]  # The ids of all concepts, sorted.
    ends: np.ndarray  # Rows of `concepts`: head and tail, (triples, 2), int64.
    labels: np.ndarray  # Numbers of labels, (triples,), int64.
    names: list[str]  # Of the labels.
    is_test: np.ndarray  # Which triples are to test on, (triples,), bool: a fifth of each label.
    report: dict[str, Any]  # Counts of read, kept and excluded triples.

    def hash(self) -> str:
        """Hash everything that determines an accuracy, except for the vectors."""
        digest = hashlib.sha256("\n".join([*self.concepts, "", *self.names]).encode())
        for array in (self.ends[:, 0], self.ends[:, 1], self.labels, self.is_test):
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
        # Fine-tuning needs an encoder, which is checked when it is measured.
        return frozenset({"encode"}) if self.settings.fine_tune else frozenset({"encode", "take"})

    def hash(self) -> str:
        trained = self.settings.model_dump(mode="json", include={"fine_tune", "epochs", "seeds"})
        settings = [*RATES[self.settings.fine_tune], trained]
        return hash_json(["relations", self.data.hash(), self.terminology.fingerprint, settings])

    def describe(self) -> dict[str, Any]:
        title = "Relations of concepts that training has not seen" if self.settings.unseen else "Relations"
        counts = {name: self.data.report[name] for name in ("triples", "train", "test", "concepts")}
        return {"title": title, "counts": {**counts, "labels": len(self.data.names)}, "triples": self.data.report}

    def measure(self, system: Any) -> Measured:
        """Train a classifier for each seed ("feature" or "fine-tune" in CODER's table 4), and test it.

        Triples with a concept that has no vector are left out; in `accuracy_of_all` they count as wrong. The same on
        each run with equal settings.
        """
        data = self.data
        is_covered = np.ones(len(self.data.labels), dtype=bool)
        if self.settings.fine_tune:
            make_model = self._prepare_encoder(system)
        else:
            vectors, is_known = find_vectors(system, self.terminology, data.concepts)
            is_covered = is_known[data.ends].all(axis=1)
            features = torch.from_numpy(vectors)
            make_model = partial(RelationModel, data, features.shape[1], lambda concepts: features[concepts])
        train_rows, test_rows = (np.flatnonzero(part & is_covered) for part in (~data.is_test, data.is_test))
        if not len(train_rows) or not len(test_rows):
            reason = f"none to train or to test on has vectors at both ends, of {len(data.labels)}"
            raise ValueError(f"{self.name}: {reason} triples with {', '.join(data.names[:3])}. Check ids and names.")
        predictions = []
        for seed in self.settings.seeds:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                model = make_model().train()
                train_classifier(model, train_rows, self.settings, seed)
                blocks = [test_rows[i : i + PREDICTED_AT_ONCE] for i in range(0, len(test_rows), PREDICTED_AT_ONCE)]
                with torch.inference_mode():
                    model.eval()
                    predictions.append(np.concatenate([model(block).argmax(dim=1).cpu().numpy() for block in blocks]))
        return self._score(train_rows, test_rows, predictions)

    def _prepare_encoder(self, system: Any) -> Callable[[], RelationModel]:
        """Make a function that makes a model with a copy of an encoder, with the dropout of its configuration.

        Published figures cut names after 32 tokens.
        """
        if not isinstance(system, EncoderSystem):
            raise ValueError(
                f"{self.name} trains encoders (fine_tune), but got other vectors. Limit `tasks` of systems."
            )
        encoder = system.shim
        device = resolve_device("auto")
        pad_id = encoder.source.tokenizer.pad_token_id or 0
        rows = find_rows(pl.Series(self.data.concepts), self.terminology.concepts.to_polars("id")["id"])
        tokens = tokenise(
            pl.Series(self.terminology.concepts["canonical_name"][rows].to_list(), dtype=pl.String), encoder
        )

        def make_model() -> RelationModel:
            transformer = copy.deepcopy(encoder.source.transformer).float().requires_grad_(True)

            def encode(concepts: np.ndarray) -> torch.Tensor:
                blocks = [concepts[i : i + ENCODED_AT_ONCE] for i in range(0, len(concepts), ENCODED_AT_ONCE)]
                batches = ([tokens[concept] for concept in block] for block in blocks)
                options: dict[str, Any] = {"pad_id": pad_id, "device": device}
                return torch.cat([forward(transformer, batch, encoder.settings, **options) for batch in batches])

            return RelationModel(self.data, encoder.width, encode, transformer).to(device)

        return make_model

    def _score(self, train_rows: np.ndarray, test_rows: np.ndarray, predictions: Sequence[np.ndarray]) -> Measured:
        """Score the predicted labels of each seed: means, and their standard deviations (not defined for one seed)."""
        from sklearn.metrics import f1_score

        data = self.data
        n = len(test_rows)
        n_all = int(self.data.is_test.sum())
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
        majority = int(np.bincount(data.labels[train_rows]).argmax())
        figures.append(Figure("accuracy_of_all", None, mean(scores["accuracy"]) * n / n_all, n_all))
        figures.append(Figure("majority_accuracy", None, float((gold == majority).mean()), n))
        for label in np.unique(gold).tolist():
            is_label = gold == label
            accuracy = float(hits[:, is_label].mean())
            figures.append(Figure(f"accuracy.{data.names[label]}", None, accuracy, int(is_label.sum())))
        runs = zip(self.settings.seeds, *scores.values(), strict=True)
        details = {
            "mode": "fine-tune" if self.settings.fine_tune else "feature",
            "data": DATA,
            "train": len(train_rows),
            "test": n,
            "coverage": (len(train_rows) + n) / len(data.labels),
            "runs": [dict(zip(("seed", *scores), run, strict=True)) for run in runs],
        }
        return Measured(figures, details)

    def check_unseen(self, concepts: Collection[str], path: str) -> None:
        """Refuse training concepts (of the folder `path`) among which an unseen triple has both ends."""
        is_learned = np.array([concept in concepts for concept in self.data.concepts], dtype=bool)
        ends = self.data.ends[is_learned[self.data.ends].all(axis=1) & bool(self.settings.unseen)]
        if len(ends):
            pair = " and ".join(self.data.concepts[end] for end in ends[0])
            reason = f"of {len(ends):,} of its {len(self.data.labels):,} triples both concepts are in {path}, as {pair}"
            raise ValueError(
                f"{self.name} is not unseen: {reason}. Give the terminology that is trained on as `unseen`."
            )


class RelationModel(torch.nn.Module):
    """A linear classifier on the vectors of head and tail, which a function gives. A transformer may learn with it."""

    def __init__(
        self, data: RelationData, width: int, encode: Encode, transformer: torch.nn.Module | None = None
    ) -> None:
        super().__init__()
        self.data = data
        self.encode = encode
        self.transformer = transformer
        self.classifier = torch.nn.Linear(2 * width, len(data.names))

    def forward(self, rows: np.ndarray) -> torch.Tensor:
        """Compute the logits of rows of triples. Each concept in them is encoded once."""
        ends = self.data.ends[rows]
        concepts, places = np.unique(ends, return_inverse=True)
        vectors = self.encode(concepts)
        rows_of_vectors = torch.from_numpy(places.reshape(ends.shape)).to(vectors.device)
        return self.classifier(vectors[rows_of_vectors].flatten(start_dim=1))


def train_classifier(model: RelationModel, rows: np.ndarray, settings: RelationTaskSettings, seed: int) -> None:
    """Train a model by cross-entropy on rows of triples, whose order the seed decides."""
    batch_size, rate = RATES[settings.fine_tune]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    n_steps = settings.epochs * math.ceil(len(rows) / batch_size)
    course = OptimizerSettings(learning_rate=1.0, schedule="linear", warmup_steps=int(WARM_UP * n_steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(course, step, n_steps))
    generator = np.random.default_rng(seed)
    labels = torch.from_numpy(model.data.labels)
    with show_progress(total=n_steps, description=f"Relations, seed {seed}", unit="steps") as progress:
        for _ in range(settings.epochs):
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


def choose_triples(
    terminology: Terminology, settings: RelationTaskSettings, *, seen: Terminology | None = None
) -> RelationData:
    """Choose triples, and split them with the same shares of all labels."""
    ids = terminology.concepts.to_polars("id")["id"]
    triples = read_triples(settings.triples)
    left_out: dict[str, int] = {}

    def keep(frame: pl.DataFrame, condition: pl.Expr, reason: str) -> pl.DataFrame:
        rest = frame.filter(condition)
        left_out[reason] = frame.height - rest.height
        return rest

    rows = find_rows(triples.concepts, ids)
    relations = triples.labels.gather(triples.relations)
    frame = pl.DataFrame({"head": rows[triples.heads], "relation": relations, "tail": rows[triples.tails]})
    frame = keep(frame, (pl.col("head") >= 0) & (pl.col("tail") >= 0), "unknown_concept")
    # They say the same as another with the concepts changed round. The first by name is kept.
    inverses = find_inverses(frame)
    frame = keep(frame, ~pl.col("relation").is_in(list(inverses)), "inverse_label")
    # Of a pair of concepts under several relations, no answer would be right.
    frame = keep(frame, pl.len().over("head", "tail") == 1, "pair_of_several_labels")
    if seen is not None:
        # Only now: which labels are inverses, and which pairs have several, does not depend on what was trained on.
        is_seen = pl.col("head", "tail").is_in(np.flatnonzero(find_rows(ids, seen.concepts.to_polars("id")["id"]) >= 0))
        frame = keep(frame, ~pl.all_horizontal(is_seen), "seen")
    frame = keep(frame, pl.len().over("relation") >= settings.min_triples, "rare_label")
    # A random order that does not depend on the order in which they came.
    frame = frame.sort("relation", "head", "tail")
    frame = frame[np.random.default_rng(SPLIT_SEED).permutation(frame.height)]
    place = pl.int_range(pl.len()).over("relation")
    if settings.max_triples:
        frame = keep(frame, place < settings.max_triples, "beyond_maximum")
    names = frame["relation"].unique().sort()
    if len(names) < 2:
        reason = f"{len(names)} of the relations in {settings.triples} are left, and two are needed"
        why = ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in left_out.items())
        raise TooFewRelations(f"{reason}. Of {len(triples):,} triples were left out: {why}. Lower min_triples.")
    labels = find_rows(frame["relation"], names).copy()
    counts = np.bincount(labels)
    # A fifth of each label, one triple at least. They are in random order, so the first will do.
    n_test = np.maximum(1, np.round(TEST_SHARE * counts))
    is_test = frame.select(place).to_series().to_numpy() < n_test[labels]
    concepts, ends = np.unique(frame.select("head", "tail").to_numpy(), return_inverse=True)
    report = {
        "triples_read": len(triples),
        "triples": frame.height,
        "train": int((~is_test).sum()),
        "test": int(is_test.sum()),
        "concepts": len(concepts),
        "labels": dict(zip(names, counts.tolist(), strict=True)),
        "inverse_of": inverses,
        "left_out": left_out,
    }
    return RelationData(ids.gather(concepts).to_list(), ends.reshape(-1, 2), labels, names.to_list(), is_test, report)


def find_inverses(frame: pl.DataFrame) -> dict[str, str]:
    """Find labels that have the triples of another label with head and tail swapped: the second of both by name,
    mapped to the first. A label that is its own inverse is not among them.
    """

    def hash_pairs(first: str, second: str) -> pl.Expr:
        # The order of pairs makes no difference to a sum.
        return pl.struct(pl.col(first).alias("first"), pl.col(second).alias("second")).hash().sum()

    forward = hash_pairs("head", "tail").alias("forward")
    backward = hash_pairs("tail", "head").alias("backward")
    hashes = frame.group_by("relation").agg(forward, backward).sort("relation")
    label_of: dict[int, str] = {}
    inverses = {}
    for label, own, turned in hashes.iter_rows():
        if turned in label_of:
            inverses[label] = label_of[turned]
        else:
            label_of.setdefault(own, label)
    return inverses
