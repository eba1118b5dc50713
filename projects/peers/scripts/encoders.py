"""The encoders of a run, which several systems share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from training.encoders.bases import find_base

if TYPE_CHECKING:
    from spacy_sapbert.encoder.settings import Precision
    from spacy_sapbert.encoder.shim import EncoderShim

PACKAGES = ("spacy-sapbert", "torch", "transformers", "tokenizers", "scann", "scikit-learn", "scipy", "numpy")


def load_encoder(name: str, precision: Precision) -> EncoderShim:
    """Load an encoder in a precision.

    name (str): A folder, a short name or a hub name; empty for the small one from a Python package.
    precision (str): "fp32", "bf16" or "auto".
    RETURNS (EncoderShim): The encoder.
    """
    from spacy_sapbert.encoder.shim import EncoderShim

    base = find_base(name)
    assert base.name is not None
    encoder = EncoderShim({"pooling": base.pooling, "lower_case": base.lower_case}, precision)
    encoder.load(base.name)
    return encoder


def describe_encoder(encoder: EncoderShim) -> dict[str, Any]:
    """Tell what decides an encoder's vectors.

    encoder (EncoderShim): The encoder.
    RETURNS (dict): Its fingerprint, pooling, length and precision.
    """
    return {
        "fingerprint": encoder.fingerprint,
        "pooling": encoder.settings.pooling,
        "max_length": encoder.settings.max_length,
        "precision": str(encoder.dtype).removeprefix("torch."),
    }
