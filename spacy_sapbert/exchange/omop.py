"""OMOP: rows of the table NOTE_NLP (CDM 5.4) for mentions, with the concepts of Athena's tables."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from spacy.tokens import Doc, Span

from .. import __version__
from ..context import ContextReader, MentionContext, read_contexts
from ..files import write_whole
from ..terminology.codes import Key
from .athena import AthenaTables, OmopConcept
from .code_systems import normalize_source
from .codes_of import Code, CodeFinder
from .documents import list_spans, name_docs
from .fields import plain_text
from .report import ExchangeReport

# The columns in their order, and the most characters that a text may have.
COLUMNS: dict[str, int | None] = {
    "note_nlp_id": None,
    "note_id": None,
    "section_concept_id": None,
    "snippet": 250,
    "offset": 50,
    "lexical_variant": 250,
    "note_nlp_concept_id": None,
    "note_nlp_source_concept_id": None,
    "nlp_system": 250,
    "nlp_date": None,
    "nlp_datetime": None,
    "term_exists": 1,
    "term_temporal": 50,
    "term_modifiers": 2000,
}
# How Athena names vocabularies, by the source as in `CODE_SYSTEMS`.
VOCABULARIES = {
    "ATC": "ATC",
    "CPT": "CPT4",
    "CVX": "CVX",
    "ICD-O": "ICDO3",
    "ICD10": "ICD10",
    "ICD10CM": "ICD10CM",
    "ICD10PCS": "ICD10PCS",
    "ICD9CM": "ICD9CM",
    "LNC": "LOINC",
    "MDR": "MedDRA",
    "MSH": "MeSH",
    "NCI": "NCIt",
    "RXNORM": "RxNorm",
    "SNOMEDCT_US": "SNOMED",
}
FORM = "documents named by the note_id of their note, a whole number without zeros before it"
# The id of "No matching concept".
NO_CONCEPT = 0
WINDOW = 100
# What a database takes as an integer.
NOTE_ID, LARGEST_ID = re.compile("0|[1-9][0-9]{0,18}"), (1 << 63) - 1


class NoteNlp:
    """Make rows of NOTE_NLP.

    codes (CodeFinder): Finds the codes of mentions.
    report (ExchangeReport): Names and counts mentions that get the concept 0.
    vocabularies (Mapping[str, str]): Athena's vocabularies of further sources, by source.
    sources (Sequence[str]): The sources to look in, in this order; empty for all.
    nlp_date (date | None): The date of the processing; None for today.
    """

    def __init__(
        self,
        codes: CodeFinder,
        report: ExchangeReport,
        *,
        vocabularies: Mapping[str, str] | None = None,
        sources: Sequence[str] = (),
        nlp_date: date | None = None,
    ) -> None:
        added = {normalize_source(source): name for source, name in (vocabularies or {}).items()}
        self._codes, self._report = codes, report
        self._vocabularies = {**VOCABULARIES, **added}
        self._sources = [normalize_source(source) for source in sources]
        self._date = nlp_date or date.today()

    def list_rows(
        self,
        docs: Iterable[Doc],
        athena: AthenaTables,
        spans_keys: Sequence[str] = (),
        first_id: int = 1,
        read: ContextReader = read_contexts,
    ) -> Iterator[dict[str, Any]]:
        """List the rows of documents: one for each mention, and more for a code that maps to several standard concepts,
        as OMOP's conventions have it.

        docs (Iterable[Doc]): The documents, named by the note_id of their note.
        athena (AthenaTables): The concepts.
        spans_keys (Sequence[str]): Span groups with further mentions.
        first_id (int): The note_nlp_id of the first row.
        read (ContextReader): Reads the contexts of mentions.
        YIELDS (dict[str, Any]): A row, with the columns of `COLUMNS`.
        RAISES (OSError): If one of Athena's files is not there.
        RAISES (ValueError): If a document is not named by a whole number, unless errors are skipped, or one of Athena's
            files is another one.
        """
        notes: list[tuple[int, Span]] = []
        contexts: list[MentionContext | None] = []
        for name, doc in name_docs(docs, self._report):
            # Not "017", which would become the note 17 as well.
            if NOTE_ID.fullmatch(name) and int(name) <= LARGEST_ID:
                spans = list_spans(doc, spans_keys)
                notes += [(int(name), span) for span in spans]
                contexts += read(spans)
            else:
                self._report.refuse(f"document {name}", "its name is no whole number", FORM)
        found = [self._list_keys(span) for _, span in notes]
        known = athena.find(key for keys in found for key in keys)
        # Who finds the past anywhere tells it from the present.
        has_past = any(context is not None and context.historical for context in contexts)
        number = first_id
        for (note_id, span), keys, context in zip(notes, found, contexts, strict=True):
            concepts = [known[key] for key in keys if key in known]
            # A code that is standard is nearer to the concept than what another code maps to.
            in_order = sorted(concepts, key=lambda concept: not concept.is_standard)
            standard = next((concept.standard for concept in in_order if concept.standard), ())
            reason = "" if standard else self._explain(span, keys, concepts)
            source = concepts[0].concept_id if concepts else NO_CONCEPT
            row = self._make_row(note_id, span, source, reason) | _describe(context, reason, has_past)
            for concept_id in standard or (NO_CONCEPT,):
                yield {**row, "note_nlp_id": number, "note_nlp_concept_id": concept_id}
                number += 1

    def _list_keys(self, span: Span) -> list[Key]:
        codes = [code for found in self._codes.find(span).values() for code in found]
        if self._sources:
            codes = [code for source in self._sources for code in codes if code.source == source]
        return [(self._vocabularies[code.source], code.code) for code in codes if code.source in self._vocabularies]

    def _make_row(self, note_id: int, span: Span, source_concept: int, reason: str) -> dict[str, Any]:
        place = f"note {note_id}, {span.start_char}: {span.text!r:.60}"
        if reason:
            self._report.note_odd(f"mentions with the concept 0: {reason}", place)
        row: dict[str, Any] = dict.fromkeys(COLUMNS, "")
        row |= {
            "note_id": note_id,
            "section_concept_id": NO_CONCEPT,
            "snippet": _cut_snippet(span),
            "offset": str(span.start_char),
            "lexical_variant": plain_text(span.text)[: COLUMNS["lexical_variant"]],
            "note_nlp_source_concept_id": source_concept,
            "nlp_system": f"spacy-sapbert {__version__}",
            "nlp_date": self._date.isoformat(),
        }
        if len(row["lexical_variant"]) < len(span.text):
            self._report.note_odd("mentions that are too long for their column, and were cut", place)
        return row

    def _explain(self, span: Span, keys: list[Key], concepts: list[OmopConcept]) -> str:
        codes: list[Code] = [code for found in self._codes.find(span).values() for code in found]
        if not codes:
            return "the mention has no concept"
        if not keys:
            return "the concept has no code in a vocabulary of Athena"
        return "its codes stand for no standard concept" if concepts else "CONCEPT.csv has none of its codes"


def _describe(context: MentionContext | None, reason: str, has_past: bool) -> dict[str, str]:
    """Fill the columns of a term. By OMOP's convention it exists if the patient has it, or had it."""
    modifiers = [f"unmapped={reason}"] if reason else []
    if context is None:
        return {"term_modifiers": ";".join(modifiers)}
    said = ["subject=family member" if word == "family" else f"{word}=true" for word in context.words]
    return {
        "term_exists": "N" if context.negated or context.family or context.hypothetical else "Y",
        "term_temporal": "past" if context.historical else "present" if has_past else "",
        "term_modifiers": ";".join([*said, *modifiers]),
    }


def _cut_snippet(span: Span) -> str:
    """Cut out the text around a mention, so that it fits into its column."""
    text, start = span.doc.text, max(0, span.start_char - WINDOW)
    width = COLUMNS["snippet"] or 0
    return plain_text(text[start : min(len(text), span.end_char + WINDOW)])[:width]


def write_note_nlp(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows of NOTE_NLP, with commas between columns and their names in the first line. The file appears whole.

    path (Path): The file.
    rows (Iterable[Mapping[str, Any]]): The rows.
    """
    with write_whole(path) as temporary, temporary.open("w", encoding="utf8", newline="") as file:
        writer = csv.DictWriter(file, list(COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
