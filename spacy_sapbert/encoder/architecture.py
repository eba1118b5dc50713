"""The registered architecture `spacy-sapbert.NameEncoder.v1`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors
from ..types import Pooling, Precision
from .shim import EncoderShim

if TYPE_CHECKING:
    from ..types import NameEncoderModel


def build_name_encoder_v1(
    pooling: Pooling | None = None,
    max_length: int | None = None,
    lower_case: bool | None = None,
    pad_to_length: int | None = None,
    attention_mask: bool | None = None,
    precision: Precision = "auto",
) -> NameEncoderModel:
    """Build a model from strings to unit vectors; its weights come at `initialize` or from a saved pipeline.

    All settings but the precision belong to the vectors: None takes them from the encoder folder (or its
    sentence-transformers metadata, or the defaults of `EncoderSettings`), and a saved pipeline keeps its own.

    pooling (Optional[str]): "cls", "mean", "mean_all_tok" or "pooler".
    max_length (Optional[int]): Tokens kept, special tokens included.
    lower_case (Optional[bool]): Lower-case before tokenisation.
    pad_to_length (Optional[int]): Pad every string to this many tokens.
    attention_mask (Optional[bool]): False lets padding be attended to, as the released CODER checkpoints need.
    precision (str): "fp32", "bf16" or "auto".
    RETURNS (Model[List[str], Floats2d]): Output of shape (n, width), float32, L2-normalised.
    """
    requested = {
        "pooling": pooling,
        "max_length": max_length,
        "lower_case": lower_case,
        "pad_to_length": pad_to_length,
        "attention_mask": attention_mask,
    }
    return Model("name_encoder", forward, shims=[EncoderShim(requested, precision)])


def forward(
    model: NameEncoderModel, names: list[str], is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], list[str]]]:
    """Encode strings. The encoder is trained outside of spaCy's loop, so there is no gradient.

    model (Model): The encoder.
    names (List[str]): The strings.
    is_train (bool): Has no influence: dropout stays off.
    RETURNS (Tuple[Floats2d, Callable]): Vectors, and a callback that refuses.
    """

    def backprop(d_vectors: Floats2d) -> list[str]:
        raise NotImplementedError(Errors.E221)

    return model.ops.asarray2f(cast(Floats2d, get_encoder(model).encode(names))), backprop


def get_encoder(model: NameEncoderModel) -> EncoderShim:
    """Return the part of the model that holds the weights.

    model (Model): A model built by `build_name_encoder_v1`.
    RETURNS (EncoderShim): Its shim.
    RAISES (ValueError): If it is another kind of model.
    """
    if not model.shims or not isinstance(model.shims[0], EncoderShim):
        raise ValueError(Errors.E222.format(name=model.name))
    return cast(EncoderShim, model.shims[0])
