"""An encoder that is a transformer: its device and precision, the forward pass, and the weights. This module and
`transformer_folder` are the only ones of the package that need torch and transformers."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np
import srsly
import torch
from thinc.api import get_torch_default_device
from tokenizers import Tokenizer

from ..errors import BAD_SETTING
from ..ragged import TokenIds
from ..text import list_letters
from .settings import ADAPTED, AUTO, TRANSFORMER, EncoderSettings, Pooling, Precision, check_device

if TYPE_CHECKING:
    from transformers.modeling_utils import PreTrainedModel
    from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

FASTEST_FIRST = ("cuda", "mps", "cpu")
# What "auto" means in this process: the last of these devices or, if there is none, the device that spaCy uses.
_chosen: list[torch.device] = []


def list_devices() -> list[str]:
    """List the devices of this machine that PyTorch can use; "cuda" stands for the GPU that is current."""
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return ["cpu", *(["cuda", *gpus] if gpus else []), *(["mps"] if torch.backends.mps.is_available() else [])]


def find_fastest() -> str:
    """Find the device that is likely to compute fastest."""
    there = list_devices()
    return next(name for name in FASTEST_FIRST if name in there)


def resolve_device(name: str) -> torch.device:
    """Find the device that a setting names. "auto" is the device of `use_device` or, without it, the one that spaCy
    uses: the CPU, or the GPU after `spacy.require_gpu()`."""
    if check_device(name) == AUTO:
        return find_chosen() or get_torch_default_device()
    there = list_devices()
    if name not in there:
        raise ValueError(
            f"There is no device '{name}'. PyTorch {torch.__version__} can use: {', '.join(there)}. Set `device` to "
            "one of these, or to 'auto'; for a saved pipeline, with `spacy.load(path, "
            "config={'components.sapbert_linker.model.device': 'auto'})`. If "
            "there is such a GPU, its driver is missing, or PyTorch is a build for the CPU."
        )
    return torch.device(name)


def find_chosen() -> torch.device | None:
    """Find the device that `use_device` has set, if any."""
    return _chosen[-1] if _chosen else None


@contextmanager
def use_device(device: torch.device) -> Iterator[None]:
    """Let "auto" mean a device in this process, for commands that encode."""
    _chosen.append(device)
    try:
        yield
    finally:
        _chosen.pop()


def resolve_precision(precision: Precision, device: torch.device) -> torch.dtype:
    """Choose the data type of the forward pass: for "auto", bf16 where it is not emulated, which would be slower."""
    if precision not in get_args(Precision):
        allowed = f"one of {', '.join(get_args(Precision))}"
        where = " of the encoder"
        raise ValueError(BAD_SETTING.format(name="precision", where=where, value=precision, allowed=allowed))
    if precision == "auto":
        return torch.bfloat16 if _has_bf16(device) else torch.float32
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False


def forward(
    transformer: torch.nn.Module,
    batch: Sequence[TokenIds],
    settings: EncoderSettings,
    *,
    pad_id: int,
    device: torch.device,
) -> torch.Tensor:
    """Pad a batch as its settings say, run the transformer and pool: float32, shape (batch, width), not normalised.
    Training and prediction share this function."""
    longest = settings.pad_to_length or max(len(ids) for ids in batch)
    lengths = np.fromiter((len(ids) for ids in batch), dtype=np.int64, count=len(batch))
    real = np.arange(longest) < lengths[:, None]
    padded_ids = np.full(real.shape, pad_id, dtype=np.int64)
    padded_ids[real] = np.fromiter(chain.from_iterable(batch), dtype=np.int64, count=int(lengths.sum()))
    ids = torch.from_numpy(padded_ids).to(device)
    mask = torch.from_numpy(real.astype(np.int64)).to(device)
    visible = mask if settings.attention_mask else torch.ones_like(mask)
    output = transformer(input_ids=ids, attention_mask=visible)
    return pool(output[0], mask, settings.pooling, getattr(output, "pooler_output", None))


def pool(
    hidden: torch.Tensor, mask: torch.Tensor, pooling: Pooling, pooler_output: torch.Tensor | None = None
) -> torch.Tensor:
    """Reduce the hidden states of each string, shape (batch, length, width), to one vector, in float32."""
    if pooling == "pooler":
        assert pooler_output is not None  # the folder reader refuses such an encoder without a pooler
        return pooler_output.float()
    if pooling == "cls":
        return hidden[:, 0].float()
    if pooling == "mean_all_tok":
        return hidden.float().mean(dim=1)
    weights = mask.unsqueeze(-1).float()
    return (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def normalise(vectors: torch.Tensor) -> torch.Tensor:
    """Scale vectors to unit length, so that inner products are cosines."""
    return torch.nn.functional.normalize(vectors, dim=-1)


@dataclass(frozen=True)
class EncoderSource:
    """A transformer as read from a folder or a hub. The weights are in their own precision, in evaluation mode."""

    transformer: PreTrainedModel  # its pooler is removed unless the pooling needs it
    tokenizer: PreTrainedTokenizerFast
    settings: EncoderSettings
    fingerprint: str  # SHA-256 over weights, vocabulary and settings: equal fingerprints, equal vectors
    # The file that a slow tokenizer is made of, where the fast one can only copy it (SentencePiece: XLM-R, ALBERT,
    # DeBERTa). Kept because the folder it came from may be gone when it is saved.
    vocabulary: bytes | None = None
    card: bytes | None = None  # the folder's README.md, which is saved with the encoder
    threshold: float = 0.0  # the score that a mention's best candidate needs, if the linker's settings don't say
    is_rounded: bool = False  # whether the weights were rounded to 8 bits, and are stored so

    @property
    def kind(self) -> str:
        """The kind of encoder: with or without a bottleneck adapter, which the library `adapters` has added."""
        return ADAPTED if hasattr(self.transformer, "adapters_config") else TRANSFORMER

    def prepare(self, precision: Precision, device: str) -> TransformerEncoder:
        """Prepare the encoder for use on a device. The weights as read stay as they are, for saving."""
        place = resolve_device(device)
        dtype = resolve_precision(precision, place)
        inference: torch.nn.Module = self.transformer
        if self.transformer.dtype != dtype or self.transformer.device != place:
            inference = copy.deepcopy(inference).to(device=place, dtype=dtype)
        # Truncation is fixed in a copy of the tokenizer: setting it at every call is not safe between threads.
        tokenizer = Tokenizer.from_str(self.tokenizer.backend_tokenizer.to_str())
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.settings.max_length)
        # The unknown token is a special one.
        ignored = list_letters(tokenizer.get_vocab()).union(self.tokenizer.all_special_ids)
        return TransformerEncoder(self, inference.eval(), tokenizer, ignored, dtype, place)


class TransformerEncoder(NamedTuple):
    """A transformer, ready to encode."""

    source: EncoderSource
    inference: torch.nn.Module  # the weights in the precision and on the device of the forward pass
    tokenizer: Tokenizer  # truncates, without padding
    ignored: frozenset[int]  # special, padding and unknown tokens, and letters of scripts whose words it does not know
    dtype: torch.dtype
    device: torch.device

    @property
    def width(self) -> int:
        """The transformer's hidden size."""
        return int(self.source.transformer.config.hidden_size)

    def encode(self, tokens: Sequence[TokenIds], batch_size: int, *, normalised: bool) -> np.ndarray:
        """Encode tokenised strings, sorted by length, so that few batches need padding."""
        vectors = np.empty((len(tokens), self.width), dtype=np.float32)
        order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))
        settings = self.source.settings
        pad_id = self.source.tokenizer.pad_token_id or 0
        with torch.inference_mode():
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                batch = [tokens[row] for row in rows]
                pooled = forward(self.inference, batch, settings, pad_id=pad_id, device=self.device)
                if normalised:
                    pooled = normalise(pooled)
                vectors[rows] = pooled.cpu().numpy()
        return vectors


def compute_fingerprint(
    transformer: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, settings: EncoderSettings
) -> str:
    """Hash everything that determines a vector: weights, vocabulary and its rules, settings."""
    digest = hashlib.sha256()
    for key, tensor in sorted(transformer.state_dict().items()):
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    digest.update(tokenizer.backend_tokenizer.to_str().encode())
    digest.update(srsly.json_dumps(settings.to_dict(), sort_keys=True).encode())
    return digest.hexdigest()
