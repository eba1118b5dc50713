"""The commands: `python -m training --help`."""

from . import benchmarks, biosyn, coder, coder_tasks, data, figures, measures, runs
from .application import app

__all__ = ["app", "benchmarks", "biosyn", "coder", "coder_tasks", "data", "figures", "measures", "runs"]
