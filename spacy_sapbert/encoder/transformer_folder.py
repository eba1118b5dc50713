"""Read a transformer from a folder or from the Hugging Face hub, and write its folder.

The folder is one of transformers and, where that library supports the pooling, of sentence-transformers. A transformer
with a bottleneck adapter, which can't be merged into its weights, lies in `base/` and the adapter in `adapter/`, each
as its library writes it, so that `AutoModel` doesn't read the transformer alone by mistake.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import srsly
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.configuration_utils import PretrainedConfig
from transformers.modeling_utils import PreTrainedModel
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from ..errors import DAMAGED, MISSING
from ..files import is_inside
from ..forking import free_in_children
from .rounded import ROUNDED_FILE, pack_weights, unpack_weights
from .settings import ADAPTED, ENCODER_FILE, EncoderSettings
from .static import MODULES
from .transformer import EncoderSource, compute_fingerprint

# While transformers loads a model, it changes how torch makes modules in all threads. Two threads that loaded at once
# would get models without weights, as would every later one.
LOADING = free_in_children(Lock())
PICKLED = (
    "its weights are pickled (pytorch_model.bin), and pickles can run any code. Convert those that you trust to "
    "model.safetensors, as the documentation shows under Encoders, Pickled weights."
)
BASE_FOLDER, ADAPTER_FOLDER = "base", "adapter"
CONFIG_FILE = f"{ADAPTER_FOLDER}/adapter_config.json"
WEIGHTS_FILE = f"{ADAPTER_FOLDER}/adapter.safetensors"
# The second name that the library of adapters has for the word embeddings.
ALIAS = "prompt_tuning."
# Modules and poolings of sentence-transformers that a name encoder has as well.
MODULE_FOLDERS = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
POOLING_KEYS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}


def find_file(name: str | Path, filename: str, revision: str | None) -> Path | None:
    """Find a file of a local folder, or fetch it from the Hugging Face hub. None if there is no such file."""
    try:
        path = cached_file(
            str(name),
            filename,
            revision=revision,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except (OSError, ValueError) as error:  # ValueError: a folder that is not there is not a valid hub name either
        hint = "Check the path or the name on the hub, the revision and the network"
        raise OSError(f"can't read an encoder from '{name}': {error}\n{hint}") from error
    return None if path is None else Path(path)


def find_needed(name: str | Path, filename: str, revision: str | None) -> Path:
    """Find a file that an encoder needs. See `find_file`."""
    path = find_file(name, filename, revision)
    if path is None:
        raise FileNotFoundError(MISSING.format(path=f"{name}/{filename}"))
    return path


def read_metadata(name: str | Path, revision: str | None = None) -> tuple[str, dict[str, Any]]:
    """Read a sentence-transformers folder without that library: the transformer's subfolder, and settings, if any.
    `max_seq_length` is ignored, because it is meant for sentences, not for names."""
    modules = _read_json(name, "modules.json", revision)
    if modules is None:
        return "", {}
    try:
        paths = {str(module["type"]).rsplit(".", 1)[-1]: module.get("path", "") for module in modules}
        if outside := [path for path in paths.values() if path and not is_inside(path)]:
            raise ValueError(f"it names {outside[0]!r}, which is not a path in its folder")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OSError(f"can't read an encoder from '{name}': modules.json is damaged ({error!r})") from error
    if any(module["type"] == MODULES[0]["type"] for module in modules):
        # A static encoder whose manifest is missing, or this would not be read.
        raise FileNotFoundError(MISSING.format(path=f"{name}/{ENCODER_FILE}"))
    unknown = [kind for kind in paths if kind not in MODULE_FOLDERS]
    if unknown:
        raise ValueError(
            f"'{name}' is a sentence-transformers folder with modules that a name encoder does not have: "
            f"{', '.join(unknown)}. Use an encoder without them"
        )
    subfolder = paths.get("Transformer", "")
    metadata: dict[str, Any] = {}
    if "Pooling" in paths:
        pooling = _read_json(name, f"{paths['Pooling']}/config.json", revision)
        metadata["pooling"] = _find_pooling(pooling or {}, name)
    prefix = f"{subfolder}/" if subfolder else ""
    transformer = _read_json(name, f"{prefix}sentence_bert_config.json", revision) or {}
    if transformer.get("do_lower_case"):
        metadata["lower_case"] = True
    return subfolder, metadata


def _read_json(name: str | Path, filename: str, revision: str | None) -> Any:
    path = find_file(name, filename, revision)
    try:
        return None if path is None else srsly.read_json(path)
    except ValueError as error:
        raise OSError(DAMAGED.format(path=path, reason=error)) from error


def _find_pooling(config: dict[str, Any], name: str | Path) -> str:
    mode = config.get("pooling_mode")
    active = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    if mode is not None:
        active = [key for key, value in POOLING_KEYS.items() if value == mode] or [str(mode)]
    if len(active) != 1 or active[0] not in POOLING_KEYS:
        raise ValueError(
            f"the sentence-transformers folder '{name}' pools by: {', '.join(active) or 'none'}. It has to be cls or "
            "mean: set `pooling` and remove modules.json from a copy of the folder if you know better"
        )
    return POOLING_KEYS[active[0]]


def read_transformer(
    name: str | Path,
    revision: str | None,
    subfolder: str,
    settings: EncoderSettings,
    fingerprint: str | None,
    *,
    is_rounded: bool = False,
) -> EncoderSource:
    """Read a transformer that lies in a folder or in its subfolder, and whose weights may be in 8 bits. The fingerprint
    is computed where it is None."""
    weights = find_needed(name, ROUNDED_FILE, revision) if is_rounded else None
    with LOADING:
        transformer, tokenizer, info = _from_pretrained(name, revision, subfolder, weights)
    missing = [key for key in info["missing_keys"] if not key.startswith("pooler.")]
    _refuse_missing(name, missing)
    if settings.pooling != "pooler":
        transformer.register_module("pooler", None)
    elif info["missing_keys"] or getattr(transformer, "pooler", None) is None:
        raise ValueError(f"the encoder '{name}' has no trained pooler, so pooling has to be 'cls' or 'mean'")
    if not tokenizer.is_fast:
        raise ValueError(
            f"the encoder '{name}' has only a slow tokenizer ({type(tokenizer).__name__}). Save it with a fast one: "
            "`AutoTokenizer.from_pretrained(..., use_fast=True).save_pretrained(...)`"
        )
    _check_length(transformer, tokenizer, settings, name)
    transformer.config._name_or_path = ""  # do not publish the path on the builder's machine
    transformer.eval().requires_grad_(False)
    fingerprint = fingerprint or compute_fingerprint(transformer, tokenizer, settings)
    # The file that the tokenizer would copy when saved. Other tokenizers know no such path.
    vocabulary = getattr(tokenizer, "vocab_file", None)
    content = Path(vocabulary).read_bytes() if vocabulary and Path(vocabulary).is_file() else None
    return EncoderSource(transformer, tokenizer, settings, fingerprint, content, is_rounded=is_rounded)


def _from_pretrained(
    name: str | Path, revision: str | None, subfolder: str, weights: Path | None
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast, dict[str, Any]]:
    """Let transformers load a model and its tokenizer, and tell what the weights lack, which may be in 8 bits."""
    verbosity = transformers_logging.get_verbosity()
    # transformers logs missing weights. They are errors in `read_transformer`, where they matter.
    transformers_logging.set_verbosity(transformers_logging.ERROR)
    # Neither code nor pickles of a model are run. Unset, transformers asks on a terminal whether to run its code.
    where: dict[str, Any] = {"revision": revision, "subfolder": subfolder, "trust_remote_code": False}
    try:
        if weights is not None:
            transformer, info = _from_rounded(AutoConfig.from_pretrained(str(name), **where), weights)
        else:
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
        raise OSError(f"can't read an encoder from '{name}': {reason}") from error
    finally:
        transformers_logging.set_verbosity(verbosity)
    return transformer, tokenizer, info


def _from_rounded(config: PretrainedConfig, path: Path) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Make a model of weights in 8 bits, and tell what they lack."""
    weights = unpack_weights(load_file(path))
    transformer = AutoModel.from_config(
        config, torch_dtype=torch.float32, attn_implementation="eager", trust_remote_code=False
    )
    missing, unexpected = transformer.load_state_dict(weights, strict=False)
    if unexpected:
        raise ValueError(f"{path.name} holds {unexpected[0]}, which its architecture does not have")
    return transformer, {"missing_keys": missing}


