"""Export trained weights to an encoder folder for the linker, `AutoModel` and `SentenceTransformer`."""

from __future__ import annotations

import copy
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from spacy_sapbert.encoder.folder import CARD_FILE, AnySource, write_encoder
from spacy_sapbert.encoder.settings import ENCODER_FILE
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import EncoderSource, compute_fingerprint
from spacy_sapbert.files import fill_folder

from ..errors import Errors

# The pooling for sentence-transformers, written only if it supports the pooling.
MODULES_FILE = "modules.json"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def as_encoder(transformer: torch.nn.Module, base: EncoderShim) -> EncoderShim:
    """Copy the current weights into an encoder.

    transformer (torch.nn.Module): The weights.
    base (EncoderShim): The base encoder, for tokenizer, settings, precision and device.
    RETURNS (EncoderShim): The encoder.
    """
    frozen: Any = copy.deepcopy(transformer).cpu().eval().requires_grad_(False)
    encoder = EncoderShim({}, base.precision, device=base.device_name)
    fingerprint = compute_fingerprint(frozen, base.source.tokenizer, base.settings)
    source = base.source
    # Without the base's card, which does not describe these weights.
    encoder.set_source(EncoderSource(frozen, source.tokenizer, source.settings, fingerprint, source.vocabulary))
    return encoder


def finish_encoder(
    transformer: torch.nn.Module, base: EncoderShim, *, base_share: float, dtype: str = "fp32"
) -> EncoderShim:
    """Make the encoder to export: averaged with the base, and rounded to the stored type.

    transformer (torch.nn.Module): The trained weights.
    base (EncoderShim): The base encoder.
    base_share (float): Share of the base's weights, 0 to 1.
    dtype (str): "fp32" or "bf16".
    RETURNS (EncoderShim): The encoder, with the fingerprint of the stored weights.
    RAISES (FloatingPointError): If a weight is infinite or NaN.
    """
    final = average_weights(transformer, base.source.transformer, base_share).to(DTYPES[dtype])
    broken = [name for name, weights in final.named_parameters() if not torch.isfinite(weights).all()]
    if broken:
        raise FloatingPointError(Errors.E635.format(n=len(broken), name=broken[0]))
    return as_encoder(final, base)


def check_dtype(dtype: str, dtypes: Collection[str] = DTYPES) -> None:
    """Check the type of stored weights.

    dtype (str): The type.
    dtypes (Collection[str]): The types to choose from.
    RAISES (ValueError): If it is none of them.
    """
    if dtype not in dtypes:
        raise ValueError(Errors.E620.format(what="dtype", value=dtype, allowed=", ".join(dtypes)))


def average_weights(trained: torch.nn.Module, base: torch.nn.Module, base_share: float) -> torch.nn.Module:
    """Average trained weights with those of the base, which preserves accuracy outside the training data (Wortsman et
    al., CVPR 2022).

    trained (torch.nn.Module): The trained model.
    base (torch.nn.Module): The base model.
    base_share (float): Share of the base, 0 to 1.
    RETURNS (torch.nn.Module): A new model.
    """
    mixed = copy.deepcopy(trained).cpu()
    if base_share:
        start = dict(base.state_dict())
        with torch.no_grad():
            for name, tensor in mixed.state_dict().items():
                if tensor.is_floating_point():
                    tensor.lerp_(start[name].to(tensor), base_share)
    return mixed


def write_encoder_folder(source: AnySource, folder: str | Path, card: str) -> None:
    """Write an encoder folder with a card.

    source (EncoderSource | StaticSource): The encoder.
    folder (str | Path): The folder, replaced only after everything is written.
    card (str): Markdown.
    """
    with fill_folder(Path(folder), last=ENCODER_FILE) as temporary:
        (temporary / CARD_FILE).write_text(card, encoding="utf8")
        write_encoder(source, temporary)
        if not (temporary / MODULES_FILE).is_file():
            # Remove the file of an earlier encoder with another pooling.
            (Path(folder) / MODULES_FILE).unlink(missing_ok=True)
