"""The method of static encoders: a table learns from pairs of names and from the vectors of a teacher."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
import torch
from pydantic import Field, model_validator
from typing_extensions import Self

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists
from spacy_sapbert.files import hash_file

from ...data.run_folder import RunReport
from ...encoders.card import Making, describe_length
from ...engine.checkpoints import list_checkpoints, load_weights
from ...engine.gradient import check_finite
from ...engine.method import Model, TrainingData
from ...engine.settings import OptimizerSettings, Section, refuse
from ..pairs import ObjectiveSettings, PairBatch, PairMethod, PairPaths, PairSettings
from .table import (
    START_FILE,
    StaticTable,
    Teacher,
    TokenTableSettings,
    fit_projection,
    load_start,
    make_start,
    refuse_static,
    save_start,
)

VECTORS_FOLDER = "vectors"
# Names whose vectors determine the projection.
SAMPLE = 20_000
# Keeps the first step of a row finite whose gradient is zero.
TINY = 1e-10


class StaticPaths(PairPaths):
    """Paths of a run."""

    texts: str = Field(
        default="", description="A file of strings, one a line, whose teacher vectors are learned; empty for none."
    )
    vectors: str = Field(
        default="",
        description="The folder that keeps the teacher's vectors, for other runs too; empty for the folder of the run.",
    )


class DistillationSettings(Section):
    """Learning from the teacher's vectors."""

    names: float = Field(default=0.0, ge=0, description="Weight of the loss on names.")
    texts: float = Field(default=0.0, ge=0, description="Weight of the loss on the strings of `paths.texts`.")


class StaticOptimizer(OptimizerSettings):
    """The optimizer: Adagrad with one learning rate for each row of the table."""

    learning_rate: float = Field(default=0.05, gt=0, description="The highest learning rate.")
    weight_decay: float = Field(
        default=0.0, ge=0, le=0, description="0: the rows of a step are the only ones that change."
    )
    max_grad_norm: float = Field(
        default=0.0, ge=0, le=0, description="0: Adagrad does not depend on the size of gradients."
    )


class StaticObjective(ObjectiveSettings):
    """The loss and its pairs."""

    loss: Literal["info_nce", "multi_similarity", "circle"] = Field(default="info_nce", description="The loss.")
    miner: Literal["sapbert", "coder", "off"] = Field(default="off", description="The miner of pairs.")
    constants: dict[str, float] = Field(
        default={"temperature": 0.1}, description="Constants of the loss that override the preset's."
    )
    ignore_homonyms: bool = Field(
        default=True, description="Exclude homonyms, equal names of different concepts, from the negatives."
    )


class StaticBatch(PairBatch):
    """The batch of a step, and limits of the run."""

    pairs: int = Field(default=512, ge=2, description="Pairs in a step: half the number of names.")
    texts: int = Field(default=256, ge=1, description="Strings of `paths.texts` in a step.")

    @model_validator(mode="after")
    def _check_transformer_settings(self) -> Self:
        for name in ("chunk_names", "gradient_cache", "dropout"):
            default = type(self).model_fields[name].default
            if getattr(self, name) != default:
                refuse(f"batch.{name}", getattr(self, name), f"{json.dumps(default)}: there is no transformer to train")
        return self


class StaticSettings(PairSettings):
    """All settings of a run that trains a static encoder. Its base encoder is the teacher."""

    paths: StaticPaths
    table: TokenTableSettings = TokenTableSettings()
    objective: StaticObjective = StaticObjective()
    distillation: DistillationSettings = DistillationSettings()
    optimizer: StaticOptimizer = StaticOptimizer()
    batch: StaticBatch = StaticBatch()

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if self.distillation.texts and not self.paths.texts:
            refuse("distillation.texts", self.distillation.texts, "0 without paths.texts")
        return self


