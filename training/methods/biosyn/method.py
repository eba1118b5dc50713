"""BioSyn: a dense encoder and the weight of a sparse one, trained on their own candidates (Sung et al., ACL 2020)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
import torch
from pydantic import Field, model_validator
from typing_extensions import Self

from spacy_sapbert.encoder.settings import Pooling, Precision
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import resolve_device
from spacy_sapbert.settings import Settings
from spacy_sapbert.terminology.readers.lines import SourceFile

from ...data.mentions import EQUAL_IDS, read_dictionary_rows, read_mentions
from ...data.protocols import group_by_name
from ...data.run_folder import write_json
from ...encoders.bases import EncoderChoice
from ...engine.gradient import join_chunks
from ...engine.method import Ending, Method, Model, TrainingData, copy_transformer
from ...engine.nearest import search_on_device
from ...engine.settings import (
    BatchSettings,
    Listed,
    OptimizerSettings,
    PathSettings,
    RunSettings,
    TrainingSettings,
    refuse,
)
from .sparse import BIOSYN_FILE, SparseEncoder, score_sparse, search_blocks

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class BioSynPaths(PathSettings):
    """Paths of a run."""

    mentions: Listed = Field(
        min_length=1, description="Files of mentions, with commas between: the training and development parts."
    )
    dictionary: str = Field(description="The file of ids and names, without training mentions.")


class BioSynEncoder(EncoderChoice):
    """Settings of the encoder that override its own."""

    pooling: Pooling | None = "cls"


class CandidateSettings(Settings):
    """The candidates of mentions in training."""

    total: int = Field(default=20, ge=2, description="Candidates of each mention.")
    sparse: int = Field(default=10, ge=0, description="Candidates found by shared characters; vectors find the others.")

    @model_validator(mode="after")
    def _check_sparse(self) -> Self:
        if self.sparse > self.total:
            refuse("candidates.sparse", self.sparse, "0 to candidates.total")
        return self


class BioSynOptimizer(OptimizerSettings):
    """The optimizer: Adam, with weight decay added to the gradient."""

    learning_rate: float = Field(default=1e-5, gt=0, description="The highest learning rate of the encoder.")
    weight_decay: float = Field(default=0.01, ge=0, description="Weight decay of the encoder.")
    sparse_learning_rate: float = Field(
        default=0.01, ge=0, description="The highest learning rate of the weight of sparse products."
    )


class BioSynBatch(BatchSettings):
    """The batch of a step, and limits of the run."""

    mentions: int = Field(default=16, ge=1, description="Mentions in a step.")
    epochs: int = Field(default=10, ge=1, description="Epochs over all mentions, each with new candidates.")
    gradient_cache: Literal[False] = False  # The activations of a step are kept.


class BioSynRun(RunSettings):
    """The method, and settings of the run."""

    # Without fp16: a step whose mentions have no right candidate has no gradient, and nothing to scale.
    precision: Precision = "auto"


class BioSynSettings(TrainingSettings):
    """All settings of a run of BioSyn."""

    paths: BioSynPaths
    encoder: BioSynEncoder = BioSynEncoder()
    candidates: CandidateSettings = CandidateSettings()
    optimizer: BioSynOptimizer = BioSynOptimizer()
    batch: BioSynBatch = BioSynBatch()
    run: BioSynRun


@dataclass(frozen=True)
class BioSynData:
    """Mentions and names, lower-cased."""

    mentions: list[str]  # To train on.
    gold: list[frozenset[str]]  # The ids of each.
    names: list[str]  # Of the dictionary, each once.
    ids: list[frozenset[str]]  # Of all concepts of each name.
    report: dict[str, Any]  # Counts of read and excluded records; names and SHA-256 of the files.


def read_biosyn_data(mentions: Sequence[str | Path], dictionary: str | Path) -> BioSynData:
    """Read mentions and dictionary. Composite and repeated mentions, and those without an id, are not kept."""
    files = [SourceFile(path) for path in mentions]
    file = SourceFile(dictionary)
    rows = ((joined, name.lower()) for joined, name, _ in read_dictionary_rows(file))
    names = {name: frozenset(joined.split(EQUAL_IDS)) for name, joined in group_by_name(rows).items()}
    if not names:
        raise ValueError(
            f"The dictionary {dictionary} has no name to compare mentions with. Give lines of an id, a tab and a name."
        )
    read: Counter[str] = Counter({"read": 0, "composites": 0, "without_ids": 0, "repeated": 0})
    distinct: dict[tuple[str, frozenset[str]], None] = {}
    for mention in chain.from_iterable(map(read_mentions, files)):
        read["read"] += 1
        entry = (mention.text.lower(), frozenset(mention.ids))
        if "|" in mention.text or len(mention.parts) > 1:
            read["composites"] += 1
        elif not mention.ids:
            read["without_ids"] += 1
        elif entry in distinct:
            read["repeated"] += 1
        else:
            distinct[entry] = None
    if not distinct:
        raise ValueError(
            f"There is no mention to train on in {', '.join(map(str, mentions))}: of {read['read']} mentions, "
            f"{read['composites']} are composite, {read['without_ids']} have no id and {read['repeated']} are repeated."
            " Give the training and development parts of a corpus with its ids."
        )
    answers = frozenset(chain.from_iterable(names.values()))
    report = {
        **read,
        "mentions": len(distinct),
        "not_in_dictionary": sum(not gold <= answers for _, gold in distinct),
        "names": len(names),
        "sources": {"mentions": [source.describe() for source in files], "dictionary": file.describe()},
    }
    texts = [text for text, _ in distinct]
    gold_ids = [gold for _, gold in distinct]
    return BioSynData(texts, gold_ids, list(names), list(names.values()), report)


def find_sparse(mentions: csr_matrix, names: csr_matrix, k: int) -> np.ndarray:
    """Find the k names that share most with each mention: rows, best first, equal ones by row."""
    rows, _ = search_blocks(score_sparse(mentions, names), mentions.shape[0], names.shape[0], max(1, k))
    return rows[:, :k]


def join_candidates(sparse: np.ndarray, mentions: np.ndarray, names: np.ndarray, total: int) -> np.ndarray:
    """Add names with the highest inner products of vectors to the rows of the sparse candidates, without repeats;
    int64, shape (mentions, total)."""
    dense, _ = search_on_device(names, mentions, total, resolve_device("auto"))
    # A stable sort puts new rows before repeated ones, and keeps the order of both.
    is_repeated = (dense[:, :, None] == sparse[:, None, :]).any(axis=2)
    order = np.argsort(is_repeated, axis=1, kind="stable")
    return np.hstack([sparse, np.take_along_axis(dense, order, axis=1)])[:, :total]


def find_positives(gold: Sequence[frozenset[str]], ids: Sequence[frozenset[str]], candidates: np.ndarray) -> np.ndarray:
    """Label the right candidates: names whose concepts include all concepts of the mention; bool, like candidates."""
    return np.array(
        [[gold_ids <= ids[row] for row in rows] for gold_ids, rows in zip(gold, candidates.tolist(), strict=True)]
    ).reshape(candidates.shape)


def marginal_loss(scores: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Compute the marginal negative log-likelihood of the right candidates (Sung et al., ACL 2020, section 3.3): the
    mean over mentions with a right candidate; 0 if there is none."""
    counts = positives.any(dim=1)
    scores = scores[counts].float()
    positives = positives[counts]
    right = scores.masked_fill(~positives, -torch.inf).logsumexp(dim=1)
    losses = scores.logsumexp(dim=1) - right
    return losses.sum() / max(1, len(losses))


