"""The mean of the weights of several encoders, a model soup (Wortsman et al., ICML 2022)."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from spacy_sapbert.encoder.folder import read_encoder
from spacy_sapbert.encoder.settings import TRANSFORMER
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import EncoderSource

from ..errors import Errors
from .averaged_card import Ingredient, write_averaged_card
from .bases import find_encoder
from .card import CardNotes, read_results
from .export import average_weights, check_dtype, finish_encoder, write_encoder_folder

# The library `peft` leaves this file beside the weights that it adds.
ADAPTER_FILE = "adapter_config.json"
# Entries of a transformer's config that change no vector, besides those of dropout.
IRRELEVANT = frozenset({"_name_or_path", "architectures", "torch_dtype", "transformers_version"})


@dataclass(frozen=True)
class Average:
    """An average of encoders.

    encoder (EncoderShim): The encoder, with the fingerprint of the stored weights.
    ingredients (list[Ingredient]): What was averaged.
    """

    encoder: EncoderShim
    ingredients: list[Ingredient]


def average_encoders(
    names: Sequence[str],
    output: str | Path,
    *,
    shares: Sequence[float] | None = None,
    dtype: str = "fp32",
    results: str = "",
    notes: CardNotes | None = None,
) -> Average:
    """Average the weights of encoders, and write an encoder folder. Its card shows only scores of the stored weights.

    names (Sequence[str]): Folders of the encoders, or names as for `find_base`.
    output (str | Path): The encoder folder.
    shares (Sequence[float] | None): The share of each encoder; None for equal ones.
    dtype (str): The type of stored weights, "fp32" or "bf16". The mean is computed in float32.
    results (str): A file with results; see `read_results`.
    notes (CardNotes | None): Facts for the card.
    RETURNS (Average): The encoder and what it was made of.
    RAISES (OSError): If there is no such encoder or file, or it is damaged.
    RAISES (ValueError): If an argument is invalid, or the weights of the encoders do not fit together.
    RAISES (FloatingPointError): If a weight is infinite or NaN.
    """
    check_dtype(dtype)
    checked = check_shares(shares, len(names))
    encoders = [_load(name) for name in names]
    for name, encoder in zip(names[1:], encoders[1:], strict=True):
        if reason := _find_difference(encoders[0].source, encoder.source):
            raise ValueError(Errors.E671.format(encoders=f"{names[0]!r} and {name!r}", reason=reason))
    mean = average_transformers([encoder.source.transformer for encoder in encoders], checked)
    averaged = finish_encoder(mean, encoders[0], base_share=0.0, dtype=dtype)
    notes = notes or CardNotes()
    if results:
        notes = replace(notes, results=read_results(results, averaged.fingerprint))
    ingredients = [
        Ingredient(name, share, encoder.source) for name, share, encoder in zip(names, checked, encoders, strict=True)
    ]
    write_encoder_folder(averaged.content, output, write_averaged_card(ingredients, averaged, dtype, notes))
    return Average(averaged, ingredients)


def check_shares(shares: Sequence[float] | None, n: int) -> list[float]:
    """Check the shares of encoders.

    shares (Sequence[float] | None): The shares; None for equal ones.
    n (int): The number of encoders.
    RETURNS (list[float]): The share of each encoder.
    RAISES (ValueError): If there are less than two encoders, or these are not their shares.
    """
    if n < 2:
        raise ValueError(Errors.E671.format(encoders=f"{n} encoders", reason="a mean takes two or more"))
    if shares is None:
        return [1.0 / n] * n
    # Not the opposite conditions: comparisons with NaN are false.
    if not (len(shares) == n and all(share >= 0 for share in shares) and math.isclose(sum(shares), 1, abs_tol=1e-6)):
        raise ValueError(Errors.E673.format(shares=",".join(f"{share:g}" for share in shares), n=n))
    return list(shares)


def average_transformers(transformers: Sequence[torch.nn.Module], shares: Sequence[float]) -> torch.nn.Module:
    """Average the weights of transformers in float32.

    transformers (Sequence[torch.nn.Module]): Transformers of one architecture.
    shares (Sequence[float]): The share of each; they sum to 1.
    RETURNS (torch.nn.Module): A new transformer.
    """
    mean, total = copy.deepcopy(transformers[0]).float(), shares[0]
    for transformer, share in zip(transformers[1:], shares[1:], strict=True):
        total += share
        mean = average_weights(mean, transformer, share / total if share else 0.0)
    return mean


def _load(name: str) -> EncoderShim:
    folder = find_encoder(name)
    if (Path(folder) / ADAPTER_FILE).is_file():
        reason = f"it has an adapter ({ADAPTER_FILE}), whose weights are no part of the transformer's"
        raise ValueError(Errors.E671.format(encoders=repr(folder), reason=reason))
    encoder = EncoderShim({}, "fp32", device="cpu")
    try:
        encoder.set_source(read_encoder(folder, kind=TRANSFORMER))
    except ValueError as error:
        raise ValueError(Errors.E671.format(encoders=repr(folder), reason=str(error).rstrip("."))) from error
    return encoder


def _find_difference(first: EncoderSource, other: EncoderSource) -> str:
    """Say why the weights of two encoders do not mean the same; empty if they do."""
    if _write_tokenizer(first) != _write_tokenizer(other):
        return "their vocabularies differ"
    for kind, ours, theirs in (
        ("settings", first.settings.to_dict(), other.settings.to_dict()),
        ("architectures", _describe_architecture(first), _describe_architecture(other)),
    ):
        keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        if keys:
            listed = ", ".join(f"{key} is {ours.get(key)} and {theirs.get(key)}" for key in keys[:3])
            return f"their {kind} differ: {listed}"
    return ""


def _write_tokenizer(source: EncoderSource) -> str:
    backend = Tokenizer.from_str(source.tokenizer.backend_tokenizer.to_str())
    # The settings of the encoder decide on both.
    backend.no_truncation()
    backend.no_padding()
    return str(backend.to_str())


def _describe_architecture(source: EncoderSource) -> dict[str, Any]:
    """List what decides how a transformer computes, and the shapes of its weights."""
    config = source.transformer.config.to_dict()
    shapes = {f"the shape of {key}": tuple(tensor.shape) for key, tensor in source.transformer.state_dict().items()}
    return {key: value for key, value in config.items() if key not in IRRELEVANT and "dropout" not in key} | shapes
