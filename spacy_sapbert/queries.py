"""From documents and strings to queries: what is looked up for a mention, and among which concepts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from spacy.tokens import Doc, Span

from .abbreviations.component import Abbreviations, abbreviations_by_start, expand_abbreviations
from .errors import Errors, Warnings
from .linker_settings import AbbreviationForms, LinkerSettings
from .retrieval.filters import ConceptFilter
from .text import normalize_name

if TYPE_CHECKING:
    from .retrieval.retriever import Retriever

# The longest names in clinical terminologies have a few hundred characters.
MAX_LENGTH = 1000


class Query(NamedTuple):
    """A string to look up, and what may be found.

    text (str): The string.
    filter (ConceptFilter): The concepts and names that it may be linked to.
    """

    text: str
    filter: ConceptFilter


class DocQueries(NamedTuple):
    """The queries of one document; None where a mention's label is not to be linked.

    ents (list[list[Query] | None]): For each of `doc.ents`, one query or two, or none if it cannot be a name.
    spans (list[list[Query] | None]): For each span of the group that `spans_key` names.
    """

    ents: list[list[Query] | None]
    spans: list[list[Query] | None]


def make_filter(settings: LinkerSettings) -> ConceptFilter:
    """Make the filter of a linker, for mentions of any label.

    settings (LinkerSettings): The settings.
    RETURNS (ConceptFilter): The filter. A concept without a code in the output source could not be written.
    """
    allowed = settings.types, settings.sources, settings.languages, settings.ids
    return ConceptFilter(*allowed, coded_in=settings.output_source, below=settings.below)


class QueryMaker:
    """Make queries by the settings of a linker.

    settings (LinkerSettings): The settings.
    retriever (Retriever): The retriever that the queries are for.
    RAISES (ValueError): If a filter holds what occurs nowhere in the terminology.
    """

    def __init__(self, settings: LinkerSettings, retriever: Retriever) -> None:
        self._settings = settings
        allowed = make_filter(settings)
        # Reuse the retriever's own filter where it has an equal one, because comparing long lists of ids takes time.
        self._filter = allowed if allowed.is_open else retriever.allow(allowed).filter
        self._by_label = {
            label: replace(self._filter, label_types=frozenset(types)) for label, types in settings.label_types.items()
        }
        # Check all of them, so that a misspelled type does not wait for the first mention with its label.
        for by_label in self._by_label.values():
            retriever.filters.check(by_label)

    def from_texts(self, texts: Iterable[str]) -> list[list[Query]]:
        """Make the queries for strings that have no label.

        texts (Iterable[str]): The strings.
        RETURNS (list[list[Query]]): For each one query, or none if it cannot be a name.
        """
        normal = map(normalize_name, texts)
        return [[Query(text, self._filter)] if is_linkable(text) else [] for text in normal]

    def from_doc(self, doc: Doc) -> DocQueries:
        """Make the queries for a document's entities and spans.

        doc (Doc): The document.
        RETURNS (DocQueries): The queries.
        """
        settings = self._settings
        spans = doc.spans[settings.spans_key] if settings.spans_key and settings.spans_key in doc.spans else ()
        return DocQueries(*self.from_spans(doc, doc.ents, spans))

    def from_spans(self, doc: Doc, *groups: Iterable[Span]) -> list[list[list[Query] | None]]:
        """Make the queries for groups of spans of one document.

        doc (Doc): The document, whose abbreviations count.
        *groups (Iterable[Span]): The spans.
        RETURNS (list[list[list[Query] | None]]): For each group the queries of each span, as in `DocQueries`.
        """
        known = abbreviations_by_start(doc) if self._settings.abbreviations != "short_form" else {}
        return [[self._from_span(span, known) for span in group] for group in groups]

    def _from_span(self, span: Span, known: Abbreviations) -> list[Query] | None:
        label, settings = span.label_, self._settings
        if (settings.link_labels is not None and label not in settings.link_labels) or label in settings.skip_labels:
            return None
        allowed = self._by_label.get(label, self._filter)
        return [Query(text, allowed) for text in mention_forms(span, known, settings.abbreviations)]


def mention_forms(span: Span, abbreviations: Abbreviations, wanted: AbbreviationForms) -> list[str]:
    """Get the strings to look up for a mention, the more telling one first.

    span (Span): The mention.
    abbreviations (dict[int, tuple[int, str]]): What `abbreviations_by_start` gave for the document.
    wanted (str): "both", "long_form" or "short_form".
    RETURNS (list[str]): One or two strings; none if the mention is not linkable.
    """
    short = normalize_name(span.text)
    if not is_linkable(short):
        return []
    expanded = expand_abbreviations(span, abbreviations) if wanted != "short_form" else None
    long = normalize_name(expanded or "")
    if not is_linkable(long):
        return [short]
    return [long, short] if wanted == "both" else [long]


def is_linkable(text: str) -> bool:
    """Tell whether a string can be the name of anything.

    text (str): The string.
    RETURNS (bool): False without any letter or digit, and for texts that are too long to be a name.
    """
    if len(text) > MAX_LENGTH:
        warnings.warn(Warnings.W401.format(n=len(text), limit=MAX_LENGTH), stacklevel=2)
        return False
    return any(character.isalnum() for character in text)


def check_texts(texts: Iterable[str]) -> list[str]:
    """Check the strings to look up.

    texts (Iterable[str]): The strings.
    RETURNS (list[str]): The strings.
    RAISES (ValueError): If it is a single string, or something in it is none.
    """
    from .terminology.readers.lines import invalid_utf8

    if isinstance(texts, Iterable) and not isinstance(texts, str):
        texts = list(texts)  # an iterator can be read only once
    # A string is made of strings too, each a letter.
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(Errors.E432.format(found=f"{texts!r:.80}"))
    if any(map(invalid_utf8, texts)):
        raise ValueError(Errors.E432.format(found=f"{texts!r:.80}, with half of a character (a lone surrogate)"))
    return texts
