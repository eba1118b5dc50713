"""The settings that decide a name's vector, apart from the weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_args

from ..errors import Errors
from ..types import Pooling


@dataclass(frozen=True)
class EncoderSettings:
    """How a string becomes a vector. Part of the saved encoder and of its fingerprint.

    pooling (str): "cls" (last hidden state of the first token, before any pooler: SapBERT),
        "mean" (over the real tokens), "mean_all_tok" (over the padded length, as the published
        SapBERT mean-token checkpoint was used) or "pooler" (BERT's pooler output: released CODER code).
    max_length (int): Tokens kept, special tokens included. 25 is SapBERT's (NAACL 2021, section 3).
    lower_case (bool): Lower-case the text before tokenisation, whatever the tokenizer does.
    pad_to_length (Optional[int]): Pad every string to this many tokens; None pads within a batch only.
    attention_mask (bool): Keep padding out of the attention. False needs `pad_to_length`; the released
        CODER checkpoints were trained so, at 32.
    """

    pooling: Pooling = "cls"
    max_length: int = 25
    lower_case: bool = False
    pad_to_length: int | None = None
    attention_mask: bool = True

    def __post_init__(self) -> None:
        if self.pooling not in get_args(Pooling):
            raise ValueError(Errors.E201.format(value=self.pooling, allowed=", ".join(get_args(Pooling))))
        if self.max_length < 3:
            raise ValueError(Errors.E202.format(value=self.max_length))
        if self.pooling == "mean_all_tok" and self.pad_to_length is None:
            # The mean runs over the padding, so its length has to be a constant.
            object.__setattr__(self, "pad_to_length", self.max_length)
        if self.pad_to_length is not None and self.pad_to_length < self.max_length:
            raise ValueError(Errors.E203.format(pad=self.pad_to_length, length=self.max_length))
        if not self.attention_mask and self.pad_to_length is None:
            raise ValueError(Errors.E204)

    def override(self, requested: dict[str, Any]) -> EncoderSettings:
        """Return these settings with the requested ones put over them.

        requested (dict): Setting names and values; None leaves a setting as it is.
        RETURNS (EncoderSettings): The result, validated.
        """
        return replace(self, **{name: value for name, value in requested.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data.

        RETURNS (dict): Setting names and values.
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> EncoderSettings:
        """Read settings that `to_dict` has made.

        values (dict): Setting names and values.
        RETURNS (EncoderSettings): The settings.
        RAISES (ValueError): If a name is not a setting: the file is from a newer version.
        """
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(Errors.E205.format(names=", ".join(unknown)))
        return cls(**values)
