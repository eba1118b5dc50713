"""CODER++: names beside those that are nearest to them at the time (Zeng et al., BioNLP 2022)."""

from .run import train_coder_plusplus
from .settings import CoderPlusPlusSettings, make_coder_plusplus_settings, read_coder_plusplus_settings

__all__ = [
    "CoderPlusPlusSettings",
    "make_coder_plusplus_settings",
    "read_coder_plusplus_settings",
    "train_coder_plusplus",
]
