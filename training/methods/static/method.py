"""The method of static encoders: a table learns from pairs of names and from the vectors of a teacher."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists
from spacy_sapbert.files import hash_file

from ...data.run_folder import RunReport
from ...encoders.card import Making, describe_length
from ...engine.checkpoints import list_checkpoints
from ...engine.gradient import check_finite
from ...engine.method import Model, TrainingData, load_weights
from ...engine.objectives import make_loss, make_miner
from ...errors import Errors
from ..pairs import PairMethod
from ..sapbert.loss import Objective
from .optimizer import RowAdagrad
from .settings import StaticSettings
from .start import make_start
from .table import START_FILE, StaticTable, load_start, save_start
from .teacher import Teacher, fit_projection

VECTORS_FOLDER = "vectors"
# Names whose vectors determine the projection.
SAMPLE = 20_000


class Batch(NamedTuple):
    """The data of a step.

    pairs (np.ndarray): Rows of pairs.
    texts (np.ndarray): Rows of strings to distil.
    """

    pairs: np.ndarray
    texts: np.ndarray


class Static(PairMethod[StaticSettings]):
    """A run that trains a static encoder. Its base encoder is the teacher. See `Method`.

    Each process of a launch computes whole batches: the computation of a step takes less time than its communication.
    """

    name = "static"
    Settings = StaticSettings
    dtypes = ("int8",)

    texts: pl.Series
    text_tokens: TokenLists
    # The projected vectors of the teacher, float16; none where their loss has no weight.
    name_targets: np.ndarray
    text_targets: np.ndarray

    def load(self) -> TrainingData:
        """Read pairs and strings. See `Method.load`."""
        learned = super().load()
        width, allowed = self.settings.table.width, f"at most {self.base.width}, the width of the teacher's vectors"
        if width > self.base.width:
            raise ValueError(Errors.E404.format(name="table.width", where="", value=width, allowed=allowed))
        self.texts = read_texts(self.settings.paths.texts)
        if self.settings.distillation.texts and not len(self.texts):
            raise ValueError(Errors.E840.format(reason=f"there is no string in {self.settings.paths.texts}"))
        report = {**learned.report, "texts": len(self.texts)}
        return learned._replace(report=report, sha256=self.hash_data())

    def hash_data(self) -> dict[str, str]:
        """Hash the file of strings too."""
        path = self.settings.paths.texts
        return {**super().hash_data(), **({"texts": hash_file(Path(path))} if path else {})}

    def build(self) -> Model:
        """Make the table, tokenise strings and encode them with the teacher. See `Method.build`."""
        objective = self.settings.objective
        with self.accelerator.main_process_first():
            self.order_pairs()
            table = self._learn_from_teacher()
        self.objective = Objective(
            make_loss(objective.loss, objective.preset, **objective.constants),
            make_miner(objective.miner, objective.margin),
        )
        encoder = table.to_encoder(max_length=self.base.settings.max_length)
        self.tokenise(encoder)
        self.text_tokens = self.make_tokens(self.texts, encoder)
        return Model(table)

    def _open_teacher(self) -> Teacher:
        return Teacher(self.base, self.settings.paths.vectors or self.folder.path / VECTORS_FOLDER)

    def encode_before(self, strings: pl.Series) -> np.ndarray:
        """Encode strings with the teacher, which keeps their vectors. See `PairMethod.encode_before`."""
        return self._open_teacher().encode(strings)

    def _learn_from_teacher(self) -> StaticTable:
        """Encode strings with the teacher, and make the table before training unless it is there."""
        settings, distillation = self.settings, self.settings.distillation
        teacher = self._open_teacher()
        rng = np.random.default_rng(settings.run.seed)
        sample = self.data.names.gather(np.sort(rng.permutation(len(self.data.names))[:SAMPLE]))
        projection = fit_projection(teacher.encode(sample), settings.table.width)
        self.name_targets, self.text_targets = (
            projection.project(teacher.encode(strings)).astype(np.float16) if weight else np.empty((0, 0), np.float16)
            for strings, weight in ((self.data.names, distillation.names), (self.texts, distillation.texts))
        )
        identity = self._identify_start()
        table = load_start(self.folder.path, identity)
        if table is None:
            table = make_start(self.data.names, teacher, projection, settings.table)
            # Checkpoints belong to the start that is there: a run with other settings will be refused.
            if not list_checkpoints(self.folder.checkpoints):
                save_start(self.folder.path, table, identity)
        return table

    def _identify_start(self) -> dict[str, str]:
        """Name what the table before training depends on."""
        settings = self.settings
        own = {"table": settings.table.to_dict(), "seed": settings.run.seed}
        return {"base": self.base.fingerprint, "data": self.data.sha256, "settings": json.dumps(own, sort_keys=True)}

    def make_optimizer(self) -> RowAdagrad:
        """Make the optimizer. See `Method.make_optimizer`."""
        return RowAdagrad(self.model.parameters(), lr=self.settings.optimizer.learning_rate)

    def batches(self, start: int) -> Iterator[Batch]:
        """Iterate over rows of pairs and of strings. See `Method.batches`."""
        n = self.settings.batch.texts if self.settings.distillation.texts else 0
        for step, pairs in enumerate(super().batches(start), start):
            rng = np.random.default_rng([self.settings.run.seed, step])
            yield Batch(pairs, rng.integers(len(self.texts), size=n) if n else np.empty(0, np.int64))

    def loss(self, batch: Batch, scale: float) -> dict[str, Any]:
        """Add up the loss of pairs and those of the teacher's vectors. See `Method.loss`."""
        device, weights = self.accelerator.device, self.settings.distillation
        names, labels = self.list_names(batch.pairs)
        tokens = self.take_tokens(names) + [self.text_tokens[text] for text in batch.texts.tolist()]
        vectors = self.model.transformer(tokens)
        check_finite("embeddings", [vectors])
        of_names, of_texts = vectors[: len(names)], vectors[len(names) :]
        homonyms = torch.from_numpy(names).to(device) if self.settings.objective.ignore_homonyms else None
        contrast, counts = self.objective(of_names, torch.from_numpy(labels).to(device), homonyms)
        total, entry = contrast, {"contrast": contrast.item()}
        for what, weight, learned, targets, rows in (
            ("names", weights.names, of_names, self.name_targets, names),
            ("texts", weights.texts, of_texts, self.text_targets, batch.texts),
        ):
            if weight:
                distance = measure_distance(learned, torch.from_numpy(targets[rows]).to(device))
                total, entry[f"{what}_distance"] = total + weight * distance, distance.item()
        check_finite("loss", [total])
        (total * scale).backward()
        return {"loss": total.item(), **entry, "pairs": len(batch.pairs), **counts._asdict()}

    def describe_batch(self, batch: Batch) -> dict[str, Any]:
        """List names, labels and strings. See `Method.describe_batch`."""
        return {**super().describe_batch(batch.pairs), "texts": self.texts.gather(batch.texts).to_list()}

    @classmethod
    def to_encoder(
        cls,
        weights: Mapping[str, torch.Tensor],
        base: EncoderShim,
        settings: StaticSettings,
        *,
        base_share: float = 0.0,
        dtype: str = "",
    ) -> EncoderShim:
        """Quantise the rows, averaged with the table before training, which the run has saved."""
        table = load_start(Path(settings.paths.output))
        if table is None:
            raise FileNotFoundError(
                f"There is no {Path(settings.paths.output) / START_FILE}, which the run has written."
            )
        load_weights(table, weights)
        return table.to_encoder(max_length=base.settings.max_length, start_share=base_share)

    @classmethod
    def describe(cls, report: RunReport) -> Making:
        """Describe the training. See `Method.describe`."""
        settings, data = report.settings, report.data
        table, distillation = settings["table"], settings["distillation"]
        rows = report.parameters["transformer"] // table["width"]
        return Making(
            "static",
            "Model2Vec (Tulkens and van Dongen, 2024): a string's vector is the sum of its tokens' vectors. Names "
            "of one concept get similar vectors, and all strings vectors like those of the base, the teacher.",
            [
                f"Table: {rows:,} tokens, {table['words']:,} of them words of the names; width {table['width']}. It "
                "started from the teacher's vector of each token, weighted by rarity.",
                f"Data: {data['pairs']:,} pairs of {data['names']:,} names (SHA-256 "
                f"{data['sha256']['pairs'][:12]}...), and {data['texts']:,} other strings for the teacher.",
                describe_length(report.training, f"steps of {settings['batch']['pairs']} pairs"),
                f"Objective: {settings['objective']['loss']} {settings['objective']['constants']}, plus the distance "
                f"to the teacher's vectors (1 - cosine), of names times {distillation['names']:g} and of other strings "
                f"times {distillation['texts']:g}.",
                f"Optimizer: Adagrad by rows, learning rate {settings['optimizer']['learning_rate']}, "
                f"{settings['optimizer']['schedule']}; seed {settings['run']['seed']}.",
            ],
        )


def measure_distance(vectors: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Measure how far unit vectors are from those of the teacher.

    vectors (torch.Tensor): Shape (n, width).
    targets (torch.Tensor): The same shape; zeros where the teacher knows no token.
    RETURNS (torch.Tensor): The mean of 1 - cosine, a scalar.
    """
    return (1.0 - (vectors * targets.to(vectors.dtype)).sum(dim=1)).mean()


def read_texts(path: str) -> pl.Series:
    """Read strings, one a line.

    path (str): The file; empty for none.
    RETURNS (pl.Series): The distinct strings, in order.
    RAISES (OSError): If there is no such file.
    RAISES (ValueError): If it is not UTF-8.
    """
    try:
        lines = Path(path).read_text(encoding="utf8").splitlines() if path else []
    except UnicodeDecodeError as error:
        raise ValueError(Errors.E840.format(reason=f"{path} is not UTF-8 ({error})")) from error
    return pl.Series("text", list(dict.fromkeys(line.strip() for line in lines if line.strip())), dtype=pl.String())
