"""The commands: `python -m training --help`."""

from . import (
    adaptation,
    averages,
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
    "averages",
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
