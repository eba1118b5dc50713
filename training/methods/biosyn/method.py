"""BioSyn: a dense encoder and the weight of a sparse one, trained on their own candidates (Sung et al., ACL 2020)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch

from spacy_sapbert.encoder.settings import Precision
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenIds, TokenLists
from spacy_sapbert.encoder.transformer import forward, resolve_precision

from ...data.run_folder import RunReport, write_json
from ...encoders.card import Making, describe_length
from ...encoders.export import as_encoder
from ...engine.gradient import check_finite
from ...engine.method import Ending, Method, Model, TrainingData, copy_transformer
from .data import BioSynData, find_positives, find_sparse, join_candidates, read_biosyn_data
from .scorer import BIOSYN_FILE, FORMAT_VERSION, SparseEncoder
from .settings import BioSynSettings

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class BioSynModel(Model):
    """Score mentions against their candidates: a transformer, and the weight of sparse products."""

    def __init__(
        self,
        transformer: torch.nn.Module,
        base: EncoderShim,
        device: torch.device,
        *,
        precision: Precision,
        chunk_names: int,
    ) -> None:
        super().__init__(transformer)
        self.sparse_weight = torch.nn.Parameter(torch.zeros(()))
        self.to(device).train()
        self.device = device
        self.settings = base.settings
        self.pad_id = base.source.tokenizer.pad_token_id or 0
        self.autocast = resolve_precision(precision, device)
        self.chunk_names = chunk_names

    def forward(
        self, mentions: Sequence[TokenIds], candidates: Sequence[Sequence[TokenIds]], shared: torch.Tensor
    ) -> torch.Tensor:
        """Score the candidates of mentions by their token ids, the same number for each, and their sparse products:
        float32, shape (mentions, candidates)."""
        rows: dict[tuple[int, ...], int] = {}
        places = [
            [rows.setdefault(tuple(map(int, ids)), len(rows)) for ids in (mention, *names)]
            for mention, names in zip(mentions, candidates, strict=True)
        ]
        vectors = self._embed(list(rows))[torch.tensor(places, device=self.device)]
        # One row of `vectors` per mention: first its own vector, then those of its candidates.
        dense = (vectors[:, :1] * vectors[:, 1:]).sum(dim=2)
        return self.sparse_weight * shared.to(self.device) + dense

    def _embed(self, tokens: Sequence[TokenIds]) -> torch.Tensor:
        """Embed distinct strings in chunks of similar length, which need little padding."""
        order = np.argsort([len(ids) for ids in tokens], kind="stable")
        chunks = [order[start : start + self.chunk_names] for start in range(0, len(order), self.chunk_names)]
        is_whole = self.autocast == torch.float32
        with nullcontext() if is_whole else torch.autocast(self.device.type, dtype=self.autocast):
            options: dict[str, Any] = {"pad_id": self.pad_id, "device": self.device}
            embedded = [
                forward(self.transformer, [tokens[row] for row in chunk], self.settings, **options) for chunk in chunks
            ]
        return torch.cat(embedded)[torch.from_numpy(np.argsort(order)).to(self.device)]


def marginal_loss(scores: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Compute the marginal negative log-likelihood of the right candidates (Sung et al., ACL 2020, section 3.3): the
    mean over mentions with a right candidate; 0 if there is none."""
    counts = positives.any(dim=1)
    scores, positives = scores[counts].float(), positives[counts]
    right = scores.masked_fill(~positives, -torch.inf).logsumexp(dim=1)
    losses = scores.logsumexp(dim=1) - right
    return losses.sum() / max(1, len(losses))


