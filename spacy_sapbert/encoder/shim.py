"""The encoder's state inside a thinc model: weights, tokenizer and the thread-safe way to call them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from spacy_transformers.data_classes import HFObjects
from spacy_transformers.layers.hf_shim import HFShim
from thinc.api import Model, get_torch_default_device
from thinc.types import Floats2d
from tokenizers import Tokenizer
from typing_extensions import Self

from ..errors import Errors
from ..forking import limit_threads
from ..types import Precision
from .folder import EncoderSource, pack_encoder, read_encoder, unpack_encoder
from .forward import TokenIds, forward, normalise
from .precision import resolve_precision
from .settings import EncoderSettings

NameEncoderModel = Model[list[str], Floats2d]


class _Loaded(NamedTuple):
    """An encoder in memory. It is replaced as a whole, so that no search works with half of two encoders."""

    source: EncoderSource
    inference: torch.nn.Module
    backend: Tokenizer
    special_ids: frozenset[int]
    device: torch.device

    def encode(self, tokens: Sequence[TokenIds], batch_size: int, *, normalised: bool) -> np.ndarray:
        """Encode tokenised strings, sorted by length."""
        vectors = np.empty((len(tokens), int(self.source.transformer.config.hidden_size)), dtype=np.float32)
        order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            vectors[rows] = self._forward([tokens[row] for row in rows], normalised=normalised)
        return vectors

    def _forward(self, batch: Sequence[TokenIds], *, normalised: bool) -> np.ndarray:
        pad_id = self.source.tokenizer.pad_token_id or 0
        with torch.inference_mode():
            pooled = forward(self.inference, batch, self.source.settings, pad_id=pad_id, device=self.device)
            return (normalise(pooled) if normalised else pooled).cpu().numpy()


class EncoderShim(HFShim):
    """Encode strings with the weights and the tokenizer that it holds.

    The class extends HFShim, whose storage other libraries know. It replaces HFShim's prediction, which switches the
    module between training and evaluation mode and so gives random vectors when two threads predict at once, and its
    serialisation, which pickles tensors and tolerates missing ones.

    requested (dict[str, Any]): Settings that override those of the encoder's folder; None values do not.
    precision (str): "fp32", "bf16" or "auto" (bf16 where the processor computes in it).
    """

    def __init__(self, requested: dict[str, Any], precision: Precision = "auto") -> None:
        super().__init__(HFObjects(None, None, None, {}, {}), grad_scaler_config={"enabled": False})
        self.requested = requested
        self.precision = precision
        self._loaded: _Loaded | None = None

    @property
    def is_loaded(self) -> bool:
        """Tell whether there are weights.

        RETURNS (bool): False before `load`.
        """
        return self._loaded is not None

    @property
    def source(self) -> EncoderSource:
        """Return the encoder as read.

        RETURNS (EncoderSource): Weights, tokenizer, settings, fingerprint.
        RAISES (ValueError): If no encoder has been loaded yet.
        """
        return self._in_memory.source

    @property
    def _in_memory(self) -> _Loaded:
        if self._loaded is None:
            raise ValueError(Errors.E220)
        return self._loaded

    @property
    def settings(self) -> EncoderSettings:
        """Return the settings in force.

        RETURNS (EncoderSettings): The settings.
        """
        return self.source.settings

    @property
    def fingerprint(self) -> str:
        """Return the hash of everything that decides a vector.

        RETURNS (str): SHA-256, hexadecimal.
        """
        return self.source.fingerprint

    @property
    def width(self) -> int:
        """Return the width of the vectors.

        RETURNS (int): The transformer's hidden size.
        """
        return int(self.source.transformer.config.hidden_size)

    @property
    def dtype(self) -> torch.dtype:
        """Return the precision that strings are encoded in.

        RETURNS (dtype): float32 or bfloat16.
        """
        device = torch.device("cpu") if self._loaded is None else self._loaded.device
        return resolve_precision(self.precision, device)

    def load(self, name: str | Path, *, revision: str | None = None) -> None:
        """Load an encoder from a folder or from the hub.

        name (str | Path): Folder or hub name.
        revision (str | None): Branch, tag or commit on the hub.
        """
        self.set_source(read_encoder(name, revision=revision, requested=self.requested))

    def set_source(self, source: EncoderSource) -> None:
        """Replace the encoder and prepare its copy for prediction.

        source (EncoderSource): The encoder.
        """
        limit_threads()
        loaded = _load(source, self.precision, get_torch_default_device())
        # For libraries that know HFShim. The encoder itself reads what it needs from one attribute.
        self._hfmodel = source.as_hf_objects()
        self._model = source.transformer
        self._loaded = loaded

    def unloaded(self) -> Self:
        """Make an encoder with the same requests and no weights.

        RETURNS (EncoderShim): The new one.
        """
        return type(self)(dict(self.requested), self.precision)

    def fixed(self) -> Self:
        """Make a view of the encoder that stays the same if this one loads other weights or is moved.

        RETURNS (EncoderShim): The view, which shares the weights.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn strings into token ids, truncated, special tokens included.

        texts (Sequence[str]): The strings.
        RETURNS (list[list[int]]): Token ids of each. Strings with equal ids have equal vectors.
        """
        loaded = self._in_memory
        if loaded.source.settings.lower_case:
            texts = [text.lower() for text in texts]
        return [encoding.ids for encoding in loaded.backend.encode_batch_fast(list(texts))] if texts else []

    def is_informative(self, ids: TokenIds) -> bool:
        """Tell whether a string has a token that the vocabulary knows.

        All strings in an unknown script become the unknown token, so they share one vector.

        ids (Sequence[int]): Token ids.
        RETURNS (bool): False if all are special, padding or unknown tokens.
        """
        special_ids = self._in_memory.special_ids
        return any(token not in special_ids for token in ids)

    def encode(self, texts: Sequence[str], *, batch_size: int = 256) -> np.ndarray:
        """Encode strings. Equal strings are encoded once.

        texts (Sequence[str]): The strings.
        batch_size (int): Strings in one forward pass.
        RETURNS (ndarray): Shape (n, width), float32, L2-normalised.
        """
        encoder = self.fixed()
        distinct = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        vectors = encoder.encode_tokens(encoder.tokenize(list(distinct)), batch_size=batch_size)
        return vectors[[distinct[text] for text in texts]]

    def encode_tokens(self, tokens: Sequence[TokenIds], *, batch_size: int = 256) -> np.ndarray:
        """Encode tokenised strings.

        Strings are sorted by length first, so that few batches need padding.

        tokens (Sequence[Sequence[int]]): Token ids of each string.
        batch_size (int): Strings in one forward pass.
        RETURNS (ndarray): Shape (n, width), float32, L2-normalised.
        """
        return self._in_memory.encode(tokens, batch_size, normalised=True)

    def encode_unscaled(self, texts: Sequence[str], *, batch_size: int = 256) -> np.ndarray:
        """Encode strings without scaling, for measurements by inner product. Indexes need unit vectors: see `encode`.

        texts (Sequence[str]): The strings.
        batch_size (int): Strings in one forward pass.
        RETURNS (ndarray): Shape (n, width), float32, as pooled.
        """
        encoder = self.fixed()
        return encoder._in_memory.encode(encoder.tokenize(texts), batch_size, normalised=False)

    def to_device(self, device_type: str, device_id: int) -> None:
        """Move the copy used for prediction.

        device_type (str): "cpu", "gpu" or "mps".
        device_id (int): Number of the device.
        """
        name = {"gpu": f"cuda:{device_id}"}.get(device_type, device_type)
        if self._loaded is not None:
            self._loaded = _load(self._loaded.source, self.precision, torch.device(name))

    def to_bytes(self) -> bytes:
        """Pack the encoder folder, which is empty if no encoder is loaded.

        RETURNS (bytes): The packed folder.
        """
        return pack_encoder(None if self._loaded is None else self._loaded.source)

    def from_bytes(self, bytes_data: bytes) -> EncoderShim:
        """Load an encoder that `to_bytes` packed.

        bytes_data (bytes): The packed folder.
        RETURNS (EncoderShim): The shim itself.
        """
        source = unpack_encoder(bytes_data)
        if source is not None:
            self.set_source(source)
        return self

    def __getstate__(self) -> dict[str, Any]:
        emptied = dict.fromkeys(("_model", "_hfmodel", "_loaded"))
        return {**self.__dict__, **emptied, "packed": self.to_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed = state.pop("packed")
        self.__dict__.update(state)
        self.from_bytes(packed)


def get_encoder(model: NameEncoderModel) -> EncoderShim:
    """Return the part of a model that holds the weights.

    model (Model[list[str], Floats2d]): A model built by `build_name_encoder_v1`.
    RETURNS (EncoderShim): Its shim.
    RAISES (ValueError): If it is another kind of model.
    """
    if not model.shims or not isinstance(model.shims[0], EncoderShim):
        raise ValueError(Errors.E222.format(name=model.name))
    return cast(EncoderShim, model.shims[0])


def _make_backend(source: EncoderSource) -> Tokenizer:
    """Copy the fast tokenizer with its truncation fixed: setting it at every call is not safe between threads."""
    backend = Tokenizer.from_str(source.tokenizer.backend_tokenizer.to_str())
    backend.no_padding()
    backend.enable_truncation(source.settings.max_length)
    return backend


def _load(source: EncoderSource, precision: Precision, device: torch.device) -> _Loaded:
    """Prepare an encoder for prediction on a device."""
    dtype = resolve_precision(precision, device)
    inference: torch.nn.Module = source.transformer
    if source.transformer.dtype != dtype or source.transformer.device != device:
        # The weights as read stay as they are, for saving; only the copy is rounded or moved.
        inference = copy.deepcopy(inference).to(device=device, dtype=dtype)
    special_ids = frozenset(source.tokenizer.all_special_ids)  # the unknown token is one of them
    return _Loaded(source, inference.eval(), _make_backend(source), special_ids, device)
