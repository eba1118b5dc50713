"""The names of a linker, with the settings of a matcher applied to them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from spacy.tokens import Doc

from ..abbreviations.component import abbreviations_by_start, get_bounds
from ..candidates import ConceptFilter
from ..retrieval.filters import FilterTable
from ..retrieval.name_table import INVISIBLE, Matches, NameTable, own_case_forms, read_words
from ..snapshot import LRUCache
from . import MatcherSettings

if TYPE_CHECKING:
    from ..terminology.table import Terminology

# Entries whose label and forms are remembered.
KEPT_ENTRIES = 1 << 16
NO_FILTER = ConceptFilter()
# Before a name, these stand for something else: "non-Hodgkin lymphoma".
_OPPOSITE = re.compile(r"\b(?:non|anti)[\s\-‐‑–]*$", re.IGNORECASE)


class CompiledMatcher:
    """Find the names of a table in documents, but for those that the linker may not link to."""

    def __init__(
        self,
        table: NameTable,
        terminology: Terminology,
        settings: MatcherSettings,
        linker_filter: ConceptFilter = NO_FILTER,
    ) -> None:
        self.settings, self._table, self._terminology = settings, table, terminology
        # Single columns, because getting one from its table takes longer than reading a value.
        self._name_column, self._types = terminology.names["name"], terminology.concepts["types"]
        filters = FilterTable(terminology)
        # All values, so that a misspelled type does not mean a label that no name gets.
        filters.check(ConceptFilter(types={type_ for types in settings.label_types.values() for type_ in types}))
        self._label_types = {label: filters.find_types(types) for label, types in settings.label_types.items()}
        fields = settings.types, settings.sources, settings.languages, settings.ids
        own = ConceptFilter(*fields, below=settings.below, not_below=settings.not_below)
        self._names = np.ones(terminology.n_names, dtype=bool)
        for allowed in (own, linker_filter):
            if not allowed.is_open:
                self._names &= filters.match(allowed)
        self._is_wanted = self._table.mark(self._names)
        skipped = self._table.find_whole(settings.skip_names)
        self._is_wanted[skipped[skipped >= 0]] = False
        self._labels: LRUCache[str] = LRUCache(KEPT_ENTRIES)
        self._forms: LRUCache[frozenset[str]] = LRUCache(KEPT_ENTRIES)

    def find(self, doc: Doc) -> list[tuple[int, int, str]]:
        """Find names, which may overlap, as (first token, token behind the last one, label)."""
        text = doc.text
        first, last = _read_bounds(doc)
        labels: dict[tuple[int, int], str] = {}
        for start, end, entry in self._find_wanted(text):
            is_whole = start in first and end in last and not _OPPOSITE.search(text, max(start - 6, 0), start)
            if is_whole and self._is_plausible(doc, text[start:end], entry):
                labels[first[start], last[end] + 1] = self._get_label(entry)
        if self.settings.abbreviations:
            defined = abbreviations_by_start(doc)
            entries = self._table.find_whole(long_form for _, long_form in defined.values()).tolist()
            for (start, (end, _)), entry in zip(defined.items(), entries, strict=True):
                labels.pop((start, end), None)
                if entry >= 0 and self._is_wanted[entry]:
                    labels[start, end] = self._get_label(entry)
        return [(start, end, label) for (start, end), label in labels.items()]

    def _find_wanted(self, text: str) -> list[tuple[int, int, int]]:
        starts, ends, entries = self._table.find(read_words(text))
        is_kept = self._is_wanted[entries] & (ends - starts >= self.settings.min_length)
        kept = Matches(starts[is_kept], ends[is_kept], entries[is_kept])
        return list(zip(*(column.tolist() for column in kept), strict=True))

    def _is_plausible(self, doc: Doc, text: str, entry: int) -> bool:
        """Leave out what is more probably an ordinary word, a number, or a short form of something else."""
        if self._is_short_form(text):
            return False
        if len(text) <= self.settings.own_case_length and self._get_forms(entry).isdisjoint(own_case_forms(text)):
            return False
        if not any(map(str.isalpha, text)):
            return False
        return text.isupper() or not (self.settings.skip_stop_words and doc.vocab[text.lower()].is_stop)

    def _is_short_form(self, text: str) -> bool:
        form = text.removesuffix("s")
        return form.isalpha() and len(form) <= self.settings.define_length and sum(map(str.isupper, form)) > 1

    def _get_forms(self, entry: int) -> frozenset[str]:
        """Return the forms of an entry's names in which they match in their own case."""
        forms = self._forms.get(entry)
        if forms is None:
            rows = self._wanted_rows(entry)
            forms = frozenset[str]().union(*(own_case_forms(self._name_column[row]) for row in rows))
            self._forms.put(entry, forms)
        return forms

    def _get_label(self, entry: int) -> str:
        label = self._labels.get(entry) if self.settings.label_types else self.settings.label
        if label is None:
            label = self._choose_label(entry)
            self._labels.put(entry, label)
        return label

    def _choose_label(self, entry: int) -> str:
        concepts = self._terminology.name_concept[self._wanted_rows(entry)].tolist()
        found = {type_ for concept in concepts for type_ in self._types[concept].to_list()}
        fitting = (label for label, wanted in self._label_types.items() if not found.isdisjoint(wanted))
        return next(fitting, self.settings.label)

    def _wanted_rows(self, entry: int) -> list[int]:
        rows = self._table.rows_of(entry)
        wanted: list[int] = rows[self._names[rows]].tolist()
        return wanted


def _read_bounds(doc: Doc) -> tuple[dict[int, int], dict[int, int]]:
    """Get the token that starts, and the one that ends, at each place, with or without invisible characters."""
    starts, ends = get_bounds(doc) if len(doc) else ([], [])
    first, last = ({place: token for token, place in enumerate(places)} for places in (starts, ends))
    for found in INVISIBLE.finditer(doc.text):
        if found.start() in first:
            first.setdefault(found.end(), first[found.start()])
        if found.end() in last:
            last.setdefault(found.start(), last[found.end()])
    return first, last