class BioSyn(Method[BioSynSettings]):
    """A run of BioSyn. Each epoch searches its candidates with the weights at its start. See `Method`."""

    name = "biosyn"
    Settings = BioSynSettings
    unit = "mentions"

    model: BioSynModel
    data: BioSynData
    mention_tokens: TokenLists
    name_tokens: TokenLists
    sparse: SparseEncoder
    sparse_mentions: csr_matrix
    sparse_names: csr_matrix
    sparse_candidates: np.ndarray | None = None
    # The state of the current epoch.
    candidates: np.ndarray
    positives: np.ndarray

    def load(self) -> TrainingData:
        """Read mentions and dictionary. See `Method.load`."""
        self.data = read_biosyn_data(self.settings.paths.list_mentions(), self.settings.paths.dictionary)
        return TrainingData(
            self.settings.paths.dictionary, self.data.report, self.data.hash(), self.data.list_concepts()
        )

    def build(self) -> BioSynModel:
        """Tokenise names, and make sparse vectors and the model. See `Method.build`."""
        self.epochs: list[dict[str, Any]] = []
        steps, limit = self.settings.batch.epochs * self.steps_per_epoch, self.settings.batch.max_steps
        self.n_steps = min(steps, limit) if limit else steps
        self.mention_tokens = self.make_tokens(pl.Series(self.data.mentions), self.base)
        self.name_tokens = self.make_tokens(pl.Series(self.data.names), self.base)
        self.sparse = SparseEncoder.fit(self.data.names)
        self.sparse_mentions = self.sparse.encode(self.data.mentions)
        self.sparse_names = self.sparse.encode(self.data.names)
        return BioSynModel(
            copy_transformer(self.base.source, self.settings.batch.dropout),
            self.base,
            self.accelerator.device,
            precision=self.settings.run.precision,
            chunk_names=self.settings.batch.chunk_names,
        )

    def make_optimizer(self) -> torch.optim.Adam:
        """Make the optimizer. Unlike AdamW's, the decay is part of the gradient. See `Method.make_optimizer`."""
        how = self.settings.optimizer
        rate = how.sparse_learning_rate / how.learning_rate
        return torch.optim.Adam(
            [
                {"params": list(self.model.transformer.parameters()), "weight_decay": how.weight_decay},
                {"params": [self.model.sparse_weight], "rate": rate, "weight_decay": 0.0},
            ],
            lr=how.learning_rate,
        )

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of steps in an epoch."""
        return math.ceil(len(self.data.mentions) / self.settings.batch.mentions)

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
        return {"loss": loss, "mentions": len(rows), "sparse_weight": self.model.sparse_weight.item()}

    def _list_mentions(self, step: int) -> np.ndarray:
        """List the mentions of a step, in an order determined by the seed."""
        epoch, number = divmod(step, self.steps_per_epoch)
        order = np.random.default_rng([self.settings.run.seed, epoch]).permutation(len(self.data.mentions))
        size = self.settings.batch.mentions
        return order[number * size : (number + 1) * size]

    def _start_epoch(self) -> None:
        """Find candidates with the current weights."""
        encoder = as_encoder(self.model.transformer, self.base)
        names = encoder.encode_unscaled(self.data.names)
        mentions = encoder.encode_unscaled(self.data.mentions)
        total = min(self.settings.candidates.total, len(self.data.names))
        if self.sparse_candidates is None:
            n_sparse = min(self.settings.candidates.sparse, total)
            self.sparse_candidates = find_sparse(self.data, self.sparse, n_sparse)
        self._set_candidates(join_candidates(self.sparse_candidates, mentions, names, total))
        n_answerable = int(self.positives.any(axis=1).sum())
        if not n_answerable:
            unknown, path = self.data.report["not_in_dictionary"], self.settings.paths.dictionary
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
            self.epochs[-1]["sparse_weight"] = self.model.sparse_weight.item()

    def _learn(self, rows: np.ndarray, scale: float) -> float:
        candidates = self.candidates[rows]
        scores = self.model(
            [self.mention_tokens[row] for row in rows],
            [[self.name_tokens[row] for row in names] for names in candidates.tolist()],
            torch.from_numpy(self._multiply(rows, candidates)),
        )
        check_finite("scores", [scores])
        loss = marginal_loss(scores, torch.from_numpy(self.positives[rows]).to(scores.device))
        check_finite("loss", [loss])
        (loss * scale).backward()
        return loss.item()

    def _multiply(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Multiply the sparse vectors of mentions with those of their candidates."""
        left = self.sparse_mentions[np.repeat(rows, candidates.shape[1])]
        products = left.multiply(self.sparse_names[candidates.reshape(-1)]).sum(axis=1)
        return np.asarray(products, dtype=np.float32).reshape(candidates.shape)

    def describe_batch(self, batch: int) -> dict[str, Any]:
        """List mentions. See `Method.describe_batch`."""
        return {"mentions": [self.data.mentions[row] for row in self._list_mentions(batch)]}

    def state(self) -> dict[str, Any]:
        """Return epochs and candidates. Within an epoch, changed weights would give other candidates."""
        self._note_weight()
        state: dict[str, Any] = {"epochs": self.epochs}
        return {**state, "candidates": torch.from_numpy(self.candidates)} if self.epochs else state

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore epochs and candidates. See `Method.load_state`."""
        self.epochs = state["epochs"]
        if self.epochs:
            self._set_candidates(state["candidates"].numpy())

    def finish(self, trained: EncoderShim, ending: Ending) -> dict[str, Any]:
        """Save the sparse encoder and its weight for `BioSynScorer.from_disk`, and describe the epochs."""
        self._note_weight()
        weight = self.model.sparse_weight.item()
        data = {
            "format": FORMAT_VERSION,
            "weight": weight,
            "encoder": trained.fingerprint,
            "settings": self.settings.decisive(),
            "sparse": self.sparse.to_dict(),
        }
        write_json(self.folder.path / BIOSYN_FILE, data)
        return {"epochs": ending.step / self.steps_per_epoch, "of_epochs": self.epochs, "sparse_weight": weight}

    @classmethod
    def describe(cls, report: RunReport) -> Making:
        """Describe the training. See `Method.describe`."""
        settings, data = report.settings, report.data
        candidates = settings["candidates"]
        return Making(
            "biosyn",
            "BioSyn (Sung et al., ACL 2020): mentions get vectors similar to those of the right candidates.",
            [
                f"Data: {data['mentions']:,} mentions, a dictionary of {data['names']:,} names.",
                describe_length(report.training, f"steps of {settings['batch']['mentions']} mentions"),
                f"Candidates: {candidates['total']}, {candidates['sparse']} of them by shared characters; learning "
                f"rate {settings['optimizer']['learning_rate']}; seed {settings['run']['seed']}. The weight of shared "
                "characters is not part of this encoder.",
                *_describe_last_epoch(report.training),
            ],
        )


def _describe_last_epoch(training: dict[str, Any]) -> list[str]:
    # A run that is exported at another step does not say what happened in its epochs.
    if not training.get("of_epochs"):
        return []
    last = training["of_epochs"][-1]
    return [
        f"{training['epochs']:.2f} epochs. In the last one: loss {last['loss']:.4f}, "
        f"{100 * last['with_positive']:.1f} % of the mentions with a right candidate. Weight of shared characters: "
        f"{training['sparse_weight']:.4f}."
    ]
