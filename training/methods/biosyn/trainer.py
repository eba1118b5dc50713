"""The training loop of BioSyn: epochs, each with candidates by the present weights."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from tqdm import tqdm

from spacy_sapbert.encoder import EncoderShim

from ...data.tokens import Tokens
from ...encoders.export import as_encoder
from ...engine.checkpoint import list_checkpoints, load_checkpoint, save_checkpoint
from ...engine.interruption import Interruption, watch_signals
from ...errors import Errors
from ...evaluation.systems.sparse import SparseEncoder
from .candidates import find_sparse, join_candidates
from .data import BioSynData
from .loss import find_positives, marginal_loss
from .model import BioSynModel
from .settings import BioSynSettings

CHECKPOINTS = "checkpoints"
CANDIDATES_FILE = "candidates.npy"


class BioSynTrainer:
    """Run the epochs of one training, and be able to go on with it.

    settings (BioSynSettings): All settings.
    model (BioSynModel): The model, on its device.
    data (BioSynData): Mentions and names.
    base (EncoderShim): The encoder that training starts from.
    """

    def __init__(self, settings: BioSynSettings, model: BioSynModel, data: BioSynData, base: EncoderShim) -> None:
        self.settings = settings
        self.model = model
        self.data = data
        self.base = base
        self.output = Path(settings.paths.output)
        self.optimizer = model.make_optimizer(settings.optimizer)
        self.mention_tokens = Tokens(pl.Series(data.mentions), base)
        self.name_tokens = Tokens(pl.Series(data.names), base)
        self.sparse = SparseEncoder.fit(data.names)
        self.sparse_mentions = self.sparse.encode(data.mentions)
        self.sparse_names = self.sparse.encode(data.names)
        self.per_epoch = math.ceil(len(data.mentions) / settings.batch.mentions)
        self.step = 0
        self.seconds = 0.0
        self.epochs: list[dict[str, Any]] = []
        self.candidates = np.empty((0, 0), dtype=np.int64)
        self.positives = np.empty((0, 0), dtype=bool)
        self._sparse_candidates: np.ndarray | None = None

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one.

        RAISES (OSError): If a file of the checkpoint is missing or damaged.
        RAISES (ValueError): If it is of a run with other settings, data or encoder, or of a step after the last.
        """
        checkpoints = list_checkpoints(self.output / CHECKPOINTS)
        if not checkpoints:
            return
        data = load_checkpoint(checkpoints[-1], self.model, self.optimizer, self._decisive())
        self.step, self.seconds, self.epochs = data["step"], data["seconds"], data["epochs"]
        n_steps = self.settings.batch.epochs * self.per_epoch
        if self.step > n_steps:
            raise ValueError(Errors.E743.format(path=self.output, step=self.step, wanted=n_steps))
        if data["candidates"]:
            self._set_candidates(self._read_candidates(data["candidates"], checkpoints[-1]))

    def run(self) -> str:
        """Take all steps that are left.

        RETURNS (str): How it ended: "finished", "max_minutes" or "interrupted", with a checkpoint in any case.
        RAISES (FloatingPointError): If the loss is not a number.
        RAISES (ValueError): If no mention has a right candidate.
        """
        n_steps = self.settings.batch.epochs * self.per_epoch
        bar = tqdm(total=n_steps, initial=self.step, desc="BioSyn", unit="step", disable=None)
        with bar as progress, watch_signals() as interruption:
            while self.step < n_steps:
                reason = self._find_end(interruption)
                if reason:
                    self._save()
                    return reason
                if self.step % self.per_epoch == 0:
                    self._start_epoch()
                loss = self._take_step()
                progress.update()
                progress.set_postfix(loss=f"{loss:.4f}", weight=f"{self.model.sparse_weight.item():.3f}", refresh=False)
                if self.step % self.per_epoch == 0:
                    self._save()
        return "finished"

    def _find_end(self, interruption: Interruption) -> str | None:
        limit = 60.0 * self.settings.batch.max_minutes
        # One step at least, so that the shortest of runs goes on at all.
        if limit and self.step and self.seconds >= limit:
            return "max_minutes"
        return "interrupted" if interruption.is_wanted else None

    @contextmanager
    def _clock(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start

    def _start_epoch(self) -> None:
        """Find candidates by the present weights."""
        with self._clock():
            encoder = as_encoder(self.model.transformer, self.base)
            if self.model.device.type == "cuda":
                encoder.to_device("gpu", self.model.device.index or 0)
            names = encoder.encode_unscaled(self.data.names)
            mentions = encoder.encode_unscaled(self.data.mentions)
            total = min(self.settings.candidates.total, len(self.data.names))
            if self._sparse_candidates is None:
                n_sparse = min(self.settings.candidates.sparse, total)
                self._sparse_candidates = find_sparse(self.data, self.sparse, n_sparse)
            self._set_candidates(join_candidates(self._sparse_candidates, mentions, names, total))
        n_answerable = int(self.positives.any(axis=1).sum())
        if not n_answerable:
            unknown, path = self.data.report["not_in_dictionary"], self.settings.paths.dictionary
            n, k = self.candidates.shape
            raise ValueError(Errors.E762.format(mentions=n, candidates=k, unknown=unknown, path=path))
        self._write_candidates()
        self.epochs.append({"with_positive": n_answerable / len(self.data.mentions), "steps": 0, "loss": 0.0})

    def _set_candidates(self, candidates: np.ndarray) -> None:
        self.candidates = candidates
        self.positives = find_positives(self.data.gold, self.data.ids, candidates)

    def _take_step(self) -> float:
        """Take a step, and return the mean loss of the epoch so far."""
        epoch, number = divmod(self.step, self.per_epoch)
        order = np.random.default_rng([self.settings.run.seed, epoch]).permutation(len(self.data.mentions))
        size = self.settings.batch.mentions
        batch = order[number * size : (number + 1) * size]
        # Mentions without a right candidate contribute nothing, so they need not be encoded.
        batch = batch[self.positives[batch].any(axis=1)]
        entry = self.epochs[-1]
        with self._clock():
            loss = self._learn(batch) if len(batch) else 0.0
        self.step += 1
        entry["steps"] += 1
        entry["loss"] += (loss - entry["loss"]) / entry["steps"]
        entry["sparse_weight"] = self.model.sparse_weight.item()
        return entry["loss"]

    def _learn(self, batch: np.ndarray) -> float:
        candidates = self.candidates[batch]
        scores = self.model(
            [self.mention_tokens[row] for row in batch],
            [[self.name_tokens[row] for row in rows] for rows in candidates.tolist()],
            torch.from_numpy(self._multiply(batch, candidates)),
        )
        loss = marginal_loss(scores, torch.from_numpy(self.positives[batch]).to(scores.device))
        if not torch.isfinite(loss):
            mentions = ", ".join(self.data.mentions[row] for row in batch)
            raise FloatingPointError(Errors.E763.format(step=self.step + 1, loss=loss.item(), mentions=mentions))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _multiply(self, batch: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Multiply the sparse vectors of mentions with those of their candidates."""
        left = self.sparse_mentions[np.repeat(batch, candidates.shape[1])]
        products = left.multiply(self.sparse_names[candidates.reshape(-1)]).sum(axis=1)
        return np.asarray(products, dtype=np.float32).reshape(candidates.shape)

    def _save(self) -> None:
        is_within = self.step % self.per_epoch != 0
        data = {
            "step": self.step,
            "seconds": self.seconds,
            "epochs": self.epochs,
            "candidates": _hash(self.candidates) if is_within else None,
            "settings": self._decisive(),
        }
        save_checkpoint(self.output / CHECKPOINTS, self.model, self.optimizer, data)

    def _write_candidates(self) -> None:
        """Keep the candidates, which can't be found again within the epoch: by then the weights have changed."""
        path = self.output / CANDIDATES_FILE
        temporary = path.with_name(path.name + ".part")
        with temporary.open("wb") as file:
            np.save(file, self.candidates)
        temporary.replace(path)

    def _read_candidates(self, wanted: str, checkpoint: Path) -> np.ndarray:
        path = self.output / CANDIDATES_FILE
        try:
            candidates = np.load(path, allow_pickle=False)
            reason = "" if _hash(candidates) == wanted else "their hash is another"
        except (OSError, ValueError, EOFError) as error:
            reason = str(error)
        if reason:
            raise OSError(Errors.E764.format(path=path, checkpoint=checkpoint, reason=reason))
        return candidates

    def _decisive(self) -> dict[str, Any]:
        sources = self.data.report["sources"]
        return {
            **self.settings.decisive(),
            "data": {
                "mentions": [source["sha256"] for source in sources["mentions"]],
                "dictionary": sources["dictionary"]["sha256"],
            },
            "base": {"fingerprint": self.base.fingerprint},
        }


def _hash(candidates: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(candidates).tobytes()).hexdigest()
