"""Encoder folders for the linker, `AutoModel` and `SentenceTransformer`: of trained weights, of means of weights, and
of tables of token vectors.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from tokenizers import Tokenizer

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.rounded import round_weights
from spacy_sapbert.encoder.settings import ADAPTED, INT8, TRANSFORMER, EncoderSettings
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.static import StaticSource, make_source
from spacy_sapbert.encoder.transformer import EncoderSource, compute_fingerprint

from .bases import find_encoder
from .card import NO_NOTES, CardNotes, read_encoder_results, write_averaged_card, write_converted_card

# Of the weights in memory. What is stored in 8 bits is rounded in float32.
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, INT8: torch.float32}
# The library `peft` leaves this file beside the weights that it adds.
ADAPTER_FILE = "adapter_config.json"
# Entries of a transformer's config that change no vector, besides dropout.
IRRELEVANT = frozenset({"_name_or_path", "architectures", "torch_dtype", "transformers_version"})


def finish_encoder(
    transformer: torch.nn.Module, base: EncoderShim, *, base_share: float, dtype: str = "fp32"
) -> EncoderShim:
    """Make the encoder to export: trained weights, averaged with the base's and rounded to the stored type, with the
    tokenizer, settings, precision and device of the base.
    """
    source = base.source
    final: Any = average_weights(transformer, source.transformer, base_share).to(DTYPES[dtype])
    broken = [name for name, weights in final.named_parameters() if not torch.isfinite(weights).all()]
    if broken:
        raise FloatingPointError(
            f"{len(broken)} weights, such as {broken[0]}, have infinite numbers or NaN, so nothing was exported. The "
            "run has diverged: train again in another output folder with a lower learning rate, or export a checkpoint "
            "from before."
        )
    final = final.eval().requires_grad_(False)
    if is_rounded := dtype == INT8:
        round_weights(final)
    encoder = EncoderShim({}, base.precision, device=base.device_name)
    fingerprint = compute_fingerprint(final, source.tokenizer, source.settings)
    # Without the base's card, which does not describe these weights.
    finished = EncoderSource(
        final, source.tokenizer, source.settings, fingerprint, source.vocabulary, is_rounded=is_rounded
    )
    if is_rounded and finished.kind == ADAPTED:
        raise ValueError("An encoder with a bottleneck adapter can't be stored in 8 bits: choose fp32 or bf16.")
    encoder.set_source(finished)
    return encoder


def check_dtype(dtype: str, dtypes: Collection[str] = DTYPES) -> None:
    """Raise a ValueError for an unknown type of stored weights."""
    if dtype not in dtypes:
        raise ValueError(f"Unknown dtype '{dtype}'. Choose one of: {', '.join(dtypes)}.")


def average_weights(trained: torch.nn.Module, base: torch.nn.Module, base_share: float) -> torch.nn.Module:
    """Average trained weights with the base's, which preserves accuracy outside the training data (Wortsman et
    al., CVPR 2022). Both models stay as they are.
    """
    mixed = copy.deepcopy(trained).cpu()
    start = base.state_dict() if base_share else {}
    if base_share and not set(mixed.state_dict()) <= set(start):
        raise ValueError(
            "Weights that a run has added, such as a bottleneck adapter's, can't be averaged with the base, "
            "which does not have them. Export the run with the base share 0."
        )
    with torch.no_grad():
        for name, tensor in mixed.state_dict().items() if base_share else ():
            if tensor.is_floating_point():
                tensor.lerp_(start[name].to(tensor), base_share)
    return mixed


# Means of several encoders, model soups (Wortsman et al., ICML 2022)


def average_encoders(
    names: Sequence[str],
    output: str | Path,
    *,
    shares: Sequence[float] | None = None,
    dtype: str = "fp32",
    results: str = "",
    notes: CardNotes = NO_NOTES,
) -> EncoderShim:
    """Average the weights of encoders, folders or names as for `find_base`, in float32, and write an encoder folder.
    Its card shows only scores of the stored weights, of a file as for `read_encoder_results`.
    """
    check_dtype(dtype)
    checked = check_shares(shares, len(names))
    sources = [_load(name) for name in names]
    for name, source in zip(names[1:], sources[1:], strict=True):
        if reason := _find_difference(sources[0], source):
            raise _refuse_mean(f"{names[0]!r} and {name!r}", reason)
    base = EncoderShim({}, "fp32", device="cpu")
    base.set_source(sources[0])
    mean = average_transformers([source.transformer for source in sources], checked)
    averaged = finish_encoder(mean, base, base_share=0.0, dtype=dtype)
    if results:
        notes = notes._replace(results=read_encoder_results(results, averaged.fingerprint))
    ingredients = list(zip(names, checked, sources, strict=True))
    card = write_averaged_card(ingredients, averaged, dtype, notes)
    # One that they share holds for their mean as well.
    threshold, *others = {source.threshold for source in sources}
    threshold = 0.0 if others else threshold
    write_encoder(replace(averaged.content, card=card.encode("utf8"), threshold=threshold), output)
    return averaged


def convert_encoder(
    name: str, output: str | Path, *, dtype: str = "fp32", results: str = "", notes: CardNotes = NO_NOTES
) -> EncoderShim:
    """Write a transformer encoder with weights of another type. See `average_encoders`."""
    check_dtype(dtype)
    source = cast(EncoderSource, read_encoder(name, kind=TRANSFORMER))
    base = EncoderShim({}, "fp32", device="cpu")
    base.set_source(source)
    converted = finish_encoder(source.transformer, base, base_share=0.0, dtype=dtype)
    if results:
        notes = notes._replace(results=read_encoder_results(results, converted.fingerprint))
    card = write_converted_card(name, source, converted, dtype, notes)
    write_encoder(replace(converted.content, card=card.encode("utf8"), threshold=source.threshold), output)
    return converted


def check_shares(shares: Sequence[float] | None, n: int) -> list[float]:
    """Check the shares of n encoders; None gives equal ones."""
    if n < 2:
        raise _refuse_mean(f"{n} encoders", "a mean takes two or more")
    if shares is None:
        return [1.0 / n] * n
    # Not the opposite conditions: comparisons with NaN are false.
    if not (len(shares) == n and all(share >= 0 for share in shares) and math.isclose(sum(shares), 1, abs_tol=1e-6)):
        listed = ",".join(f"{share:g}" for share in shares)
        raise ValueError(
            f"--shares is {listed!r}, but has to be {n} numbers of 0 or more that sum to 1, one for each encoder, with "
            "commas between them; empty for equal shares."
        )
    return list(shares)


def average_transformers(transformers: Sequence[torch.nn.Module], shares: Sequence[float]) -> torch.nn.Module:
    """Average the weights of transformers of one architecture in float32. The shares sum to 1."""
    mean = copy.deepcopy(transformers[0]).float()
    total = shares[0]
    for transformer, share in zip(transformers[1:], shares[1:], strict=True):
        total += share
        mean = average_weights(mean, transformer, share / total if share else 0.0)
    return mean


def _load(name: str) -> EncoderSource:
    folder = find_encoder(name)
    if (Path(folder) / ADAPTER_FILE).is_file():
        reason = f"it has an adapter ({ADAPTER_FILE}), whose weights are not part of the transformer's"
        raise _refuse_mean(repr(folder), reason)
    try:
        source = read_encoder(folder, kind=TRANSFORMER)
    except ValueError as error:
        raise _refuse_mean(repr(folder), str(error).rstrip(".")) from error
    return cast(EncoderSource, source)


def _refuse_mean(encoders: str, reason: str) -> ValueError:
    return ValueError(
        f"The weights of {encoders} can't be averaged: {reason}. The mean of weights takes transformers of one "
        "architecture with one vocabulary and the same settings, and is of use if they were trained from one base."
    )


def _find_difference(first: EncoderSource, other: EncoderSource) -> str:
    """Say why the weights of two encoders do not mean the same; empty if they do."""
    tokenizers = []
    for source in (first, other):
        backend = Tokenizer.from_str(source.tokenizer.backend_tokenizer.to_str())
        # The settings of the encoder decide on both.
        backend.no_truncation()
        backend.no_padding()
        tokenizers.append(backend.to_str())
    if tokenizers[0] != tokenizers[1]:
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


def _describe_architecture(source: EncoderSource) -> dict[str, Any]:
    """List what decides how a transformer computes, and the shapes of its weights."""
    config = source.transformer.config.to_dict()
    shapes = {f"the shape of {key}": tuple(tensor.shape) for key, tensor in source.transformer.state_dict().items()}
    return {key: value for key, value in config.items() if key not in IRRELEVANT and "dropout" not in key} | shapes


# Static encoders


def quantise(tokenizer: Tokenizer, table: np.ndarray, *, max_length: int = 25) -> StaticSource:
    """Make a static encoder of a table whose row n is the vector of token n: 8-bit numbers, and a scale for each row.
    Rows of special tokens and of the unknown token become zero, so such tokens do not count.
    """
    try:
        return _quantise(tokenizer, table, max_length)
    except ValueError as error:
        raise ValueError(
            f"Can't make a static encoder: {error}. Give a tokenizer and one row of finite numbers for each of its ids."
        ) from error


def _quantise(tokenizer: Tokenizer, table: np.ndarray, max_length: int) -> StaticSource:
    if sorted(tokenizer.get_vocab().values()) != list(range(tokenizer.get_vocab_size())):
        raise ValueError("the ids of the tokens have gaps")
    settings = EncoderSettings.read({"pooling": "mean", "max_length": max_length}, "a static encoder")
    with np.errstate(over="ignore"):
        table = np.array(table, dtype=np.float32)
    if table.ndim != 2:
        raise ValueError(f"the table has the shape {table.shape}")
    broken = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(broken):
        token = tokenizer.id_to_token(int(broken[0]))
        raise ValueError(f"{len(broken)} rows are not finite, the first is the row of {token!r}")
    ignored = [token for token, added in tokenizer.get_added_tokens_decoder().items() if added.special]
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
    ignored += [] if unknown is None else [unknown]
    table[[token for token in ignored if token < len(table)]] = 0
    scales = np.abs(table).max(axis=1, initial=0) / np.float32(127)
    # Scales of the smallest numbers are rounded so much that rows would be too large.
    rows = np.rint(table / np.where(scales > 0, scales, 1)[:, None]).clip(-127, 127).astype(np.int8)
    return make_source(Tokenizer.from_str(tokenizer.to_str()), rows, scales, settings, None)


def set_threshold(folder: str | Path, threshold: float) -> None:
    """Store the score with an encoder that a mention's best candidate needs in linkers that set none; 0 for none."""
    if threshold:
        write_encoder(replace(read_encoder(folder), threshold=threshold), folder)


def write_static_encoder(
    folder: str | Path, tokenizer: Tokenizer, table: np.ndarray, *, max_length: int = 25
) -> StaticSource:
    """Write the folder of a static encoder, completely or not at all. See `quantise`."""
    source = quantise(tokenizer, table, max_length=max_length)
    write_encoder(source, folder)
    return source