class BioSyn(Method[BioSynSettings]):
    """A run of BioSyn. Each epoch searches its candidates with the weights at its start. See `Method`."""

    name = "biosyn"
    purpose = (
        "BioSyn (Sung et al., ACL 2020): mentions and their right candidates get similar vectors. The weight of "
        "shared characters is not part of this encoder."
    )
    Settings = BioSynSettings
    unit = "mentions"

    sparse_candidates: np.ndarray | None = None

    def load(self) -> TrainingData:
        paths = self.settings.paths
        self.data = read_biosyn_data(paths.mentions, paths.dictionary)
        sources = self.data.report["sources"]
        hashes = {
            "mentions": [source["sha256"] for source in sources["mentions"]],
            "dictionary": sources["dictionary"]["sha256"],
        }
        concepts = set(chain.from_iterable([*self.data.gold, *self.data.ids]))
        return TrainingData(paths.dictionary, self.data.report, hashes, concepts)

    def build(self) -> Model:
        self.epochs: list[dict[str, Any]] = []
        self.steps_per_epoch = math.ceil(len(self.data.mentions) / self.settings.batch.mentions)
        steps = self.settings.batch.epochs * self.steps_per_epoch
        limit = self.settings.batch.max_steps
        self.n_steps = min(steps, limit) if limit else steps
        self.mention_tokens = self.make_tokens(pl.Series(self.data.mentions), self.base)
        self.name_tokens = self.make_tokens(pl.Series(self.data.names), self.base)
        self.sparse = SparseEncoder.fit(self.data.names)
        self.sparse_mentions = self.sparse.encode(self.data.mentions)
        self.sparse_names = self.sparse.encode(self.data.names)
        transformer = copy_transformer(self.base.source, self.settings.batch.dropout)
        self.sparse_weight = torch.nn.Parameter(torch.zeros(()))
        return Model(transformer, sparse_weight=self.sparse_weight)

    def make_optimizer(self) -> torch.optim.Adam:
        """Make the optimizer. Unlike AdamW's, the decay is part of the gradient. See `Method.make_optimizer`."""
        how = self.settings.optimizer
        rate = how.sparse_learning_rate / how.learning_rate
        sparse = {"params": [self.sparse_weight], "rate": rate, "weight_decay": 0.0}
        dense: dict[str, Any] = {"params": list(self.model.transformer.parameters())}
        return torch.optim.Adam([dense, sparse], lr=how.learning_rate, weight_decay=how.weight_decay)

    def loss(self, batch: int, scale: float) -> dict[str, Any]:
        """Compute the loss of mentions and their candidates. See `Method.loss`."""
        if batch % self.steps_per_epoch == 0:
            self._start_epoch()
        rows = self._list_mentions(batch)
        # Mentions without a right candidate do not contribute to the loss, so they are not encoded.
        rows = rows[self.positives[rows].any(axis=1)]
        loss = self._learn(rows, scale) if len(rows) else 0.0
        epoch = self.epochs[-1]
        epoch["steps"] += 1
        epoch["loss"] += (loss - epoch["loss"]) / epoch["steps"]
        return {"loss": loss, "mentions": len(rows), "sparse_weight": self.sparse_weight.item()}

    def _list_mentions(self, step: int) -> np.ndarray:
        """List the mentions of a step, in an order determined by the seed."""
        epoch, number = divmod(step, self.steps_per_epoch)
        order = np.random.default_rng([self.settings.run.seed, epoch]).permutation(len(self.data.mentions))
        size = self.settings.batch.mentions
        return order[number * size : (number + 1) * size]

    def _start_epoch(self) -> None:
        """Find candidates with the current weights."""
        encoder = self.take_snapshot()
        names = encoder.encode_unscaled(self.data.names)
        mentions = encoder.encode_unscaled(self.data.mentions)
        total = min(self.settings.candidates.total, len(self.data.names))
        if self.sparse_candidates is None:
            n_sparse = min(self.settings.candidates.sparse, total)
            self.sparse_candidates = find_sparse(self.sparse_mentions, self.sparse_names, n_sparse)
        self._set_candidates(join_candidates(self.sparse_candidates, mentions, names, total))
        n_answerable = int(self.positives.any(axis=1).sum())
        if not n_answerable:
            unknown = self.data.report["not_in_dictionary"]
            path = self.settings.paths.dictionary
            n, k = self.candidates.shape
            raise ValueError(
                f"None of the {n} mentions has a right name among its {k} candidates, so nothing can be learned "
                f"({unknown} have an id that the dictionary {path} lacks). Ids have to be written alike in both files, "
                "prefixes included."
            )
        self._note_weight()
        self.epochs.append({"with_positive": n_answerable / len(self.data.mentions), "steps": 0, "loss": 0.0})

    def _set_candidates(self, candidates: np.ndarray) -> None:
        self.candidates = candidates
        self.positives = find_positives(self.data.gold, self.data.ids, candidates)

    def _note_weight(self) -> None:
        """Record the weight of sparse products after the last step of the current epoch."""
        if self.epochs:
            self.epochs[-1]["sparse_weight"] = self.sparse_weight.item()

    def _learn(self, rows: np.ndarray, scale: float) -> float:
        candidates = self.candidates[rows]
        device = self.accelerator.device
        # Strings of the same tokens are encoded once.
        tokens: dict[tuple[int, ...], int] = {}
        places = []
        for mention, names in zip(rows.tolist(), candidates.tolist(), strict=True):
            strings = [self.mention_tokens[mention], *(self.name_tokens[name] for name in names)]
            places.append([tokens.setdefault(tuple(ids.tolist()), len(tokens)) for ids in strings])
        # Products of mentions' sparse vectors with their candidates'.
        left = self.sparse_mentions[np.repeat(rows, candidates.shape[1])]
        products = left.multiply(self.sparse_names[candidates.reshape(-1)]).sum(axis=1)
        products = np.asarray(products, dtype=np.float32).reshape(candidates.shape)
        sparse = torch.from_numpy(products).to(device)
        chunks, embedded, _ = self.gradient.embed([np.array(ids) for ids in tokens])
        # One row per mention: first its own vector, then its candidates'.
        vectors = join_chunks(chunks, embedded)[torch.tensor(places, device=device)]
        dense = (vectors[:, :1] * vectors[:, 1:]).sum(dim=2)
        scores = self.sparse_weight * sparse + dense
        positives = torch.from_numpy(self.positives[rows]).to(device)
        loss = marginal_loss(scores, positives)
        (loss * scale).backward()
        return loss.item()

    def state(self) -> dict[str, Any]:
        """Return epochs and candidates. Within an epoch, changed weights would give other candidates."""
        self._note_weight()
        state: dict[str, Any] = {"epochs": self.epochs}
        return {**state, "candidates": torch.from_numpy(self.candidates)} if self.epochs else state

    def load_state(self, state: dict[str, Any]) -> None:
        self.epochs = state["epochs"]
        if self.epochs:
            self._set_candidates(state["candidates"].numpy())

    def finish(self, trained: EncoderShim, ending: Ending) -> dict[str, Any]:
        """Save the sparse encoder and its weight for systems of the kind "biosyn", and describe the epochs."""
        self._note_weight()
        weight = self.sparse_weight.item()
        data = {
            "weight": weight,
            "encoder": trained.fingerprint,
            "settings": self.settings.decisive(),
            "sparse": self.sparse.to_dict(),
        }
        write_json(self.folder.path / BIOSYN_FILE, data)
        return {"epochs": ending.step / self.steps_per_epoch, "of_epochs": self.epochs, "sparse_weight": weight}
