"""The encoder's state inside a thinc model: weights, tokenizer and the thread-safe way to call them."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from spacy_transformers.data_classes import HFObjects
from spacy_transformers.layers.hf_shim import HFShim
from thinc.api import Model
from thinc.types import Floats2d
from typing_extensions import Self

from ..errors import Errors
from ..forking import limit_threads
from ..text import normalize_writing
from ..types import Precision
from .device import AUTO, check_device, resolve_device
from .folder import AnySource, pack_encoder, read_encoder, unpack_encoder
from .forward import TokenIds
from .precision import resolve_precision
from .settings import EncoderSettings
from .static import StaticEncoder
from .transformer import EncoderSource, TransformerEncoder

NameEncoderModel = Model[list[str], Floats2d]
# The tokenizer's results for so many strings fit the cache of a processor, and are enough work for two threads: a third
# faster than 512 (two threads), a fifth faster than all at once (one thread).
TOKENISED_AT_ONCE = 2048


# An encoder in memory. It is replaced as a whole, so that no search works with half of two encoders. Both kinds have
# `source`, `backend`, `special_ids`, `width`, `dtype` and `encode`, and nothing else asks which of them it is.
LoadedEncoder = TransformerEncoder | StaticEncoder


class EncoderShim(HFShim):
    """Encode strings with the transformer or the static encoder that it holds.

    The class extends HFShim, whose storage other libraries know. It replaces HFShim's prediction, which switches the
    module between training and evaluation mode and so gives random vectors when two threads predict at once, and its
    serialisation, which pickles tensors and tolerates missing ones.

    requested (dict[str, Any]): Settings that override those of the encoder's folder; None values do not.
    precision (str): "fp32", "bf16" or "auto" (bf16 where the processor computes in it). A static encoder is always
        float32.
    kind (str | None): The only kind of encoder to load, "static" or "transformer"; None for all.
    device (str): Where to compute: "cpu", "cuda", "cuda:1", "mps", or "auto"; see `resolve_device`. A static encoder
        computes on the CPU.
    RAISES (ValueError): If the device's name has no meaning.
    """

    def __init__(
        self,
        requested: dict[str, Any],
        precision: Precision = "auto",
        kind: str | None = None,
        device: str = AUTO,
    ) -> None:
        super().__init__(HFObjects(None, None, None, {}, {}), grad_scaler_config={"enabled": False})
        self.requested = requested
        self.precision = precision
        self.kind = kind
        self.device_name = check_device(device)
        self._loaded: LoadedEncoder | None = None

    @property
    def is_loaded(self) -> bool:
        """Tell whether there are weights.

        RETURNS (bool): False before `load`.
        """
        return self._loaded is not None

    @property
    def content(self) -> AnySource:
        """Return the encoder as read, of whichever kind.

        RETURNS (EncoderSource | StaticSource): What an encoder folder holds.
        RAISES (ValueError): If no encoder has been loaded yet.
        """
        return self._in_memory.source

    @property
    def source(self) -> EncoderSource:
        """Return the transformer as read, for training and for what else needs its weights.

        RETURNS (EncoderSource): Weights, tokenizer, settings, fingerprint.
        RAISES (ValueError): If no encoder has been loaded yet, or it has no transformer.
        """
        content = self.content
        if not isinstance(content, EncoderSource):
            raise ValueError(Errors.E217.format(expected=EncoderSource.kind, found=content.kind))
        return content

    @property
    def _in_memory(self) -> LoadedEncoder:
        if self._loaded is None:
            raise ValueError(Errors.E220)
        return self._loaded

    @property
    def settings(self) -> EncoderSettings:
        """Return the settings in force.

        RETURNS (EncoderSettings): The settings.
        """
        return self.content.settings

    @property
    def fingerprint(self) -> str:
        """Return the hash of everything that decides a vector.

        RETURNS (str): SHA-256, hexadecimal.
        """
        return self.content.fingerprint

    @property
    def width(self) -> int:
        """Return the width of the vectors.

        RETURNS (int): The transformer's hidden size, or the width of the table.
        """
        return self._in_memory.width

    @property
    def dtype(self) -> Any:
        """Return the precision that strings are encoded in.

        RETURNS (dtype): float32 or bfloat16.
        """
        return resolve_precision(self.precision, torch.device("cpu")) if self._loaded is None else self._loaded.dtype

    def load(self, name: str | Path, *, revision: str | None = None) -> None:
        """Load an encoder from a folder or from the hub.

        name (str | Path): Folder or hub name.
        revision (str | None): Branch, tag or commit on the hub.
        RAISES (OSError): If there is no such encoder, or its files are damaged.
        RAISES (ValueError): If it is of another kind than the architecture takes, cannot give the vectors asked for, or
            there is no such device.
        """
        self.set_source(read_encoder(name, revision=revision, requested=self.requested, kind=self.kind))

    def set_source(self, source: AnySource) -> None:
        """Replace the encoder and prepare its copy for prediction.

        source (EncoderSource | StaticSource): The encoder.
        RAISES (ValueError): If it is of another kind than the architecture takes, or there is no such device.
        """
        if self.kind not in (None, source.kind):
            raise ValueError(Errors.E217.format(expected=self.kind, found=source.kind))
        limit_threads()
        loaded = source.prepare(self.precision, resolve_device(self.device_name))
        # For libraries that know HFShim. The encoder itself reads what it needs from one attribute.
        self._hfmodel = source.as_hf_objects()
        self._model = self._hfmodel.transformer
        self._loaded = loaded

    def unloaded(self) -> Self:
        """Make an encoder with the same requests and no weights.

        RETURNS (EncoderShim): The new one.
        """
        return type(self)(dict(self.requested), self.precision, self.kind, self.device_name)

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
        if loaded.source.settings.normalize_writing:
            texts = [normalize_writing(text) for text in texts]
        if loaded.source.settings.lower_case:
            texts = [text.lower() for text in texts]
        encode, blocks = loaded.backend.encode_batch_fast, range(0, len(texts), TOKENISED_AT_ONCE)
        return [found.ids for start in blocks for found in encode(list(texts[start : start + TOKENISED_AT_ONCE]))]

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
        RAISES (TypeError): If they are a single string or an iterator.
        """
        # A single string would be taken for a list of its characters.
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Sized):
            raise TypeError(Errors.E441.format(function="encode", what="strings", found=f"{texts!r:.80} was given"))
        encoder = self.fixed()
        distinct = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        vectors = encoder.encode_tokens(encoder.tokenize(list(distinct)), batch_size=batch_size)
        return vectors[[distinct[text] for text in texts]]

    def encode_tokens(self, tokens: Sequence[TokenIds], *, batch_size: int = 256) -> np.ndarray:
        """Encode tokenised strings.

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
        """Move the copy used for prediction. A static encoder stays where it is.

        device_type (str): "cpu", "gpu" or "mps".
        device_id (int): Number of the device.
        """
        name = {"gpu": f"cuda:{device_id}"}.get(device_type, device_type)
        if self._loaded is not None:
            self._loaded = self._loaded.source.prepare(self.precision, torch.device(name))

    def to_bytes(self) -> bytes:
        """Pack the encoder folder, which is empty if no encoder is loaded.

        RETURNS (bytes): The packed folder.
        """
        return pack_encoder(None if self._loaded is None else self.content)

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
