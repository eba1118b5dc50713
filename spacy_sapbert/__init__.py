"""Biomedical entity linking in spaCy: dense concept retrieval that saves, packages and loads offline.

spaCy imports this package whenever a pipeline is created, so public names are imported when they are first used.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from . import terminology

if TYPE_CHECKING:
    from .annotations import get_candidates
    from .encoder.shim import make_huggingface_loader as load_encoder
    from .linker import SapbertLinker
    from .rules import MentionRule
    from .tables.checking import check_labels
    from .tables.link import link_table
    from .terminology import (
        Terminology,
        TerminologyBuilder,
        merge,
        read_athena,
        read_jsonl,
        read_loinc,
        read_obo,
        read_obographs,
        read_owl,
        read_rf2,
        read_rrf,
        read_table,
    )

    __all__ = ["MentionRule", "SapbertLinker", "Terminology", "TerminologyBuilder", "get_candidates", "load_encoder"]
    __all__ += ["merge"]
    __all__ += ["check_labels", "link_table", "read_athena", "read_jsonl", "read_loinc", "read_obo", "read_obographs"]
    __all__ += ["read_owl", "read_rf2", "read_rrf", "read_table"]

__version__ = metadata.version("spacy-sapbert")
# Each name with the place of its definition.
_PLACES = {
    "MentionRule": "rules:MentionRule",
    "SapbertLinker": "linker:SapbertLinker",
    "check_labels": "tables.checking:check_labels",
    "get_candidates": "annotations:get_candidates",
    "link_table": "tables.link:link_table",
    "load_encoder": "encoder.shim:make_huggingface_loader",
    **{name: f"terminology:{name}" for name in terminology.__all__},
}
__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(f".{module}", __name__), attribute)


def __dir__() -> list[str]:
    return __all__
