"""The settings that determine a name's vector together with the weights, the device, and the bundled encoder."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from ..errors import BAD_SETTING
from ..settings import Settings

# The manifest of an encoder folder, with its settings.
ENCODER_FILE = "name_encoder.json"
# The kinds of encoders. An adapted one is a transformer with a bottleneck adapter.
TRANSFORMER = "transformer"
STATIC = "static"
ADAPTED = "bottleneck"
# How weights of a transformer are stored that were rounded to 8 bits.
INT8 = "int8"
Pooling = Literal["cls", "mean", "mean_all_tok", "pooler"]
Precision = Literal["auto", "fp32", "bf16"]
# The device that spaCy uses.
AUTO = "auto"
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?|mps")
# The encoder that comes with the package: data without code. A wheel that is installed is a folder.
FOLDER = Path(str(files("spacy_sapbert"))) / "bundled" / "encoder"


class EncoderSettings(Settings):
    """How a string becomes a vector. Part of the saved encoder and of its fingerprint."""

    pooling: Pooling = Field(
        default="cls",
        description='What becomes the vector: the last hidden state of the first token, before any pooler ("cls": '
        'SapBERT); the mean over the real tokens ("mean"), or over the padded length ("mean_all_tok": as the '
        'published SapBERT mean-token checkpoint was used); or BERT\'s pooler output ("pooler": released CODER code).',
    )
    max_length: int = Field(
        default=25, ge=3, le=100_000, description="Tokens kept, special ones included; 25 is SapBERT's."
    )
    lower_case: bool = Field(default=False, description="Lower-case the text before it is tokenized.")
    normalize_writing: bool = Field(
        default=False, description="Write Greek letters out, and unify dashes, quotes, ligatures and such."
    )
    pad_to_length: int | None = Field(default=None, description="Pad every string to this length; null: to its batch.")
    attention_mask: bool = Field(
        default=True, description="Leave padding out of attention. False, as CODER was trained, needs `pad_to_length`."
    )

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
            raise ValueError(f"pad_to_length is {self.pad_to_length}, less than max_length, which is {self.max_length}")
        if not self.attention_mask and self.pad_to_length is None:
            raise ValueError(
                "attention_mask is off, so pad_to_length has to be set, or a string's vector would depend on its "
                "batch. The released CODER was trained with 32"
            )
        return self


def check_device(name: str) -> str:
    """Check the form of a device's name. The device may be on another machine: a pipeline can be made for it here."""
    if not isinstance(name, str) or not _DEVICE.fullmatch(name):
        allowed = "auto, cpu, cuda, mps, or a GPU by its number, such as cuda:1"
        raise ValueError(BAD_SETTING.format(name="device", where="", value=name, allowed=allowed))
    return name


def require_transformers(what: str) -> None:
    """Check that what computes with transformers can be imported. A static encoder needs none of it."""
    try:
        for package in ("torch", "transformers"):
            import_module(package)
    except ImportError as error:
        raise ImportError(
            f"{what} needs torch and transformers ({error}): pip install 'spacy-sapbert[transformers]'"
        ) from error


def find_bundled() -> Path | None:
    """Find the folder of the encoder that a linker gets if it is initialized without one, if it is installed."""
    return FOLDER if (FOLDER / ENCODER_FILE).is_file() else None


def find_installed(name: str | Path) -> Path | None:
    """Find an encoder in an installed package: `bundled` is in this one, and `multilingual` in the folder `encoder` of
    the package `spacy_sapbert_multilingual`, whose code does not run."""
    if name == "bundled":
        return find_bundled()
    spec = find_spec(f"spacy_sapbert_{name}") if str(name).isidentifier() else None
    folders = (Path(place) / "encoder" for place in (spec.submodule_search_locations if spec else None) or ())
    installed = next((folder for folder in folders if (folder / ENCODER_FILE).is_file()), None)
    if installed is None and name == "multilingual":  # No model of the hub has this name.
        raise ModuleNotFoundError(
            "The encoder 'multilingual' needs the package spacy-sapbert-multilingual. In a checkout, `python -m spacy "
            "project run package projects/multilingual_encoder` builds its wheel; install that."
        )
    return installed
