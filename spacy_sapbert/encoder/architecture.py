"""The registered architectures `spacy-sapbert.NameEncoder.v1` and `spacy-sapbert.StaticEncoder.v1`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors
from ..settings import explain_unknown, with_settings
from ..types import Precision
from .device import AUTO
from .settings import EncoderSettings
from .shim import EncoderShim, NameEncoderModel, get_encoder
from .static import StaticSource


@with_settings(EncoderSettings, optional=True)
def build_name_encoder_v1(*, precision: Precision = "auto", device: str = AUTO, **requested: Any) -> NameEncoderModel:
    """Build a model from strings to unit vectors; its weights come at `initialize` or from a saved pipeline.

    Settings that are None come from the encoder folder, its sentence-transformers metadata or the defaults of
    `EncoderSettings`. A saved pipeline keeps its settings.

    precision (str): "fp32", "bf16", or "auto" for bf16 where the processor computes in it.
    device (str): "cpu", "cuda", "cuda:1", "mps", or "auto" for the device that spaCy uses.
    **requested (Any): Settings of `EncoderSettings`.
    RETURNS (Model[list[str], Floats2d]): A model whose output has the shape (n, width), float32, L2-normalised.
    RAISES (ValueError): If a setting is unknown, or the name of the device has no meaning.
    """
    for name in set(requested).difference(EncoderSettings.model_fields):
        raise ValueError(explain_unknown(EncoderSettings, name, "the name encoder"))
    return make_model(EncoderShim(requested, precision, device=device))


def build_static_encoder_v1(max_length: int | None = None, normalize_writing: bool | None = None) -> NameEncoderModel:
    """Build a model from strings to unit vectors that takes static encoders only.

    max_length (int | None): Tokens kept; None for the encoder folder's.
    normalize_writing (bool | None): Write Greek letters out, and unify dashes, quotes, ligatures and compatibility
        forms; None for the encoder folder's.
    RETURNS (Model[list[str], Floats2d]): A model whose output has the shape (n, width), float32, L2-normalised.
    """
    return make_model(
        EncoderShim({"max_length": max_length, "normalize_writing": normalize_writing}, "fp32", StaticSource.kind)
    )


def make_model(encoder: EncoderShim) -> NameEncoderModel:
    """Make a model of an encoder.

    encoder (EncoderShim): The encoder.
    RETURNS (Model[list[str], Floats2d]): The model.
    """
    return Model("name_encoder", forward, shims=[encoder])


def forward(
    model: NameEncoderModel, names: list[str], is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], list[str]]]:
    """Encode strings. The encoder is trained outside of spaCy's loop, so there is no gradient.

    model (Model): The encoder.
    names (list[str]): The strings.
    is_train (bool): Has no influence: dropout stays off.
    RETURNS (tuple[Floats2d, Callable]): Vectors, and a callback that refuses.
    """

    def backprop(d_vectors: Floats2d) -> list[str]:
        raise NotImplementedError(Errors.E221)

    return model.ops.asarray2f(cast(Floats2d, get_encoder(model).encode(names))), backprop
