"""Static encoders: a table of token vectors that learns from pairs of names and from the vectors of a teacher."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from pydantic import Field, model_validator
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase
from tokenizers.normalizers import Sequence as Normalizers
from typing_extensions import Self

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import hash_file, write_whole
from spacy_sapbert.ragged import TokenLists
from spacy_sapbert.retrieval.encoding import TokenGroups, VectorStore, encode_groups, group_by_tokens, hash_tokens
from spacy_sapbert.settings import Settings

from ..encoders.export import quantise
from ..engine.checkpoints import list_checkpoints, load_weights
from ..engine.gradient import check_finite
from ..engine.method import Model, TrainingData, Weights
from ..engine.settings import OptimizerSettings, refuse
from .pairs import ObjectiveSettings, PairBatch, PairMethod, PairPaths, PairSettings

START_FILE = "start.safetensors"
# The unknown token, which does not count.
UNKNOWN = 0
BATCH_SIZE = 256
# Names that a word must be in to be added to the vocabulary.
MIN_NAMES = 3
# The constant a of the weight a / (a + p) of a token at the start, p being its share of all tokens.
SMOOTHING = 1e-3
UNUSED = re.compile(r"\[unused\d+\]")
# Latin, Greek, punctuation and symbols up to mathematical operators.
LATIN = re.compile("[\u0000-\u024f\u0370-\u03ff\u2000-\u22ff]*")
WORD = re.compile(r"[a-z]{3,}")
# Names whose vectors determine the projection.
SAMPLE = 20_000


class TokenTableSettings(Settings):
    """The vocabulary and the table at its start."""

    width: int = Field(default=256, ge=1, description="Width of the vectors, at most the width of the teacher's.")
    words: int = Field(default=0, ge=0, description="Words to add to the vocabulary: the most frequent of the names.")
    scripts: Literal["latin", "all"] = Field(
        default="latin", description='"latin" keeps the pieces of Latin and Greek in the vocabulary, "all" all.'
    )


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
    distillation: DistillationSettings = DistillationSettings()
    optimizer: StaticOptimizer = StaticOptimizer()
    batch: StaticBatch = StaticBatch()

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if self.distillation.texts and not self.paths.texts:
            refuse("distillation.texts", self.distillation.texts, "0 without paths.texts")
        return self


def refuse_static(reason: object) -> ValueError:
    """Say why a static encoder can't be trained."""
    return ValueError(
        f"A static encoder can't be trained: {reason}. Give a teacher with a WordPiece vocabulary in paths.encoder, "
        "and a file with a string on each line in paths.texts."
    )


class StaticTable(torch.nn.Module):
    """A table of token vectors. The vector of a string is the sum of the rows of its tokens.

    It keeps `start`, the table before training, shape (tokens, width), float32.
    """

    def __init__(self, tokenizer: Tokenizer, start: torch.Tensor) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.start = start
        self.rows = torch.nn.Parameter(start.clone())

    def forward(self, tokens: Sequence[np.ndarray]) -> torch.Tensor:
        """Encode the token ids of strings: unit vectors, shape (strings, width); zeros for strings without tokens."""
        lengths = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
        ids = torch.from_numpy(np.concatenate(tokens).astype(np.int64)).to(self.rows.device)
        starts = torch.from_numpy(lengths.cumsum() - lengths).to(self.rows.device)
        sums = torch.nn.functional.embedding_bag(ids, self.rows, starts, mode="sum", sparse=True, padding_idx=UNKNOWN)
        return torch.nn.functional.normalize(sums, dim=1)

    def to_encoder(self, max_length: int, start_share: float = 0.0) -> EncoderShim:
        """Make an encoder, with rows of 8-bit numbers, of the current rows and a share of those before training."""
        rows = self.rows.detach().cpu().lerp(self.start, start_share)
        encoder = EncoderShim({}, "fp32")
        encoder.set_source(quantise(self.tokenizer, rows.numpy(), max_length=max_length))
        return encoder


def save_start(folder: Path, table: StaticTable) -> None:
    """Save tokenizer and table before training, for resuming and for exports."""
    with write_whole(folder / START_FILE) as temporary:
        save_file({"rows": table.start.contiguous()}, temporary, metadata={"tokenizer": table.tokenizer.to_str()})


