"""The methods by name: importing this module makes all of them known to configs."""

from __future__ import annotations

from ..engine.method import METHODS, find_method, make_settings, read_settings
from . import sapbert, static  # noqa: F401
from .biosyn import method as biosyn  # noqa: F401
from .coder import method as coder  # noqa: F401

__all__ = ["METHODS", "find_method", "make_settings", "read_settings"]
