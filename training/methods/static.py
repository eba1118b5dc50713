"""Static encoders: a table of token vectors that learns from pairs of names and from the vectors of a teacher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from pydantic import Field, model_validator
from typing_extensions import Self

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import hash_file
from spacy_sapbert.settings import Settings
from spacy_sapbert.terminology import Terminology

from ..engine.checkpoints import list_checkpoints, load_weights
from ..engine.gradient import check_finite
from ..engine.method import Model, TrainingData, Weights
from ..engine.settings import OptimizerSettings, refuse
from .pairs import ObjectiveSettings, PairBatch, PairMethod, PairPaths, PairSettings
from .tables import (
    NameLanguages,
    StaticTable,
    Teacher,
    TokenTableSettings,
    find_languages,
    fit_projection,
    load_start,
    make_start,
    refuse_static,
    save_start,
    start_from_concepts,
)

# Names whose vectors determine the projection.
SAMPLE = 20_000


class StaticPaths(PairPaths):
    """Paths of a run."""

    texts: str = Field(default="", description="A file of strings, one a line, whose teacher vectors are learned.")
    vectors: str = Field(
        default="", description="The folder that keeps the teacher's vectors; empty for one in the folder of the run."
    )


class DistillationSettings(Settings):
    """Learning from the teacher's vectors."""

    names: float = Field(default=0.0, ge=0, description="Weight of the loss on names.")
    texts: float = Field(default=0.0, ge=0, description="Weight of the loss on the strings of `paths.texts`.")


class LanguageSettings(Settings):
    """Names in several languages: which of them the teacher knows, and how often the others are drawn."""

    taught: str = Field(
        default="ENG",
        description="The language (LAT) of the names that the teacher encodes, empty for all. Names in others start "
        "from those that their concepts have in this one.",
    )
    balance: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="0 draws each pair with the same probability; 1 draws pairs with a name in another language the "
        "more often, the fewer names the language has.",
    )


class StaticOptimizer(OptimizerSettings):
    """The optimizer: Adagrad with one learning rate for each row of the table."""

    learning_rate: float = Field(default=0.05, gt=0)
    weight_decay: float = Field(default=0.0, ge=0, le=0, description="0: only the rows of a step change.")
    max_grad_norm: float = Field(default=0.0, ge=0, le=0, description="0: Adagrad needs no clipping.")


class StaticObjective(ObjectiveSettings):
    """The loss and its pairs."""

    loss: Literal["info_nce", "multi_similarity", "circle"] = "info_nce"
    miner: Literal["sapbert", "coder", "off"] = "off"
    constants: dict[str, float] = {"temperature": 0.1}
    ignore_homonyms: bool = True


class StaticBatch(PairBatch):
    """The batch of a step, and limits of the run."""

    pairs: int = Field(default=512, ge=2)
    texts: int = Field(default=256, ge=1, description="Strings of `paths.texts` in a step.")
    # Settings for a transformer, and here none is trained.
    chunk_names: Literal[64] = 64
    gradient_cache: Literal[False] = False
    dropout: None = None


class StaticSettings(PairSettings):
    """All settings of a run that trains a static encoder. Its base encoder is the teacher."""

    paths: StaticPaths
    table: TokenTableSettings = TokenTableSettings()
    objective: StaticObjective = StaticObjective()
    languages: LanguageSettings = LanguageSettings()
    distillation: DistillationSettings = DistillationSettings()
    optimizer: StaticOptimizer = StaticOptimizer()
    batch: StaticBatch = StaticBatch()

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if self.distillation.texts and not self.paths.texts:
            refuse("distillation.texts", self.distillation.texts, "0 without paths.texts")
        return self

    @model_validator(mode="after")
    def _check_pieces(self) -> Self:
        if self.table.pieces and not self.paths.terminology:
            refuse("paths.terminology", "", "the folder of the pairs' terminology, which tells languages apart")
        if not self.table.pieces and self.languages != LanguageSettings():
            refuse("languages", self.languages.to_dict(), "as it is by default without table.pieces")
        return self

    @property
    def uses_terminology(self) -> bool:
        return super().uses_terminology or bool(self.table.pieces)


