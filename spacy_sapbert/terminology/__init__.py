"""Terminologies: concepts and their names in one immutable table, and what reads them from files.

A reader is a file in `readers`, registered in setup.cfg: `read_obo` stands in readers/obo.py.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from . import readers

if TYPE_CHECKING:
    from .builder import TerminologyBuilder as TerminologyBuilder
    from .merging import merge as merge
    from .readers.athena import read_athena as read_athena
    from .readers.jsonl import read_jsonl as read_jsonl
    from .readers.loinc import read_loinc as read_loinc
    from .readers.obo import read_obo as read_obo
    from .readers.obo import read_obo_relations as read_obo_relations
    from .readers.rf2 import read_rf2 as read_rf2
    from .readers.rrf import read_rrf as read_rrf
    from .readers.table import read_table as read_table
    from .table import Concept as Concept
    from .table import Terminology as Terminology

_MODULES = {"Concept": "table", "Terminology": "table", "TerminologyBuilder": "builder", "merge": "merging"}
_MODULES["read_obo_relations"] = "readers.obo"
# What readers share.
_SHARED = {"lines", "rrf_lines", "text_table"}
_READERS = [name for _, name, _ in iter_modules(readers.__path__) if name not in _SHARED and name[0] != "_"]
_MODULES |= {f"read_{name}": f"readers.{name}" for name in _READERS}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    # Lazy: spaCy imports the linker for every pipeline, and polars takes half a second.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
