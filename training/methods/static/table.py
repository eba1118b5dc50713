"""The table of token vectors: in training, and at its start, where it is made of the vectors of a teacher."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
import torch
from pydantic import Field
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase
from tokenizers.normalizers import Sequence as Normalizers

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists
from spacy_sapbert.files import write_whole
from spacy_sapbert.retrieval.encoding import TokenGroups, VectorStore, encode_groups, group_by_tokens, make_keys

from ...encoders.export import quantise
from ...engine.settings import Section

START_FILE = "start.safetensors"
# The unknown token, which does not count.
UNKNOWN = 0
BATCH_SIZE = 256
UNUSED = re.compile(r"\[unused\d+\]")
# Latin, Greek, punctuation and symbols up to mathematical operators.
LATIN = re.compile("[\u0000-\u024f\u0370-\u03ff\u2000-\u22ff]*")
WORD = re.compile(r"[a-z]{3,}")


class TokenTableSettings(Section):
    """The vocabulary and the table at its start."""

    width: int = Field(default=256, ge=1, description="Width of the vectors, at most that of the teacher's vectors.")
    words: int = Field(
        default=0, ge=0, description="Whole words to add to the vocabulary: the most frequent ones of the names."
    )
    min_names: int = Field(default=3, ge=1, description="Names that a word must be in to be added.")
    scripts: Literal["latin", "all"] = Field(
        default="latin",
        description='"latin" drops the pieces of other scripts than Latin and Greek from the vocabulary; "all" keeps '
        "them.",
    )
    smoothing: float = Field(
        default=1e-3,
        gt=0,
        description="The constant a of the weight a / (a + p) of a token at the start, p being its share of all "
        "tokens.",
    )


def refuse_static(reason: object) -> ValueError:
    """Say why a static encoder can't be trained."""
    return ValueError(
        f"A static encoder can't be trained: {reason}. Give a teacher with a WordPiece vocabulary in paths.encoder, "
        "and a file with a string on each line in paths.texts."
    )


class StaticTable(torch.nn.Module):
    """A table of token vectors. The vector of a string is the sum of the rows of its tokens.

    tokenizer (Tokenizer): The tokenizer.
    start (torch.Tensor): The table before training, shape (tokens, width), float32.
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

    def to_encoder(self, *, max_length: int, start_share: float = 0.0) -> EncoderShim:
        """Make an encoder, with rows of 8-bit numbers, of the current rows and a share of those before training."""
        rows = self.rows.detach().cpu().lerp(self.start, start_share)
        encoder = EncoderShim({}, "fp32")
        encoder.set_source(quantise(self.tokenizer, rows.numpy(), max_length=max_length))
        return encoder


def save_start(folder: Path, table: StaticTable, identity: dict[str, str]) -> None:
    """Save tokenizer and table before training for resuming and for exports, with what the start depends on."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"tokenizer": table.tokenizer.to_str(), "identity": json.dumps(identity, sort_keys=True)}
    with write_whole(folder / START_FILE) as temporary:
        save_file({"rows": table.start.contiguous()}, temporary, metadata=metadata)


def load_start(folder: Path, identity: dict[str, str] | None = None) -> StaticTable | None:
    """Load the table before training; None if there is no file, or it depends on something else than `identity`."""
    path = folder / START_FILE
    if not path.is_file():
        return None
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        if identity is not None and metadata["identity"] != json.dumps(identity, sort_keys=True):
            return None
        return StaticTable(Tokenizer.from_str(metadata["tokenizer"]), file.get_tensor("rows"))


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
        groups = TokenGroups(tokens, make_keys(tokens), np.arange(len(tokens)))
        return encode_groups(groups, self.encoder, batch_size=BATCH_SIZE, store=self.store)


class Projection(NamedTuple):
    """A projection to the first principal components: shapes (width,) and (width, components), float32."""

    mean: np.ndarray
    components: np.ndarray

    def project(self, vectors: np.ndarray) -> np.ndarray:
        """Project vectors, shape (n, width), and scale them to unit length."""
        projected = (vectors - self.mean) @ self.components
        return projected / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-9)


def fit_projection(vectors: np.ndarray, width: int) -> Projection:
    """Find the first principal components of vectors; fewer if they have not so many dimensions."""
    mean = vectors.mean(axis=0)
    centred = (vectors - mean).astype(np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)
    return Projection(mean, np.ascontiguousarray(directions[:, ::-1][:, :width], dtype=np.float32))


def make_start(names: pl.Series, teacher: Teacher, projection: Projection, settings: TokenTableSettings) -> StaticTable:
    """Make the table before training: the teacher's vector of each token, projected, and weighted by its rarity among
    the names (Model2Vec).
    """
    source = teacher.encoder.source
    tokenizer = make_tokenizer(
        source.tokenizer.backend_tokenizer, names, settings, lower_case=teacher.encoder.settings.lower_case
    )
    vocabulary = tokenizer.get_vocab()
    pieces = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    vectors = teacher.encode_pieces(pieces)
    ids = (token for encoding in tokenizer.encode_batch_fast(names.to_list()) for token in encoding.ids)
    counts = np.bincount(np.fromiter(ids, dtype=np.int64), minlength=len(pieces))
    rows = (vectors - vectors.mean(axis=0)) @ projection.components
    # a / (a + p), p being the share of the token (Arora et al., ICLR 2017).
    shares = (counts + 0.5) / counts.sum()
    rows *= (settings.smoothing / (settings.smoothing + shares)).astype(np.float32)[:, None]
    rows[UNKNOWN] = 0
    # The length of rows is 1 in the quadratic mean, so that learning rates have one meaning.
    scaled = (rows / np.sqrt(np.square(rows).sum(axis=1).mean())).astype(np.float32)
    return StaticTable(tokenizer, torch.from_numpy(scaled))


def make_tokenizer(
    teacher: Tokenizer, names: Iterable[str], settings: TokenTableSettings, *, lower_case: bool
) -> Tokenizer:
    """Make the tokenizer of a static encoder. Its unknown token is token 0, and it has no other special token.

    teacher (Tokenizer): The teacher's tokenizer, of the kind WordPiece.
    names (Iterable[str]): The names.
    settings (TokenTableSettings): Pieces to drop and words to add.
    lower_case (bool): Whether the teacher gets lower-cased strings.
    RETURNS (Tokenizer): The tokenizer.
    RAISES (ValueError): If the teacher's tokenizer is of another kind.
    """
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
    words = _list_words(teacher, names, settings.min_names) if settings.words else []
    added = [word for word in words if word not in model["vocab"]][: settings.words]
    model["vocab"] = {token: number for number, token in enumerate([unknown, *pieces, *added])}
    data["added_tokens"] = [
        {**token, "id": 0} for token in data["added_tokens"] if token["special"] and token["content"] == unknown
    ]
    return Tokenizer.from_str(json.dumps({**data, "truncation": None, "padding": None, "post_processor": None}))


def _list_words(tokenizer: Tokenizer, names: Iterable[str], min_names: int) -> list[str]:
    """List the words of some names or more, the most frequent first, equally frequent ones in order."""
    normalize = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str
    counts = Counter(word for name in names for word in set(WORD.findall(normalize(name))))
    return [word for _, word in sorted((-n, word) for word, n in counts.items() if n >= min_names)]
