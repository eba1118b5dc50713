"""Read a transformer from a folder or from the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

from transformers import AutoModel, AutoTokenizer
from transformers.modeling_utils import PreTrainedModel
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from ..errors import Errors
from ..forking import free_in_children
from .settings import EncoderSettings
from .transformer import EncoderSource, compute_fingerprint

# While transformers loads a model, it changes how torch makes modules in all threads. Two threads that loaded at once
# would get models without weights, as would every later one.
LOADING = free_in_children(Lock())
PICKLED = (
    "its weights are pickled (pytorch_model.bin), and pickles can run any code. Convert those that you trust to "
    "model.safetensors, as the documentation shows under Encoders, Pickled weights."
)


def read_transformer(
    name: str | Path, revision: str | None, subfolder: str, settings: EncoderSettings, fingerprint: str | None
) -> EncoderSource:
    """Read a transformer.

    name (str | Path): A folder or a hub name.
    revision (str | None): Branch, tag or commit on the hub.
    subfolder (str): Where it is in the folder.
    settings (EncoderSettings): The settings in force.
    fingerprint (str | None): The fingerprint, if the settings are those of the folder; None computes it.
    RETURNS (EncoderSource): The encoder.
    RAISES (OSError): If there is no such encoder, or its files are damaged.
    RAISES (ValueError): If the encoder cannot give the vectors asked for.
    """
    transformer, tokenizer = _load(name, revision, subfolder, settings)
    _check_length(transformer, tokenizer, settings, name)
    fingerprint = fingerprint or compute_fingerprint(transformer, tokenizer, settings)
    return EncoderSource(transformer, tokenizer, settings, fingerprint, _read_vocabulary(tokenizer))


def _load(
    name: str | Path, revision: str | None, subfolder: str, settings: EncoderSettings
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load weights and tokenizer, and refuse weights that would be left at random values."""
    with LOADING:
        transformer, tokenizer, info = _from_pretrained(name, revision, subfolder)
    missing = [key for key in info["missing_keys"] if not key.startswith("pooler.")]
    if missing:
        raise OSError(Errors.E211.format(name=name, n=len(missing), keys=", ".join(missing[:5])))
    if settings.pooling != "pooler":
        transformer.register_module("pooler", None)
    elif info["missing_keys"] or getattr(transformer, "pooler", None) is None:
        raise ValueError(Errors.E212.format(name=name))
    if not tokenizer.is_fast:
        raise ValueError(Errors.E213.format(name=name, tokenizer=type(tokenizer).__name__))
    transformer.config._name_or_path = ""  # do not publish the path on the builder's machine
    return transformer.eval().requires_grad_(False), tokenizer


def _from_pretrained(
    name: str | Path, revision: str | None, subfolder: str
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast, dict[str, Any]]:
    """Let transformers load a model and its tokenizer, and tell what the weights lack."""
    verbosity = transformers_logging.get_verbosity()
    # transformers logs missing weights. They are errors below, where they matter.
    transformers_logging.set_verbosity(transformers_logging.ERROR)
    # Neither code nor pickles of a model are run. Unset, transformers asks on a terminal whether to run its code.
    where: dict[str, Any] = {"revision": revision, "subfolder": subfolder, "trust_remote_code": False}
    try:
        # Eager attention is the fastest on the CPU for strings of ten tokens.
        transformer, info = AutoModel.from_pretrained(
            str(name),
            torch_dtype="auto",
            attn_implementation="eager",
            output_loading_info=True,
            use_safetensors=True,
            **where,
        )
        tokenizer = AutoTokenizer.from_pretrained(str(name), use_fast=True, **where)
    except Exception as error:  # damaged weights and tokenizers make their libraries raise nearly anything
        reason = PICKLED if _has_only_pickles(Path(name) / subfolder) else error
        raise OSError(Errors.E210.format(name=name, reason=reason)) from error
    finally:
        transformers_logging.set_verbosity(verbosity)
    return transformer, tokenizer, info


def _has_only_pickles(folder: Path) -> bool:
    return any(folder.glob("pytorch_model*.bin*")) and not any(folder.glob("*.safetensors"))


def _read_vocabulary(tokenizer: PreTrainedTokenizerFast) -> bytes | None:
    """Read the file that the tokenizer would copy when saved. Other tokenizers know no such path."""
    path = getattr(tokenizer, "vocab_file", None)
    return Path(path).read_bytes() if path and Path(path).is_file() else None


def _check_length(
    transformer: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    settings: EncoderSettings,
    name: str | Path,
) -> None:
    """Refuse lengths beyond the position embeddings, which would raise an index error in the forward pass."""
    positions = getattr(transformer.config, "max_position_embeddings", None)
    if positions is None:
        return
    table = getattr(getattr(transformer, "embeddings", None), "position_embeddings", None)
    padding_id = getattr(table, "padding_idx", None)
    if padding_id is not None:
        positions -= padding_id + 1  # RoBERTa and its kin count positions from behind the padding id
    length = settings.pad_to_length or settings.max_length
    limit = min(positions, tokenizer.model_max_length)
    if length > limit:
        raise ValueError(Errors.E214.format(name=name, length=length, limit=limit))
