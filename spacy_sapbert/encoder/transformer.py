"""An encoder that is a transformer: as read from a folder, and ready to encode."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import srsly
import torch
from spacy_transformers.data_classes import HFObjects
from tokenizers import Tokenizer

from .forward import TokenIds, forward, normalise
from .precision import resolve_precision
from .sentence_transformers import write_metadata
from .settings import EncoderSettings

if TYPE_CHECKING:
    from transformers.modeling_utils import PreTrainedModel
    from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

    from ..types import Precision


@dataclass(frozen=True)
class EncoderSource:
    """A transformer as read from a folder or a hub: weights in their own precision, tokenizer, settings.

    transformer (PreTrainedModel): In evaluation mode. Its pooler is removed unless the pooling needs it.
    tokenizer (PreTrainedTokenizerFast): The tokenizer.
    settings (EncoderSettings): The settings in force.
    fingerprint (str): SHA-256 over weights, vocabulary and settings: equal fingerprints, equal vectors.
    vocabulary (bytes | None): The file that a slow tokenizer is made of, where the fast one can only copy it
        (SentencePiece: XLM-R, ALBERT, DeBERTa). Kept because the folder it came from may be gone when it is saved.
    card (bytes | None): The folder's README.md, which is saved with the encoder.
    """

    transformer: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    settings: EncoderSettings
    fingerprint: str
    vocabulary: bytes | None = None
    card: bytes | None = None
    kind: ClassVar[str] = "transformer"

    def prepare(self, precision: Precision, device: torch.device) -> TransformerEncoder:
        """Prepare the encoder for use.

        precision (str): "fp32", "bf16" or "auto".
        device (device): Where to compute.
        RETURNS (TransformerEncoder): The encoder. The weights as read stay as they are, for saving.
        """
        dtype = resolve_precision(precision, device)
        inference: torch.nn.Module = self.transformer
        if self.transformer.dtype != dtype or self.transformer.device != device:
            inference = copy.deepcopy(inference).to(device=device, dtype=dtype)
        # Truncation is fixed in a copy of the tokenizer: setting it at every call is not safe between threads.
        backend = Tokenizer.from_str(self.tokenizer.backend_tokenizer.to_str())
        backend.no_padding()
        backend.enable_truncation(self.settings.max_length)
        special_ids = frozenset(self.tokenizer.all_special_ids)  # the unknown token is one of them
        return TransformerEncoder(self, inference.eval(), backend, special_ids, dtype, device)

    def write_files(self, folder: Path) -> None:
        """Write all files of the encoder folder but its manifest.

        folder (Path): The folder.
        """
        self.transformer.save_pretrained(folder, safe_serialization=True)
        self.write_tokenizer(folder)
        write_metadata(folder, self.settings, self.transformer.config.hidden_size)

    def write_tokenizer(self, folder: Path) -> None:
        """Write the files of the tokenizer.

        folder (Path): The folder.
        """
        self.tokenizer.save_pretrained(folder)
        if self.vocabulary is not None:
            (folder / self.tokenizer.vocab_files_names["vocab_file"]).write_bytes(self.vocabulary)

    def as_hf_objects(self) -> HFObjects:
        """Return the parts in the container that spacy-transformers uses.

        RETURNS (HFObjects): Tokenizer and transformer.
        """
        return HFObjects(self.tokenizer, self.transformer, None, {}, {})


class TransformerEncoder(NamedTuple):
    """A transformer, ready to encode.

    source (EncoderSource): The encoder as read.
    inference (Module): The weights in the precision and on the device of the forward pass.
    backend (Tokenizer): The tokenizer.
    special_ids (frozenset[int]): Special, padding and unknown tokens.
    dtype (dtype): The precision.
    device (device): Where to compute.
    """

    source: EncoderSource
    inference: torch.nn.Module
    backend: Tokenizer
    special_ids: frozenset[int]
    dtype: torch.dtype
    device: torch.device

    @property
    def width(self) -> int:
        """Return the width of the vectors.

        RETURNS (int): The transformer's hidden size.
        """
        return int(self.source.transformer.config.hidden_size)

    def encode(self, tokens: Sequence[TokenIds], batch_size: int, *, normalised: bool) -> np.ndarray:
        """Encode tokenised strings, sorted by length, so that few batches need padding.

        tokens (Sequence[Sequence[int]]): Token ids of each string.
        batch_size (int): Strings in one forward pass.
        normalised (bool): Whether to scale the vectors to unit length.
        RETURNS (ndarray): Shape (n, width), float32.
        """
        vectors = np.empty((len(tokens), self.width), dtype=np.float32)
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


def compute_fingerprint(
    transformer: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, settings: EncoderSettings
) -> str:
    """Hash everything that determines a vector.

    transformer (PreTrainedModel): The weights.
    tokenizer (PreTrainedTokenizerFast): The vocabulary and its rules.
    settings (EncoderSettings): Pooling, length, casing, padding.
    RETURNS (str): SHA-256, hexadecimal.
    """
    digest = hashlib.sha256()
    for key, tensor in sorted(transformer.state_dict().items()):
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    digest.update(tokenizer.backend_tokenizer.to_str().encode())
    digest.update(srsly.json_dumps(settings.to_dict(), sort_keys=True).encode())
    return digest.hexdigest()