# Rows of pairs, and rows of strings to distil.
StaticStep = tuple[np.ndarray, np.ndarray]


class Static(PairMethod[StaticSettings]):
    """A run that trains a static encoder. Its base encoder is the teacher. See `Method`.

    Each process of a launch computes whole batches: the computation of a step takes less time than its communication.
    """

    name = "static"
    purpose = (
        "Model2Vec (Tulkens and van Dongen, 2024): a string's vector is the sum of its tokens' vectors, which started "
        "as the vectors of the base, the teacher. Names of one concept get similar vectors, and all strings vectors "
        "like the teacher's."
    )
    Settings = StaticSettings
    base_kind = None
    dtypes = ("int8",)

    # Of names in several languages; None for those of one.
    languages: NameLanguages | None = None
    # The projected vectors of the teacher, float16; none where they are of no use, and zeros for names that it does not
    # encode.
    name_targets: np.ndarray
    text_targets: np.ndarray

    def load(self) -> TrainingData:
        learned = super().load()
        path = self.settings.paths.texts
        languages = self.settings.languages
        if self.settings.table.pieces:
            terminology = Terminology.from_disk(self.settings.paths.terminology)
            self.hashes["terminology"] = terminology.fingerprint
            self.languages = find_languages(self.data.names, terminology, languages.taught, languages.balance)
        if (width := self.settings.table.width) > self.base.width:
            refuse("table.width", width, f"at most {self.base.width}, the width of the teacher's vectors")
        try:
            lines = Path(path).read_text(encoding="utf8").splitlines() if path else []
        except UnicodeDecodeError as error:
            raise refuse_static(f"{path} is not UTF-8 ({error})") from error
        self.texts = pl.Series("text", list(dict.fromkeys(filter(None, map(str.strip, lines)))), dtype=pl.String())
        if self.settings.distillation.texts and not len(self.texts):
            raise refuse_static(f"there is no string in {path}")
        if path:
            self.hashes["texts"] = hash_file(Path(path))
        return learned._replace(report={**learned.report, "texts": len(self.texts)})

    def build(self) -> Model:
        """Make the table, tokenise strings and encode them with the teacher. See `Method.build`."""
        self.prepare_batches()
        with self.accelerator.main_process_first():
            table = self._learn_from_teacher()
        encoder = table.to_encoder(self.base.settings.max_length)
        self.tokenise(encoder)
        self.text_tokens = self.make_tokens(self.texts, encoder)
        return Model(table)

    def weigh_pairs(self) -> np.ndarray | None:
        weights = super().weigh_pairs()
        languages = self.languages
        if languages is None:
            return weights
        of_pairs = np.maximum(languages.weights[self.data.left], languages.weights[self.data.right])
        return of_pairs if weights is None else weights * of_pairs

    def _learn_from_teacher(self) -> StaticTable:
        """Encode strings with the teacher, and make the table before training unless it is there."""
        settings = self.settings
        weights = self.settings.distillation
        names = self.data.names
        teacher = Teacher(self.base, settings.paths.vectors or self.folder.path / "vectors")
        taught = np.arange(len(names)) if self.languages is None else np.flatnonzero(self.languages.is_taught)
        rng = np.random.default_rng(settings.run.seed)
        sample = names.gather(np.sort(rng.permutation(taught)[:SAMPLE]))
        mean, components = fit_projection(teacher.encode(sample), settings.table.width)

        def make_targets(strings: pl.Series) -> np.ndarray:
            projected = (teacher.encode(strings) - mean) @ components
            return (projected / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-9)).astype(np.float16)

        self.name_targets = np.zeros((len(names), settings.table.width), np.float16)
        if weights.names or self.languages is not None:
            self.name_targets[taught] = make_targets(names.gather(taught))
        self.text_targets = make_targets(self.texts if weights.texts else self.texts.clear())
        # Checkpoints belong to the start that is there: a run with other settings will be refused. Other processes of a
        # launch take the one that the main process has saved.
        if list_checkpoints(self.folder.checkpoints) or not self.accelerator.is_main_process:
            return load_start(self.folder.path)
        if self.languages is None:
            table = make_start(names, teacher, components, settings.table)
        else:
            table = start_from_concepts(self.data, self.languages, self.name_targets, settings.table)
        save_start(self.folder.path, table)
        return table

    def make_optimizer(self) -> RowAdagrad:
        return RowAdagrad(self.model.parameters(), lr=self.settings.optimizer.learning_rate)

    def batches(self, start: int) -> Iterator[StaticStep]:
        n = self.settings.batch.texts if self.settings.distillation.texts else 0
        for step, pairs in enumerate(super().batches(start), start):
            rng = np.random.default_rng([self.settings.run.seed, step])
            yield pairs, rng.integers(len(self.texts), size=n) if n else np.empty(0, np.int64)

    def loss(self, batch: StaticStep, scale: float) -> dict[str, Any]:
        """Add up the losses of pairs and of the teacher's vectors. See `Method.loss`."""
        weights = self.settings.distillation
        pairs, texts = batch
        names, labels = self.list_names(pairs)
        tokens = self.take_tokens(names) + [self.text_tokens[text] for text in texts.tolist()]
        vectors = self.model.transformer(tokens)
        check_finite("embeddings", [vectors])
        of_names = vectors[: len(names)]
        of_texts = vectors[len(names) :]
        contrast, counts = self.measure_pairs(of_names, names, labels)
        total = contrast
        entry = {"contrast": contrast.item()}
        taught = np.ones(len(names), bool) if self.languages is None else self.languages.is_taught[names]
        for what, weight, learned, targets, rows in (
            ("names", weights.names, of_names[torch.from_numpy(taught)], self.name_targets, names[taught]),
            ("texts", weights.texts, of_texts, self.text_targets, texts),
        ):
            if weight and len(rows):
                # The mean of 1 - cosine to the teacher's unit vectors; zeros where it knows no token.
                of_teacher = torch.from_numpy(targets[rows]).to(learned)
                distance = (1.0 - (learned * of_teacher).sum(dim=1)).mean()
                total = total + weight * distance
                entry[f"{what}_distance"] = distance.item()
        (total * scale).backward()
        return {"loss": total.item(), **entry, "pairs": len(pairs), **counts}

    @classmethod
    def to_encoder(
        cls, weights: Weights, base: EncoderShim, settings: StaticSettings, base_share: float = 0.0, dtype: str = ""
    ) -> EncoderShim:
        """Quantise the rows, averaged with the table before training, which the run has saved."""
        table = load_start(Path(settings.paths.output))
        load_weights(table, weights)
        return table.to_encoder(base.settings.max_length, base_share)


class RowAdagrad(torch.optim.Optimizer):
    """Adagrad (Duchi et al., JMLR 2011) over the rows of tables with sparse gradients.

    The learning rate of a row falls with the root of the sum of its mean squared gradients. So rare tokens learn as
    much as frequent ones, and rows without a gradient cost nothing.
    """

    def __init__(self, params: Iterable[torch.nn.Parameter], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # no closure is taken
        """Update the rows that have a gradient. A closure is not used: the gradients are there."""
        for group in self.param_groups:
            for table in group["params"]:
                state = self.state[table]
                gradient = table.grad.coalesce()
                state.setdefault("sum", torch.zeros(len(table), dtype=table.dtype, device=table.device))
                (rows,) = gradient.indices()
                values = gradient.values()
                sums = state["sum"][rows] + values.square().mean(dim=1)
                state["sum"][rows] = sums
                # The small number keeps the first step of a row finite whose gradient is zero.
                table[rows] -= group["lr"] * values / (sums.sqrt() + 1e-10)[:, None]
