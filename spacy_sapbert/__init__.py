"""Biomedical entity linking in spaCy: dense concept retrieval that saves, packages and loads offline.

spaCy imports this package whenever a pipeline is created, so public names are imported when they are first used.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .annotations import get_candidates as get_candidates
    from .encoder.shim import make_huggingface_loader as load_encoder
    from .linker import SapbertLinker as SapbertLinker
    from .terminology.builder import TerminologyBuilder as TerminologyBuilder
    from .terminology.merging import merge as merge
    from .terminology.readers.jsonl import read_jsonl as read_jsonl
    from .terminology.readers.obo import read_obo as read_obo
    from .terminology.readers.rrf import read_rrf as read_rrf
    from .terminology.readers.table import read_table as read_table
    from .terminology.table import Terminology as Terminology

__version__ = metadata.version("spacy-sapbert")
# Each name with the place of its definition.
_PLACES = {
    "SapbertLinker": "linker:SapbertLinker",
    "Terminology": "terminology.table:Terminology",
    "TerminologyBuilder": "terminology.builder:TerminologyBuilder",
    "get_candidates": "annotations:get_candidates",
    "load_encoder": "encoder.shim:make_huggingface_loader",
    "merge": "terminology.merging:merge",
    "read_jsonl": "terminology.readers.jsonl:read_jsonl",
    "read_obo": "terminology.readers.obo:read_obo",
    "read_rrf": "terminology.readers.rrf:read_rrf",
    "read_table": "terminology.readers.table:read_table",
}
__all__ = [
    "SapbertLinker",
    "Terminology",
    "TerminologyBuilder",
    "__version__",
    "get_candidates",
    "load_encoder",
    "merge",
    "read_jsonl",
    "read_obo",
    "read_rrf",
    "read_table",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(f".{module}", __name__), attribute)


def __dir__() -> list[str]:
    return __all__
