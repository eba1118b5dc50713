"""The commands: `python -m training --help`."""

from . import (
    adaptation,
    benchmarks,
    coder_tasks,
    corpora,
    data,
    documents,
    figures,
    languages,
    measures,
    probes,
    runs,
    selection,
)
from .application import app

__all__ = [
    "adaptation",
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
