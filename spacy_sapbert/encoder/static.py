"""An encoder without a network: the vector of a string is the sum of its tokens' vectors, scaled to unit length. The
vectors of the tokens are the rows of a table of 8-bit numbers with a scale for each row. The table stays on disk,
mapped into memory, so processes share it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import srsly
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from typing_extensions import Self

from ..errors import BAD_SETTING, MISSING
from ..ragged import TokenIds, TokenLists
from ..text import list_letters
from .settings import STATIC, EncoderSettings, Precision

TABLE_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
# Strings summed at once: their vectors fit the cache of a processor.
BLOCK = 1024
# For `SentenceTransformer(folder)`.
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "spacy_sapbert.encoder.static.QuantisedStaticEmbedding"},
    {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
]
# What sentence-transformers passes on to find a file.
WHERE = ("subfolder", "token", "cache_folder", "revision", "local_files_only")


@dataclass(frozen=True, eq=False)
class StaticSource:
    """A static encoder as read from a folder, which is ready to encode.

    tokenizer (Tokenizer): Cuts strings after `max_length` tokens, without padding and added tokens.
    rows (ndarray): Row n is the vector of token n, divided by its scale; shape (tokens, width), int8.
    scales (ndarray): The scale of each row, float32. A learned weight of a token is part of it.
    settings (EncoderSettings): The settings in force.
    fingerprint (str): SHA-256 over table, vocabulary and settings: equal fingerprints, equal vectors.
    ignored (frozenset[int]): Tokens that tell nothing of a string: special ones, the unknown one and all others with a
        row of zeros, and the letters of scripts whose words the vocabulary does not know.
    card (bytes | None): The folder's README.md, which is saved with the encoder.
    threshold (float): The score that a mention's best candidate needs, if the linker's settings don't say.
    """

    tokenizer: Tokenizer
    rows: np.ndarray
    scales: np.ndarray
    settings: EncoderSettings
    fingerprint: str
    ignored: frozenset[int]
    card: bytes | None = None
    threshold: float = 0.0
    kind: ClassVar[str] = STATIC
    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)

    def prepare(self, precision: Precision, device: str) -> Self:
        """Return the encoder itself: its vectors are float32, and its table stays in the memory of the processor."""
        return self

    @property
    def source(self) -> Self:
        """The encoder itself, as nothing but its folder's content is needed to encode."""
        return self

    @property
    def width(self) -> int:
        """The width of the table and of the vectors."""
        return int(self.rows.shape[1])

    def encode(self, tokens: Sequence[TokenIds], batch_size: int, *, normalised: bool) -> np.ndarray:
        """Encode tokenised strings.

        Each sum is made token by token, in their order, so it does not depend on the other strings.

        tokens (Sequence[Sequence[int]]): Token ids of each string.
        batch_size (int): Not used: there is no forward pass.
        normalised (bool): Whether to scale the vectors to unit length.
        RETURNS (ndarray): Shape (n, width), float32. A string without a token that counts has a vector of zeros.
        """
        # A plain view, because taking rows of a memmap lasts longer.
        rows = np.asarray(self.rows)
        scales = self.scales
        lists = tokens if isinstance(tokens, TokenLists) else TokenLists.make(tokens)
        vectors = np.zeros((len(lists), self.width), dtype=np.float32)
        ids = lists.ids
        starts = lists.offsets[:-1]
        lengths = lists.lengths
        order = np.argsort(-lengths, kind="stable")
        for first in range(0, len(order), BLOCK):
            block = order[first : first + BLOCK]
            sums = np.zeros((len(block), self.width), dtype=np.float32)
            for place in range(int(lengths[block[0]])):
                # The longest strings come first: those with a token at this place.
                n = int(np.count_nonzero(lengths[block] > place))
                tokens_here = ids[starts[block[:n]] + place]
                numbers = rows.take(tokens_here, axis=0).astype(np.float32)
                numbers *= scales[tokens_here, None]
                sums[:n] += numbers
            vectors[block] = _normalise(sums) if normalised else sums
        return vectors


