"""The commands: `python -m training --help`."""

from . import data, measures, runs
from .application import app

__all__ = ["app", "data", "measures", "runs"]
