"""Make a static encoder of a table of token vectors, and write its folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from spacy_sapbert.encoder.folder import write_encoder
from spacy_sapbert.encoder.settings import ENCODER_FILE, EncoderSettings
from spacy_sapbert.encoder.static import StaticSource, make_source
from spacy_sapbert.files import fill_folder

from ..errors import Errors

# The numbers of a row go from minus this to this.
LARGEST = 127


def quantise(tokenizer: Tokenizer, table: np.ndarray, *, max_length: int = 25) -> StaticSource:
    """Make a static encoder with a table of 8-bit numbers and a scale for each row.

    Rows of special tokens and of the unknown token become zero, so such tokens do not count.

    tokenizer (Tokenizer): The tokenizer, which is not changed. Casing is its normalizer's.
    table (ndarray): Row n is the vector of token n, times its weight if tokens have weights; shape (tokens, width).
    max_length (int): Tokens kept of a string.
    RETURNS (StaticSource): The encoder.
    RAISES (ValueError): If the tokenizer and the table do not fit together, a number is not finite, or all are zero.
    """
    if sorted(tokenizer.get_vocab().values()) != list(range(tokenizer.get_vocab_size())):
        raise ValueError(Errors.E218.format(reason="the ids of the tokens have gaps"))
    settings = EncoderSettings.read({"pooling": "mean", "max_length": max_length}, "a static encoder")
    with np.errstate(over="ignore"):
        table = np.array(table, dtype=np.float32)
    if table.ndim != 2:
        raise ValueError(Errors.E218.format(reason=f"the table has the shape {table.shape}"))
    broken = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(broken):
        token = tokenizer.id_to_token(int(broken[0]))
        raise ValueError(Errors.E218.format(reason=f"{len(broken)} rows are not finite, the first that of {token!r}"))
    ignored = [token for token in _find_ignored(tokenizer) if token < len(table)]
    table[ignored] = 0
    scales = np.abs(table).max(axis=1, initial=0) / np.float32(LARGEST)
    # Scales of the smallest numbers are rounded so much that rows would be too large.
    rows = np.rint(table / np.where(scales > 0, scales, 1)[:, None]).clip(-LARGEST, LARGEST).astype(np.int8)
    try:
        return make_source(Tokenizer.from_str(tokenizer.to_str()), rows, scales, settings, None)
    except ValueError as error:
        raise ValueError(Errors.E218.format(reason=error)) from error


def _find_ignored(tokenizer: Tokenizer) -> list[int]:
    """Find the tokens that say nothing of a string: special ones and the unknown one."""
    ignored = [token for token, added in tokenizer.get_added_tokens_decoder().items() if added.special]
    unknown = getattr(tokenizer.model, "unk_token", None)
    if unknown is not None and (token := tokenizer.token_to_id(unknown)) is not None:
        ignored.append(token)
    return ignored


def write_static_encoder(
    folder: str | Path, tokenizer: Tokenizer, table: np.ndarray, *, max_length: int = 25
) -> StaticSource:
    """Write the folder of a static encoder, completely or not at all. See `quantise`.

    Other files in the folder are left alone.
    """
    source = quantise(tokenizer, table, max_length=max_length)
    with fill_folder(Path(folder), last=ENCODER_FILE) as temporary:
        write_encoder(source, temporary)
    return source
