"""The commands: `python -m training --help`."""

from . import benchmarks, coder_tasks, corpora, data, documents, figures, languages, measures, probes, runs, selection
from .application import app

__all__ = [
    "app",
    "benchmarks",
    "coder_tasks",
    "corpora",
    "data",
    "documents",
    "figures",
    "languages",
    "measures",
    "probes",
    "runs",
    "selection",
]
