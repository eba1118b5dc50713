"""What is looked up for documents and strings, and among which concepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from spacy.tokens import Doc, Span

from .abbreviations.component import Abbreviations, abbreviations_by_start
from .mentions import is_linkable, mention_forms
from .retrieval.filters import ConceptFilter

if TYPE_CHECKING:
    from .linker import SapbertLinker
    from .retrieval.retriever import Retriever

ALLOW_LISTS = ("types", "sources", "languages", "ids")


class LookUp(NamedTuple):
    """A string to look up, and what may be found.

    text (str): The string.
    allowed (ConceptFilter): The concepts and names that it may be linked to.
    """

    text: str
    allowed: ConceptFilter


class DocPlan(NamedTuple):
    """The look-ups for one document; None where a mention's label is not to be linked.

    ents (list): For each of `doc.ents`, one look-up or two.
    spans (list): For each span of the group that `spans_key` names.
    """

    ents: list[list[LookUp] | None]
    spans: list[list[LookUp] | None]


class Planner:
    """Plan look-ups by the settings of a linker.

    linker (SapbertLinker): The linker.
    retriever (Retriever): Its terminology and index.
    given (Mapping[str, Optional[Sequence[str]]]): Allow-lists that replace the linker's settings, unless None.
    RAISES (ValueError): If a filter holds what occurs nowhere in the terminology.
    """

    def __init__(
        self, linker: SapbertLinker, retriever: Retriever, given: Mapping[str, Sequence[str] | None] | None = None
    ) -> None:
        self._linker = linker
        given = {key: value for key, value in (given or {}).items() if value is not None}
        lists = {key: getattr(linker, key) for key in ALLOW_LISTS}
        # A concept without a code in the output source could not be written.
        allowed = ConceptFilter(**{**lists, **given}, coded_in=linker.output_source)
        # The one that is remembered rather than its equal, because comparing long lists of ids takes time.
        self._allowed = allowed if allowed.is_open else retriever.allow(allowed).filter
        self._by_label = {
            label: replace(self._allowed, label_types=frozenset(types)) for label, types in linker.label_types.items()
        }
        # All of them, so that a misspelled type does not wait for the first mention with its label.
        for by_label in self._by_label.values():
            retriever.check_filter(by_label)

    def plan_texts(self, texts: Iterable[str]) -> list[list[LookUp]]:
        """Plan the look-ups for strings that have no label.

        texts (Iterable[str]): The strings.
        RETURNS (List[List[LookUp]]): For each one look-up, or none if it cannot be a name.
        """
        normal = (" ".join(text.split()) for text in texts)
        return [[LookUp(text, self._allowed)] if is_linkable(text) else [] for text in normal]

    def plan_doc(self, doc: Doc) -> DocPlan:
        """Plan the look-ups for a document's entities and spans.

        doc (Doc): The document.
        RETURNS (DocPlan): The look-ups.
        """
        linker = self._linker
        known = abbreviations_by_start(doc) if linker.abbreviations != "short_form" else {}
        spans = doc.spans[linker.spans_key] if linker.spans_key and linker.spans_key in doc.spans else ()
        return DocPlan(*([self._plan_span(span, known) for span in group] for group in (doc.ents, spans)))

    def _plan_span(self, span: Span, known: Abbreviations) -> list[LookUp] | None:
        label = span.label_
        if (self._linker.link_labels is not None and label not in self._linker.link_labels) or (
            label in self._linker.skip_labels
        ):
            return None
        allowed = self._by_label.get(label, self._allowed)
        return [LookUp(text, allowed) for text in mention_forms(span, known, self._linker.abbreviations)]
