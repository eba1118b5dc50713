"""The encoder folder, which training writes, the plugin reads and a saved pipeline contains.

It is a Hugging Face model folder (`AutoModel`, `AutoTokenizer`) and also a sentence-transformers folder where
that library supports the pooling, plus `name_encoder.json` with the settings, the fingerprint and the files' hashes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import srsly
import torch
from spacy_transformers.data_classes import HFObjects
from transformers import AutoModel, AutoTokenizer
from transformers.modeling_utils import PreTrainedModel
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from ..errors import Errors
from ..files import pack_with, read_manifest, unpack_with, write_manifest
from ..forking import free_in_children
from ..replacing import finish_replacing
from .sentence_transformers import find_file, read_metadata, write_metadata
from .settings import EncoderSettings, read_settings

# While transformers loads a model, it changes how torch makes modules in all threads. Two threads that loaded at once
# would get models without weights, as would every later one.
LOADING = free_in_children(Lock())
ENCODER_FILE = "name_encoder.json"
FORMAT_VERSION = 1
# What transformers reads in such a folder, if it is there. Others, such as a README, may be added by hand.
USED = (
    *("config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json", "adapter_*"),
    *("tokenizer_config.json*", "special_tokens_map.json*", "added_tokens.json*", "vocab.*", "merges.txt*", "*.model"),
)
PICKLED = (
    "its weights are pickled (pytorch_model.bin), and pickles can run any code. Convert those that you trust to "
    "model.safetensors, as the documentation shows under Encoders, Pickled weights."
)


@dataclass(frozen=True)
class EncoderSource:
    """An encoder as read from a folder or a hub: weights in their own precision, tokenizer, settings.

    transformer (PreTrainedModel): In evaluation mode. Its pooler is removed unless the pooling needs it.
    tokenizer (PreTrainedTokenizerFast): The tokenizer.
    settings (EncoderSettings): The settings in force.
    fingerprint (str): SHA-256 over weights, vocabulary and settings: equal fingerprints, equal vectors.
    vocabulary (bytes | None): The file that a slow tokenizer is made of, where the fast one can only copy it
        (SentencePiece: XLM-R, ALBERT, DeBERTa). Kept because the folder it came from may be gone when it is saved.
    """

    transformer: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    settings: EncoderSettings
    fingerprint: str
    vocabulary: bytes | None = None

    def as_hf_objects(self) -> HFObjects:
        """Return the parts in the container that spacy-transformers uses.

        RETURNS (HFObjects): Tokenizer and transformer.
        """
        return HFObjects(self.tokenizer, self.transformer, None, {}, {})


def read_encoder(
    name: str | Path, *, revision: str | None = None, requested: dict[str, Any] | None = None
) -> EncoderSource:
    """Read an encoder from a local folder or, if there is no such folder, from the Hugging Face hub.

    Settings come from `name_encoder.json` if present, else from sentence-transformers' pooling metadata, else the
    defaults hold ([CLS] before the pooler, 25 tokens). The requested settings are put over them.

    name (str | Path): A folder or a hub name.
    revision (str | None): Branch, tag or commit on the hub.
    requested (dict[str, Any] | None): Settings that override the folder's; None values do not.
    RETURNS (EncoderSource): The encoder.
    RAISES (OSError): If there is no such encoder, or its files are damaged.
    RAISES (ValueError): If the encoder cannot give the vectors asked for.
    """
    saved: dict[str, Any] = {}
    subfolder, where = "", f"the encoder '{name}'"
    is_local = Path(name).is_dir()
    if is_local:
        # Before its files are looked for, which would otherwise be missing or old.
        finish_replacing(Path(name))
    manifest = find_file(name, ENCODER_FILE, revision)
    if manifest is not None:
        # Only the manifest is downloaded from the hub, so its other files cannot be checked.
        saved = read_manifest(manifest, FORMAT_VERSION, used=USED, check_files=is_local)
        base = read_settings(saved["settings"])
    else:
        subfolder, found = read_metadata(name, revision)
        base = EncoderSettings().changed(where, **found)
    given = {key: value for key, value in (requested or {}).items() if value is not None}
    settings = base.changed(where, **given)
    transformer, tokenizer = _load(name, revision, subfolder, settings)
    _check_length(transformer, tokenizer, settings, name)
    fingerprint = saved.get("fingerprint") if is_local and settings == base else None
    fingerprint = fingerprint or compute_fingerprint(transformer, tokenizer, settings)
    return EncoderSource(transformer, tokenizer, settings, fingerprint, _read_vocabulary(tokenizer))


def write_encoder(source: EncoderSource, folder: str | Path) -> None:
    """Write an encoder folder.

    source (EncoderSource): The encoder.
    folder (str | Path): The folder; created if missing. Other files in it are left alone.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    source.transformer.save_pretrained(folder, safe_serialization=True)
    source.tokenizer.save_pretrained(folder)
    if source.vocabulary is not None:
        (folder / source.tokenizer.vocab_files_names["vocab_file"]).write_bytes(source.vocabulary)
    write_metadata(folder, source.settings, source.transformer.config.hidden_size)
    data = {"fingerprint": source.fingerprint, "settings": source.settings.to_dict()}
    write_manifest(folder / ENCODER_FILE, FORMAT_VERSION, data)
    # safetensors makes files that only their owner can read, and a pipeline is there to be shared.
    for weights in folder.glob("*.safetensors"):
        weights.chmod((folder / ENCODER_FILE).stat().st_mode)


def pack_encoder(source: EncoderSource | None) -> bytes:
    """Pack an encoder folder into bytes.

    source (EncoderSource | None): The encoder; None gives an empty folder.
    RETURNS (bytes): The packed folder.
    """

    def write(folder: Path) -> None:
        if source is not None:
            write_encoder(source, folder)

    return pack_with(write)


def unpack_encoder(data: bytes, *, requested: dict[str, Any] | None = None) -> EncoderSource | None:
    """Read an encoder that `pack_encoder` packed.

    data (bytes): The packed folder.
    requested (dict[str, Any] | None): Settings that override those of the folder; None values do not.
    RETURNS (EncoderSource | None): The encoder, or None if the folder is empty.
    RAISES (ValueError): If the bytes are damaged.
    """

    def read(folder: Path) -> EncoderSource | None:
        return read_encoder(folder, requested=requested) if any(folder.iterdir()) else None

    return unpack_with(read, data)


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
