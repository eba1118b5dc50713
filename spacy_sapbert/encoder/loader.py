"""The loader for the `[initialize]` block."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .architecture import get_encoder

if TYPE_CHECKING:
    from ..types import EncoderLoader, NameEncoderModel


def make_huggingface_loader(name: str, revision: str | None = None) -> EncoderLoader:
    """Configure a loader, registered as `spacy-sapbert.HuggingFaceEncoder.v1`.

    name (str): A local folder or a name on the Hugging Face hub.
    revision (Optional[str]): Branch, tag or commit on the hub.
    RETURNS (Callable[[Model], None]): Loads weights, tokenizer and settings into a name encoder.
    """
    return partial(load_encoder, name=name, revision=revision)


def load_encoder(model: NameEncoderModel, *, name: str, revision: str | None = None) -> None:
    """Load weights, tokenizer and settings into a name encoder.

    model (Model): A model built by `spacy-sapbert.NameEncoder.v1`.
    name (str): A local folder or a name on the Hugging Face hub.
    revision (Optional[str]): Branch, tag or commit on the hub.
    """
    get_encoder(model).load(name, revision=revision)
