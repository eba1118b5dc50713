"""The commands: `python -m training --help`."""

from . import benchmarks, biosyn, coder, coder_tasks, data, figures, languages, measures, runs
from .application import app

__all__ = ["app", "benchmarks", "biosyn", "coder", "coder_tasks", "data", "figures", "languages", "measures", "runs"]
