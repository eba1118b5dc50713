"""Load an encoder from the `[initialize]` block of a config."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .shim import NameEncoderModel, get_encoder

EncoderLoader = Callable[[NameEncoderModel], Any]


def make_huggingface_loader(name: str, revision: str | None = None) -> EncoderLoader:
    """Configure a loader, registered as `spacy-sapbert.HuggingFaceEncoder.v1`.

    name (str): A local folder or a name on the Hugging Face hub.
    revision (str | None): Branch, tag or commit on the hub.
    RETURNS (Callable[[Model], None]): Loads weights, tokenizer and settings into a name encoder.
    """
    return partial(_load, name=name, revision=revision)


def _load(model: NameEncoderModel, *, name: str, revision: str | None = None) -> None:
    """Load weights, tokenizer and settings into a name encoder.

    model (Model): A model built by `spacy-sapbert.NameEncoder.v1`.
    name (str): A local folder or a name on the Hugging Face hub.
    revision (str | None): Branch, tag or commit on the hub.
    """
    get_encoder(model).load(name, revision=revision)
