"""An encoder that is a transformer with a bottleneck adapter, which can't be merged into the transformer's weights.

Its folder has the transformer in `base/` and the adapter in `adapter/`, each as its library writes it, so that
`AutoModel` doesn't read the transformer alone by mistake.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import srsly
import torch
from safetensors.torch import load_file
from transformers.modeling_utils import PreTrainedModel

from ..compat import import_adapters
from ..errors import Errors
from .sentence_transformers import find_needed
from .settings import EncoderSettings
from .transformer import EncoderSource, compute_fingerprint
from .transformer_folder import LOADING, read_transformer

BASE_FOLDER, ADAPTER_FOLDER = "base", "adapter"
CONFIG_FILE, WEIGHTS_FILE = f"{ADAPTER_FOLDER}/adapter_config.json", f"{ADAPTER_FOLDER}/adapter.safetensors"
# The library's second name of the word embeddings.
ALIAS = "prompt_tuning."
LOGGER = "adapters.model_mixin"


@dataclass(frozen=True)
class AdaptedSource(EncoderSource):
    """A transformer with a bottleneck adapter. See `EncoderSource`."""

    kind: ClassVar[str] = "bottleneck"

    def write_files(self, folder: Path) -> None:
        """Write transformer, tokenizer and adapter. See `EncoderSource.write_files`."""
        transformer: Any = self.transformer
        (name,) = transformer.active_adapters.flatten()
        transformer.save_adapter(str(folder / ADAPTER_FOLDER), name, use_safetensors=True)
        own = load_file(folder / WEIGHTS_FILE)
        weights = transformer.state_dict().items()
        base = {key: tensor for key, tensor in weights if key not in own and not key.startswith(ALIAS)}
        # Not the library's own method, which would describe the adapter in the transformer's config.
        PreTrainedModel.save_pretrained(transformer, folder / BASE_FOLDER, state_dict=base, safe_serialization=True)
        self.write_tokenizer(folder / BASE_FOLDER)


def is_adapted(transformer: torch.nn.Module) -> bool:
    """Tell whether a transformer has an adapter.

    transformer (Module): A Hugging Face transformer.
    RETURNS (bool): Whether the library `adapters` has changed it.
    """
    return hasattr(transformer, "adapters_config")


def read_adapted(
    name: str | Path, revision: str | None, settings: EncoderSettings, fingerprint: str | None
) -> AdaptedSource:
    """Read a transformer with an adapter.

    name (str | Path): A folder or a hub name.
    revision (str | None): Branch, tag or commit on the hub.
    settings (EncoderSettings): The settings in force.
    fingerprint (str | None): The fingerprint, if the settings are those of the folder; None computes it.
    RETURNS (AdaptedSource): The encoder.
    RAISES (OSError): If there is no such encoder, or its files are damaged.
    RAISES (ImportError): If the package `adapters` is missing.
    """
    adapters = import_adapters()
    # The fingerprint of the transformer alone is of no use.
    base = read_transformer(name, revision, BASE_FOLDER, settings, fingerprint or "unknown")
    config, weights = (find_needed(name, filename, revision) for filename in (CONFIG_FILE, WEIGHTS_FILE))
    transformer: Any = base.transformer
    known, dtype = set(transformer.state_dict()), transformer.dtype
    try:
        described, tensors = srsly.read_json(config), load_file(weights)
        with LOADING, _without_warnings():
            adapters.init(transformer)
            transformer.add_adapter(described["name"], config=described["config"], set_active=True)
        needed = {key for key in transformer.state_dict() if key not in known and not key.startswith(ALIAS)}
        if missing := sorted(needed - set(tensors)):
            raise OSError(Errors.E211.format(name=name, n=len(missing), keys=", ".join(missing[:5])))
        transformer.load_state_dict({key: tensors[key] for key in needed}, strict=False)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise OSError(Errors.E210.format(name=name, reason=f"its adapter is damaged ({error!r})")) from error
    transformer.to(dtype).eval().requires_grad_(False)
    values = {field.name: getattr(base, field.name) for field in fields(base)}
    found = fingerprint or compute_fingerprint(transformer, base.tokenizer, settings)
    return AdaptedSource(**{**values, "fingerprint": found})


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence the library, which warns that an adapter is not active before it has activated it."""
    logger = logging.getLogger(LOGGER)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
