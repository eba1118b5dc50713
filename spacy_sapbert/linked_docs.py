"""Which linkers have linked a document in this process.

Nothing is stored in the document's data, so saved and copied documents stay as small as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from spacy.tokens import Doc

if TYPE_CHECKING:
    from .concept_pipe import ConceptPipe

_linkers: WeakKeyDictionary[Doc, dict[str, ConceptPipe]] = WeakKeyDictionary()


def note_linker(docs: Iterable[Doc], linker: ConceptPipe) -> None:
    """Note that a linker has linked documents. The note is dropped with the document.

    docs (Iterable[Doc]): The documents.
    linker (ConceptPipe): The linker.
    """
    for doc in docs:
        _linkers.setdefault(doc, {})[linker.name] = linker


def get_linkers(doc: Doc) -> Mapping[str, ConceptPipe]:
    """Get the linkers that have linked a document in this process.

    doc (Doc): The document.
    RETURNS (Mapping[str, ConceptPipe]): The linkers by name; empty for a loaded or copied document.
    """
    return _linkers.get(doc, {})
