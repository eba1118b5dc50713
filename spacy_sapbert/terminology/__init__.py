"""Terminologies: concepts and their names in one immutable table, and what reads them from files."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .builder import TerminologyBuilder as TerminologyBuilder
    from .merging import merge as merge
    from .readers.jsonl import read_jsonl as read_jsonl
    from .readers.obo import read_obo as read_obo
    from .readers.obo import read_obo_relations as read_obo_relations
    from .readers.rrf import read_rrf as read_rrf
    from .readers.table import read_table as read_table
    from .table import Concept as Concept
    from .table import Terminology as Terminology

_MODULES = {
    **dict.fromkeys(("Concept", "Terminology"), "table"),
    **dict.fromkeys(("read_obo", "read_obo_relations"), "readers.obo"),
    **{"TerminologyBuilder": "builder", "merge": "merging"},
    **{"read_jsonl": "readers.jsonl", "read_rrf": "readers.rrf", "read_table": "readers.table"},
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    # Lazy: spaCy imports the linker for every pipeline, and polars takes half a second.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