def _normalise(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors to unit length, however large or small their numbers are. Vectors of zeros stay as they are."""
    # By the largest number first: squares of large and of small numbers are no longer float32.
    largest = np.abs(vectors).max(axis=1, initial=0, keepdims=True)
    vectors = vectors / np.where(largest > 0, largest, 1)
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return vectors / np.where(norms > 0, norms, 1)


def read_static(
    table: Path, tokenizer: Path, settings: EncoderSettings, fingerprint: str | None, *, memory_map: bool = True
) -> StaticSource:
    """Read a static encoder. Its ValueErrors are reasons, not whole messages. The fingerprint is computed where it is
    None. The table is mapped from disk or read."""
    for path in (table, tokenizer):
        if not path.is_file():
            raise FileNotFoundError(MISSING.format(path=path))
    rows, scales = _read_table(table, memory_map=memory_map)
    try:
        backend = Tokenizer.from_file(str(tokenizer))
    except Exception as error:  # the library raises Exception itself
        raise ValueError(f"{tokenizer.name} is not a tokenizer ({error})") from error
    return make_source(backend, rows, scales, settings, fingerprint)


def _read_table(path: Path, *, memory_map: bool) -> tuple[np.ndarray, np.ndarray]:
    try:
        with safe_open(path, framework="np") as file:
            if set(file.keys()) != {"rows", "scales"}:
                raise ValueError(f"it holds {', '.join(sorted(file.keys())) or 'nothing'}, not rows and scales")
            scales = file.get_tensor("scales")
            # Numbers of another type are refused later, by it.
            if not memory_map or file.get_slice("rows").get_dtype() != "I8":
                return file.get_tensor("rows"), scales
        # safetensors has checked types, sizes and offsets, but can't map a table for NumPy.
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            entry = json.loads(file.read(length))["rows"]
        start = 8 + length + entry["data_offsets"][0]
        return np.memmap(path, dtype=np.int8, mode="r", offset=start, shape=tuple(entry["shape"])), scales
    except Exception as error:  # safetensors has errors of its own, and raises others for types that NumPy lacks
        raise ValueError(f"{path.name} holds no table of a static encoder ({error!r})") from error


def make_source(
    tokenizer: Tokenizer, rows: np.ndarray, scales: np.ndarray, settings: EncoderSettings, fingerprint: str | None
) -> StaticSource:
    """Make a static encoder of its parts. Truncation, padding and added tokens of the tokenizer are changed. Its
    ValueErrors are reasons, not whole messages."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(settings.max_length)
    tokenizer.post_processor = None  # it adds special tokens
    n_tokens = tokenizer.get_vocab_size()
    if rows.ndim != 2 or rows.dtype != np.int8 or scales.dtype != np.float32 or scales.shape != rows.shape[:1]:
        shapes = f"{rows.dtype} {rows.shape} and {scales.dtype} {scales.shape}"
        raise ValueError(f"its rows and scales are {shapes}, not int8 (tokens, width) and float32 (tokens,)")
    vocabulary = tokenizer.get_vocab()
    if (largest := max(vocabulary.values(), default=-1)) >= n_tokens:
        raise ValueError(f"its tokenizer has {n_tokens} tokens, but one with the id {largest}")
    if len(rows) != n_tokens:
        raise ValueError(f"its table has {len(rows)} rows, but its tokenizer {n_tokens} tokens")
    # A sum of this many rows has to be finite as well.
    with np.errstate(over="ignore"):
        broken = np.flatnonzero(~np.isfinite(scales * np.float32(128 * settings.max_length)))
    if len(broken):
        raise ValueError(f"{len(broken)} rows are not finite, the first that of {tokenizer.id_to_token(broken[0])!r}")
    ignored = np.flatnonzero(~(rows.any(axis=1) & (scales != 0)))
    if len(ignored) == len(rows):
        raise ValueError("all rows of its table are zero")
    fingerprint = fingerprint or _compute_fingerprint(tokenizer, rows, scales, settings)
    letters = list_letters(vocabulary)
    return StaticSource(tokenizer, rows, scales, settings, fingerprint, letters.union(ignored.tolist()))


def _compute_fingerprint(tokenizer: Tokenizer, rows: np.ndarray, scales: np.ndarray, settings: EncoderSettings) -> str:
    """Hash everything that determines a vector."""
    digest = hashlib.sha256(f"static {rows.shape}\n".encode())
    digest.update(np.ascontiguousarray(rows).data)
    digest.update(np.ascontiguousarray(scales, dtype="<f4").data)
    digest.update(tokenizer.to_str().encode())
    digest.update(srsly.json_dumps(settings.to_dict(), sort_keys=True).encode())
    return digest.hexdigest()


def write_static(source: StaticSource, folder: Path) -> None:
    """Write all files of the encoder folder but its manifest and its card into an empty folder."""
    table = {"rows": np.array(source.rows), "scales": np.array(source.scales)}
    save_file(table, folder / TABLE_FILE, metadata={"format": "np"})
    (folder / TOKENIZER_FILE).write_text(source.tokenizer.to_str(), encoding="utf8")
    # sentence-transformers has no such step.
    if not source.settings.normalize_writing:
        srsly.write_json(folder / "modules.json", MODULES)


def check_settings(settings: EncoderSettings) -> None:
    """Refuse settings without a meaning for a sum of rows: all but `max_length` and `normalize_writing` are fixed."""
    own: dict[str, Any] = {"max_length": settings.max_length, "normalize_writing": settings.normalize_writing}
    where = " of a static encoder"
    for name, value in EncoderSettings(pooling="mean", **own).to_dict().items():
        if (present := getattr(settings, name)) != value:
            allowed = f"{json.dumps(value)}, because its vectors are means of rows and its tokenizer decides the rest"
            raise ValueError(BAD_SETTING.format(name=name, where=where, value=present, allowed=allowed))


class QuantisedStaticEmbedding:
    """Load a `StaticEmbedding` from a table of 8-bit numbers, for which sentence-transformers has no module. It finds
    this one by the path in the folder's `modules.json`."""

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> Any:
        """Load the module `StaticEmbedding`, whose table is float32, from a folder or the hub."""
        try:
            modules = import_module("sentence_transformers.sentence_transformer.modules")
        except ImportError:  # its place in earlier versions
            modules = import_module("sentence_transformers.models")
        where = {key: value for key, value in kwargs.items() if key in WHERE}
        paths: list[str] = []
        for name in (TABLE_FILE, TOKENIZER_FILE):
            path = modules.StaticEmbedding.load_file_path(model_name_or_path, name, **where)
            if path is None:
                raise FileNotFoundError(MISSING.format(path=f"{model_name_or_path}/{name}"))
            paths.append(path)
        table = load_file(paths[0])
        tokenizer = Tokenizer.from_file(paths[1])
        return modules.StaticEmbedding(tokenizer, embedding_weights=table["rows"] * table["scales"][:, None])
