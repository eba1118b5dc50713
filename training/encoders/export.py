"""From trained weights to an encoder folder that the linker, `AutoModel` and `SentenceTransformer` load alike."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from spacy_sapbert.encoder import ENCODER_FILE, EncoderShim, EncoderSource, write_encoder
from spacy_sapbert.encoder.folder import compute_fingerprint
from spacy_sapbert.files import fill_folder

from .card import CARD_FILE

# Tells sentence-transformers how to pool; there only if it can.
MODULES_FILE = "modules.json"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def as_encoder(transformer: torch.nn.Module, base: EncoderShim, device: torch.device | None = None) -> EncoderShim:
    """Make an encoder of the present weights. Later steps leave it unchanged.

    transformer (torch.nn.Module): The weights.
    base (EncoderShim): The encoder they come from, for tokenizer, settings and precision.
    device (torch.device | None): Where the encoder computes; None for the processor.
    RETURNS (EncoderShim): The encoder.
    """
    frozen: Any = copy.deepcopy(transformer).cpu().eval().requires_grad_(False)
    encoder = EncoderShim({}, base.precision)
    fingerprint = compute_fingerprint(frozen, base.source.tokenizer, base.settings)
    encoder.set_source(replace(base.source, transformer=frozen, fingerprint=fingerprint))
    if device is not None and device.type != "cpu":
        encoder.to_device("gpu" if device.type == "cuda" else device.type, device.index or 0)
    return encoder


def finish_encoder(
    transformer: torch.nn.Module, base: EncoderShim, *, base_share: float, dtype: str = "fp32"
) -> EncoderShim:
    """Make the encoder to export: averaged with the base, and rounded.

    transformer (torch.nn.Module): The trained weights.
    base (EncoderShim): The encoder that training started from.
    base_share (float): Share of the base's weights, 0 to 1.
    dtype (str): "fp32" or "bf16".
    RETURNS (EncoderShim): The encoder, with the fingerprint of what is stored.
    """
    final = average_weights(transformer, base.source.transformer, base_share)
    return as_encoder(final.to(DTYPES[dtype]), base)


def average_weights(trained: torch.nn.Module, base: torch.nn.Module, base_share: float) -> torch.nn.Module:
    """Average trained weights with those that training started from, which keeps more of what they knew (Wortsman et
    al., CVPR 2022).

    trained (torch.nn.Module): The trained model.
    base (torch.nn.Module): The model it was trained from.
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


def write_encoder_folder(source: EncoderSource, folder: str | Path, card: str) -> None:
    """Write an encoder folder with a card.

    source (EncoderSource): The encoder.
    folder (str | Path): Where to; changed when all is written.
    card (str): Markdown.
    """
    with fill_folder(Path(folder), last=ENCODER_FILE) as temporary:
        (temporary / CARD_FILE).write_text(card, encoding="utf8")
        write_encoder(source, temporary)
        if not (temporary / MODULES_FILE).is_file():
            # Of an encoder that was here before, with another pooling.
            (Path(folder) / MODULES_FILE).unlink(missing_ok=True)
