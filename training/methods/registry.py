"""The methods by name: importing this module makes all of them known to configs."""

from __future__ import annotations

from ..engine.method import METHODS, find_method, make_settings, read_settings
from .biosyn.method import BioSyn
from .coder.method import Coder
from .coder_plusplus.method import CoderPlusPlus
from .sapbert import Sapbert
from .static.method import Static

__all__ = [
    "METHODS",
    "BioSyn",
    "Coder",
    "CoderPlusPlus",
    "Sapbert",
    "Static",
    "find_method",
    "make_settings",
    "read_settings",
]