class StaticStep(NamedTuple):
    """Rows of pairs, and rows of strings to distil."""

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
        if (width := self.settings.table.width) > self.base.width:
            refuse("table.width", width, f"at most {self.base.width}, the width of the teacher's vectors")
        self.texts = read_texts(self.settings.paths.texts)
        if self.settings.distillation.texts and not len(self.texts):
            raise refuse_static(f"there is no string in {self.settings.paths.texts}")
        report = {**learned.report, "texts": len(self.texts)}
        return learned._replace(report=report, sha256=self.hash_data())

    def hash_data(self) -> dict[str, str]:
        """Hash the file of strings too."""
        path = self.settings.paths.texts
        return {**super().hash_data(), **({"texts": hash_file(Path(path))} if path else {})}

    def build(self) -> Model:
        """Make the table, tokenise strings and encode them with the teacher. See `Method.build`."""
        self.prepare_batches()
        with self.accelerator.main_process_first():
            table = self._learn_from_teacher()
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

    def batches(self, start: int) -> Iterator[StaticStep]:
        """Iterate over rows of pairs and of strings. See `Method.batches`."""
        n = self.settings.batch.texts if self.settings.distillation.texts else 0
        for step, pairs in enumerate(super().batches(start), start):
            rng = np.random.default_rng([self.settings.run.seed, step])
            yield StaticStep(pairs, rng.integers(len(self.texts), size=n) if n else np.empty(0, np.int64))

    def loss(self, batch: StaticStep, scale: float) -> dict[str, Any]:
        """Add up the loss of pairs and those of the teacher's vectors. See `Method.loss`."""
        weights = self.settings.distillation
        names, labels = self.list_names(batch.pairs)
        tokens = self.take_tokens(names) + [self.text_tokens[text] for text in batch.texts.tolist()]
        vectors = self.model.transformer(tokens)
        check_finite("embeddings", [vectors])
        of_names, of_texts = vectors[: len(names)], vectors[len(names) :]
        contrast, counts = self.measure_pairs(of_names, names, labels)
        total, entry = contrast, {"contrast": contrast.item()}
        for what, weight, learned, targets, rows in (
            ("names", weights.names, of_names, self.name_targets, names),
            ("texts", weights.texts, of_texts, self.text_targets, batch.texts),
        ):
            if weight:
                # The mean of 1 - cosine to the teacher's unit vectors; zeros where it knows no token.
                wanted = torch.from_numpy(targets[rows]).to(learned)
                distance = (1.0 - (learned * wanted).sum(dim=1)).mean()
                total, entry[f"{what}_distance"] = total + weight * distance, distance.item()
        check_finite("loss", [total])
        (total * scale).backward()
        return {"loss": total.item(), **entry, "pairs": len(batch.pairs), **counts}

    def describe_batch(self, batch: StaticStep) -> dict[str, Any]:
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


class RowAdagrad(torch.optim.Optimizer):
    """Adagrad (Duchi et al., JMLR 2011) over the rows of tables with sparse gradients.

    The learning rate of a row falls with the root of the sum of its mean squared gradients. So rare tokens learn as
    much as frequent ones, and rows without a gradient cost nothing.

    params (Iterable[torch.nn.Parameter]): Tables, each of shape (rows, width).
    lr (float): The learning rate.
    """

    def __init__(self, params: Iterable[torch.nn.Parameter], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # no closure is taken
        """Update the rows that have a gradient. A closure is not used: the gradients are there."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is None:
                    continue
                state = self.state[table]
                if not state:
                    state["sum"] = torch.zeros(len(table), dtype=table.dtype, device=table.device)
                gradient = table.grad.coalesce()
                (rows,), values = gradient.indices(), gradient.values()
                sums = state["sum"][rows] + values.square().mean(dim=1)
                state["sum"][rows] = sums
                table[rows] -= group["lr"] * values / (sums.sqrt() + TINY)[:, None]


def read_texts(path: str) -> pl.Series:
    """Read the distinct strings of a file, one a line; none without a file."""
    try:
        lines = Path(path).read_text(encoding="utf8").splitlines() if path else []
    except UnicodeDecodeError as error:
        raise refuse_static(f"{path} is not UTF-8 ({error})") from error
    return pl.Series("text", list(dict.fromkeys(line.strip() for line in lines if line.strip())), dtype=pl.String())