def load_start(folder: Path) -> StaticTable:
    """Load the table before training."""
    with safe_open(folder / START_FILE, framework="pt") as file:
        return StaticTable(Tokenizer.from_str(file.metadata()["tokenizer"]), file.get_tensor("rows"))


class Teacher:
    """An encoder whose vectors are computed once, and kept in a folder."""

    def __init__(self, encoder: EncoderShim, folder: str | Path) -> None:
        self.encoder = encoder
        self.store = VectorStore(folder, encoder)

    def encode(self, strings: pl.Series) -> np.ndarray:
        """Encode strings: unit vectors, float32; zeros for strings of unknown tokens only."""
        groups = group_by_tokens(strings, self.encoder)
        vectors = encode_groups(groups, self.encoder, batch_size=BATCH_SIZE, store=self.store)
        # Row -1 stands for strings of unknown tokens only.
        return np.concatenate([vectors, np.zeros_like(vectors, shape=(1, self.encoder.width))])[groups.row_of_name]

    def encode_pieces(self, pieces: Sequence[str]) -> np.ndarray:
        """Encode pieces of the encoder's vocabulary, and words, each as a string of its own with special tokens."""
        vocabulary = self.encoder.source.tokenizer.get_vocab()
        # An empty string has only the special tokens: one before the others.
        special = self.encoder.tokenize([""])[0]
        words = iter(self.encoder.tokenize([piece for piece in pieces if piece not in vocabulary]))
        tokens = TokenLists.make(
            [
                [*special[:1], vocabulary[piece], *special[1:]] if piece in vocabulary else next(words)
                for piece in pieces
            ]
        )
        groups = TokenGroups(tokens, hash_tokens(tokens), np.arange(len(tokens)))
        return encode_groups(groups, self.encoder, batch_size=BATCH_SIZE, store=self.store)


