"""The table of a static encoder before it is trained: its vocabulary, and what its rows start from."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
import torch
from pydantic import Field, model_validator
from safetensors import safe_open
from safetensors.torch import save_file
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from typing_extensions import Self

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import write_whole
from spacy_sapbert.ragged import TokenLists
from spacy_sapbert.retrieval.encoding import TokenGroups, VectorStore, encode_groups, group_by_tokens, hash_tokens
from spacy_sapbert.settings import Settings
from spacy_sapbert.terminology import Terminology

from ..data.pairs import PairData
from ..encoders.export import quantise
from ..engine.settings import refuse

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
# Parts of a string that pieces do not cross, between spaces: punctuation marks, symbols, numbers.
MARKS = r"[\p{P}\p{S}]|\p{N}+"
# Tokens of names whose vectors are added up at once.
CHUNK = 100_000


class TokenTableSettings(Settings):
    """The vocabulary and the table at its start."""

    width: int = Field(default=256, ge=1, description="Width of the vectors, at most the width of the teacher's.")
    words: int = Field(default=0, ge=0, description="Words to add to the vocabulary: the most frequent of the names.")
    scripts: Literal["latin", "all"] = Field(
        default="latin", description='"latin" keeps the pieces of Latin and Greek in the vocabulary, "all" all.'
    )
    pieces: int = Field(
        default=0,
        ge=0,
        description="Learn a vocabulary of this size from the names, for names in several languages: SentencePiece's "
        "unigram model. The teacher may then be any encoder. 0 for the pieces of the teacher's vocabulary.",
    )

    @model_validator(mode="after")
    def _check_pieces(self) -> Self:
        if self.pieces and self.words:
            refuse("table.words", self.words, "0 with table.pieces, which learns words as well")
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
        groups = group_by_tokens(strings.to_list(), self.encoder)
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
    return _weight_rows(tokenizer, rows, counts)


def _weight_rows(tokenizer: Tokenizer, rows: np.ndarray, counts: np.ndarray) -> StaticTable:
    """Weight the rows of tokens by their rarity, as in Arora et al., ICLR 2017."""
    shares = (counts + 0.5) / counts.sum()
    rows = rows * (SMOOTHING / (SMOOTHING + shares)).astype(np.float32)[:, None]
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
        teacher.normalizer = normalizers.Sequence([normalizers.Lowercase(), *([normalizer] if normalizer else [])])
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


class NameLanguages(NamedTuple):
    """What the languages of names mean for learning from them."""

    # Whether the teacher encodes each name; shape (names,), bool.
    is_taught: np.ndarray
    # How often each name is drawn, relative to a name of the first language; shape (names,), float64.
    weights: np.ndarray


def find_languages(names: pl.Series, terminology: Terminology, taught: str, balance: float) -> NameLanguages:
    """Find the languages of names. One that is written alike in several counts as the teacher's or as the rarest. If
    the teacher knows all, the language with most names takes the place of the teacher's."""
    rows = terminology.names.to_polars().select("language", name=pl.col("name").str.to_lowercase()).unique()
    counts = rows.group_by("language").len("count")
    asked = pl.DataFrame({"name": names.str.to_lowercase()}).with_row_index("row")
    joined = asked.join(rows.join(counts, on="language"), on="name", how="left")
    first = taught or joined.drop_nulls().sort("count", "language")["language"].last()
    found = (
        joined.group_by("row")
        .agg(is_first=(pl.col("language") == first).any(), count=pl.col("count").min())
        .sort("row")
    )
    if n := found["count"].null_count():
        raise ValueError(
            f"{n} of the {len(names)} names of the pairs are not in the terminology, so their languages are not known. "
            "Give the terminology that the pairs were made of in paths.terminology."
        )
    is_first = found["is_first"].to_numpy()
    if not is_first.any():
        there = ", ".join(counts["language"].sort())
        raise ValueError(
            f"languages.taught is {taught!r}, but the names are in {there}. Choose one of these languages."
        )
    largest = counts.filter(pl.col("language") != first)["count"].max() or 1
    weights = np.where(is_first, 1.0, (largest / found["count"].to_numpy()) ** balance)
    return NameLanguages(is_first if taught else np.ones(len(names), bool), weights)


