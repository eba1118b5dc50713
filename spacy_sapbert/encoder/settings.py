"""The settings that determine a name's vector together with the weights."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator
from typing_extensions import Self

from ..errors import Errors
from ..settings import Settings
from ..types import Pooling

# The manifest of an encoder folder, with its settings.
ENCODER_FILE = "name_encoder.json"


class EncoderSettings(Settings):
    """How a string becomes a vector. Part of the saved encoder and of its fingerprint."""

    pooling: Pooling = Field(
        default="cls",
        description='What becomes the vector: the last hidden state of the first token, before any pooler ("cls": '
        'SapBERT); the mean over the real tokens ("mean"), or over the padded length ("mean_all_tok": as the '
        'published SapBERT mean-token checkpoint was used); or BERT\'s pooler output ("pooler": released CODER code).',
    )
    max_length: int = Field(
        default=25,
        ge=3,
        le=100_000,
        description="Tokens kept, special tokens included. 25 is SapBERT's (NAACL 2021, section 3).",
    )
    lower_case: bool = Field(
        default=False, description="Lower-case the text before tokenisation, whatever the tokenizer does."
    )
    normalize_writing: bool = Field(
        default=False,
        description="Write Greek letters out before tokenisation, and unify dashes, quotes, ligatures and "
        "compatibility forms.",
    )
    pad_to_length: int | None = Field(
        default=None, description="Pad every string to this many tokens; null pads within a batch only."
    )
    attention_mask: bool = Field(
        default=True,
        description="Keep padding out of the attention. False needs `pad_to_length`; the released CODER checkpoints "
        "were trained so, at 32.",
    )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data, as encoder folders and fingerprints have them.

        RETURNS (dict[str, Any]): Values by name. A setting that earlier versions do not know is left out where it has
            its default, so that their folders and fingerprints stay the same.
        """
        values = super().to_dict()
        if not self.normalize_writing:
            del values["normalize_writing"]
        return values

    @model_validator(mode="before")
    @classmethod
    def _pad_for_mean(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("pooling") == "mean_all_tok" and values.get("pad_to_length") is None:
            # The mean runs over the padding, so its length has to be a constant.
            return {**values, "pad_to_length": values.get("max_length", cls.model_fields["max_length"].default)}
        return values

    @model_validator(mode="after")
    def _check_padding(self) -> Self:
        if self.pad_to_length is not None and self.pad_to_length < self.max_length:
            raise ValueError(Errors.E203.format(pad=self.pad_to_length, length=self.max_length))
        if not self.attention_mask and self.pad_to_length is None:
            raise ValueError(Errors.E204)
        return self


def read_settings(values: dict[str, Any]) -> EncoderSettings:
    """Read the settings of an encoder folder.

    values (dict[str, Any]): The settings as `to_dict` returned them.
    RETURNS (EncoderSettings): The settings.
    RAISES (ValueError): If a name is not a setting: the file is from a newer version.
    """
    unknown = sorted(set(values) - set(EncoderSettings.model_fields))
    if unknown:
        raise ValueError(Errors.E205.format(names=", ".join(unknown)))
    return EncoderSettings.read(values, "the encoder")