def fit_projection(vectors: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the mean of vectors and their first principal components, shape (width of vectors, width), float32."""
    mean = vectors.mean(axis=0)
    centred = (vectors - mean).astype(np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)
    return mean, np.ascontiguousarray(directions[:, ::-1][:, :width], dtype=np.float32)


def make_start(names: pl.Series, teacher: Teacher, components: np.ndarray, settings: TokenTableSettings) -> StaticTable:
    """Make the table before training: the teacher's vector of each token, projected, and weighted by its rarity among
    the names (Model2Vec)."""
    source = teacher.encoder.source
    tokenizer = make_tokenizer(
        source.tokenizer.backend_tokenizer, names, settings, lower_case=teacher.encoder.settings.lower_case
    )
    vocabulary = tokenizer.get_vocab()
    pieces = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    vectors = teacher.encode_pieces(pieces)
    ids = (token for encoding in tokenizer.encode_batch_fast(names.to_list()) for token in encoding.ids)
    counts = np.bincount(np.fromiter(ids, dtype=np.int64), minlength=len(pieces))
    rows = (vectors - vectors.mean(axis=0)) @ components
    # As in Arora et al., ICLR 2017.
    shares = (counts + 0.5) / counts.sum()
    rows *= (SMOOTHING / (SMOOTHING + shares)).astype(np.float32)[:, None]
    rows[UNKNOWN] = 0
    # The length of rows is 1 in the quadratic mean, so that learning rates have one meaning.
    scaled = (rows / np.sqrt(np.square(rows).sum(axis=1).mean())).astype(np.float32)
    return StaticTable(tokenizer, torch.from_numpy(scaled))


def make_tokenizer(
    teacher: Tokenizer, names: Iterable[str], settings: TokenTableSettings, *, lower_case: bool
) -> Tokenizer:
    """Make the tokenizer of a static encoder from the teacher's, which gets lower-cased strings or not. Its unknown
    token is token 0, and it has no other special token."""
    data: dict[str, Any] = json.loads(teacher.to_str())
    model = data["model"]
    if model["type"] != "WordPiece":
        raise refuse_static(f"the teacher's tokenizer is {model['type']}, not WordPiece")
    if lower_case:
        normalizer = teacher.normalizer
        teacher = Tokenizer.from_str(teacher.to_str())
        teacher.normalizer = Normalizers([Lowercase(), *([normalizer] if normalizer else [])])
        data["normalizer"] = json.loads(teacher.to_str())["normalizer"]
    unknown = model["unk_token"]
    special = {token["content"] for token in data["added_tokens"] if token["special"]}
    pieces = [piece for piece in sorted(model["vocab"], key=model["vocab"].get) if piece not in special]
    if settings.scripts == "latin":
        prefix = model["continuing_subword_prefix"]
        pieces = [piece for piece in pieces if LATIN.fullmatch(piece.removeprefix(prefix)) and not UNUSED.match(piece)]
    normalize = teacher.normalizer.normalize_str if teacher.normalizer else str
    counts = Counter(word for name in names for word in set(WORD.findall(normalize(name))))
    # The most frequent words first, equally frequent ones in order.
    words = [word for _, word in sorted((-n, word) for word, n in counts.items() if n >= MIN_NAMES)]
    added = [word for word in words if word not in model["vocab"]][: settings.words]
    model["vocab"] = {token: number for number, token in enumerate([unknown, *pieces, *added])}
    data["added_tokens"] = [
        {**token, "id": 0} for token in data["added_tokens"] if token["special"] and token["content"] == unknown
    ]
    return Tokenizer.from_str(json.dumps({**data, "truncation": None, "padding": None, "post_processor": None}))


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
    dtypes = ("int8",)

    # The projected vectors of the teacher, float16; none where their loss has no weight.
    name_targets: np.ndarray
    text_targets: np.ndarray

    def load(self) -> TrainingData:
        learned, path = super().load(), self.settings.paths.texts
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

    def _learn_from_teacher(self) -> StaticTable:
        """Encode strings with the teacher, and make the table before training unless it is there."""
        settings, distillation = self.settings, self.settings.distillation
        teacher = Teacher(self.base, settings.paths.vectors or self.folder.path / "vectors")
        rng = np.random.default_rng(settings.run.seed)
        sample = self.data.names.gather(np.sort(rng.permutation(len(self.data.names))[:SAMPLE]))
        mean, components = fit_projection(teacher.encode(sample), settings.table.width)

        def make_targets(strings: pl.Series, weight: float) -> np.ndarray:
            if not weight:
                return np.empty((0, 0), np.float16)
            projected = (teacher.encode(strings) - mean) @ components
            return (projected / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-9)).astype(np.float16)

        self.name_targets = make_targets(self.data.names, distillation.names)
        self.text_targets = make_targets(self.texts, distillation.texts)
        # Checkpoints belong to the start that is there: a run with other settings will be refused.
        if list_checkpoints(self.folder.checkpoints):
            return load_start(self.folder.path)
        table = make_start(self.data.names, teacher, components, settings.table)
        if self.accelerator.is_main_process:
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
        weights, (pairs, texts) = self.settings.distillation, batch
        names, labels = self.list_names(pairs)
        tokens = self.take_tokens(names) + [self.text_tokens[text] for text in texts.tolist()]
        vectors = self.model.transformer(tokens)
        check_finite("embeddings", [vectors])
        of_names, of_texts = vectors[: len(names)], vectors[len(names) :]
        contrast, counts = self.measure_pairs(of_names, names, labels)
        total, entry = contrast, {"contrast": contrast.item()}
        for what, weight, learned, targets, rows in (
            ("names", weights.names, of_names, self.name_targets, names),
            ("texts", weights.texts, of_texts, self.text_targets, texts),
        ):
            if weight:
                # The mean of 1 - cosine to the teacher's unit vectors; zeros where it knows no token.
                wanted = torch.from_numpy(targets[rows]).to(learned)
                distance = (1.0 - (learned * wanted).sum(dim=1)).mean()
                total, entry[f"{what}_distance"] = total + weight * distance, distance.item()
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
                state, gradient = self.state[table], table.grad.coalesce()
                state.setdefault("sum", torch.zeros(len(table), dtype=table.dtype, device=table.device))
                (rows,), values = gradient.indices(), gradient.values()
                sums = state["sum"][rows] + values.square().mean(dim=1)
                state["sum"][rows] = sums
                # The small number keeps the first step of a row finite whose gradient is zero.
                table[rows] -= group["lr"] * values / (sums.sqrt() + 1e-10)[:, None]