def start_from_concepts(
    data: PairData, languages: NameLanguages, targets: np.ndarray, settings: TokenTableSettings
) -> StaticTable:
    """Make the table before training, for names in several languages: a token's row is the mean of the concepts whose
    names have it, weighted by its rarity. A concept is the mean of its names that the teacher has encoded, whose
    vectors are in `targets`."""
    tokenizer = learn_tokenizer(data.names, languages.weights, settings.pieces)
    sides = np.stack([np.tile(data.labels, 2), np.concatenate([data.left, data.right])])
    labels, names = np.unique(sides, axis=1)
    concepts = torch.zeros(len(data.concepts), settings.width)
    is_taught = languages.is_taught[names]
    taught = torch.from_numpy(targets[names[is_taught]]).float()
    concepts.index_add_(0, torch.from_numpy(labels[is_taught]), taught)
    concepts = torch.nn.functional.normalize(concepts, dim=1)
    encodings = tokenizer.encode_batch_fast(data.names.to_list())
    tokens = TokenLists.make([encoding.ids for encoding in encodings])
    sums = torch.zeros(tokenizer.get_vocab_size(), settings.width)
    counts = np.zeros(len(sums))
    for start in range(0, len(names), CHUNK):
        block = slice(start, start + CHUNK)
        chunk = tokens.take(names[block])
        lengths = torch.from_numpy(chunk.lengths)
        vectors = concepts[torch.from_numpy(labels[block])]
        vectors = vectors / lengths.clamp(min=1)[:, None]
        ids = torch.from_numpy(chunk.ids.astype(np.int64))
        sums.index_add_(0, ids, vectors.repeat_interleave(lengths, dim=0))
        counts += np.bincount(chunk.ids, minlength=len(sums))
    # One more, because the mean of few is not to be trusted.
    means = sums / torch.from_numpy(counts + 1)[:, None]
    return _weight_rows(tokenizer, means.numpy(), counts)


def learn_tokenizer(names: pl.Series, weights: np.ndarray, pieces: int) -> Tokenizer:
    """Learn a vocabulary from names, each as often as its weight says: SentencePiece's unigram model (Kudo, ACL 2018).
    Its unknown token is token 0. The vocabulary is smaller than asked for if the names have fewer pieces."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(MARKS), "isolated")]
    )
    counts: Counter[str] = Counter()
    for name, times in zip(names, np.maximum(np.rint(weights), 1).astype(int).tolist(), strict=True):
        written = tokenizer.normalizer.normalize_str(name)
        for part, _ in tokenizer.pre_tokenizer.pre_tokenize_str(written):
            counts[part] += times
    characters = len(set().union(*counts))
    if pieces <= characters:
        refuse("table.pieces", pieces, f"more than {characters}, the number of different characters of the names")
    learned = io.BytesIO()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "words.tsv"
        path.write_text("".join(f"{part}\t{n}\n" for part, n in sorted(counts.items())), encoding="utf8", newline="\n")
        # With one thread, the same names give the same pieces.
        SentencePieceTrainer.train(
            input=str(path),
            input_format="tsv",
            model_writer=learned,
            vocab_size=pieces,
            hard_vocab_limit=False,
            character_coverage=1.0,
            num_threads=1,
            minloglevel=2,
            # What the strings look like is decided above.
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            split_by_unicode_script=False,
            split_by_number=False,
            split_by_whitespace=False,
            unk_id=UNKNOWN,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
        )
    model = SentencePieceProcessor(model_proto=learned.getvalue())
    vocabulary = [(model.id_to_piece(n), model.get_score(n)) for n in range(model.get_piece_size())]
    tokenizer.model = models.Unigram(vocabulary, unk_id=UNKNOWN, byte_fallback=False)
    return tokenizer