def _has_only_pickles(folder: Path) -> bool:
    return any(folder.glob("pytorch_model*.bin*")) and not any(folder.glob("*.safetensors"))


def _refuse_missing(name: str | Path, keys: list[str]) -> None:
    if keys:
        raise OSError(
            f"the encoder '{name}' lacks {len(keys)} weights ({', '.join(keys[:5])}, ...), which would stay random. "
            "Its config.json probably names another architecture"
        )


def _check_length(
    transformer: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, settings: EncoderSettings, name: str | Path
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
        raise ValueError(
            f"the encoder '{name}' takes {limit} tokens at most, but {length} were asked for: lower max_length or "
            "pad_to_length"
        )


def read_adapted(
    name: str | Path, revision: str | None, settings: EncoderSettings, fingerprint: str | None
) -> EncoderSource:
    """Read a transformer with an adapter. The fingerprint is computed where it is None."""
    try:
        import adapters  # takes seconds
    except ImportError as error:
        raise ImportError(
            f"the encoder has an adapter, which needs the package adapters ({error}): pip install "
            "'spacy-sapbert[adapters]'"
        ) from error
    # The fingerprint of the transformer alone is of no use.
    base = read_transformer(name, revision, BASE_FOLDER, settings, fingerprint or "unknown")
    transformer: Any = base.transformer
    names = set(transformer.state_dict())
    dtype = transformer.dtype
    config, weights = (find_needed(name, filename, revision) for filename in (CONFIG_FILE, WEIGHTS_FILE))
    try:
        described = srsly.read_json(config)
        tensors = load_file(weights)
        # Active from the beginning, or the library would warn that it is not.
        with LOADING, adapters.AdapterSetup(described["name"]):
            adapters.init(transformer)
            transformer.add_adapter(described["name"], config=described["config"], set_active=True)
        needed = {key for key in transformer.state_dict() if key not in names and not key.startswith(ALIAS)}
        _refuse_missing(name, sorted(needed - set(tensors)))
        transformer.load_state_dict({key: tensors[key] for key in needed}, strict=False)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise OSError(f"can't read an encoder from '{name}': its adapter is damaged ({error!r})") from error
    transformer.to(dtype).eval().requires_grad_(False)
    return replace(base, fingerprint=fingerprint or compute_fingerprint(transformer, base.tokenizer, settings))


def write_transformer(source: EncoderSource, folder: Path) -> None:
    """Write all files of the encoder folder but its manifest and its card into an empty folder."""
    if source.kind == ADAPTED:
        _write_adapted(source.transformer, folder)
        _write_tokenizer(source, folder / BASE_FOLDER)
    elif source.is_rounded:
        # Neither weights nor metadata for other libraries, which would take whole numbers for weights.
        source.transformer.config.save_pretrained(folder)
        save_file(pack_weights(source.transformer.state_dict()), folder / ROUNDED_FILE, metadata={"format": "pt"})
        _write_tokenizer(source, folder)
    else:
        source.transformer.save_pretrained(folder, safe_serialization=True)
        _write_tokenizer(source, folder)
        _write_metadata(folder, source.settings, source.transformer.config.hidden_size)


def _write_adapted(transformer: Any, folder: Path) -> None:
    (name,) = transformer.active_adapters.flatten()
    transformer.save_adapter(str(folder / ADAPTER_FOLDER), name, use_safetensors=True)
    own = load_file(folder / WEIGHTS_FILE)
    weights = transformer.state_dict().items()
    base = {key: tensor for key, tensor in weights if key not in own and not key.startswith(ALIAS)}
    # Not the library's own method, which would describe the adapter in the transformer's config.
    PreTrainedModel.save_pretrained(transformer, folder / BASE_FOLDER, state_dict=base, safe_serialization=True)


def _write_tokenizer(source: EncoderSource, folder: Path) -> None:
    source.tokenizer.save_pretrained(folder)
    if source.vocabulary is not None:
        (folder / source.tokenizer.vocab_files_names["vocab_file"]).write_bytes(source.vocabulary)


def _write_metadata(folder: Path, settings: EncoderSettings, width: int) -> None:
    """Write the metadata with which `SentenceTransformer(folder)` gives the same vectors. Poolings, padding rules and a
    writing that sentence-transformers does not support are not written. The library then warns that it uses its default
    pooling."""
    if settings.pooling not in ("cls", "mean") or not settings.attention_mask or settings.normalize_writing:
        return
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(MODULE_FOLDERS.items())
    ]
    srsly.write_json(folder / "modules.json", modules)
    config = {"max_seq_length": settings.max_length, "do_lower_case": settings.lower_case}
    srsly.write_json(folder / "sentence_bert_config.json", config)
    (folder / "1_Pooling").mkdir()
    pooling: dict[str, Any] = {key: mode == settings.pooling for key, mode in POOLING_KEYS.items()}
    srsly.write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **pooling})
