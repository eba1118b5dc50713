"""OMOP: rows of the table NOTE_NLP (CDM 5.4) for mentions, with the concepts of Athena's tables."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from spacy.tokens import Span

from .. import __version__
from ..context import MentionContext
from ..files import check_is_file
from ..forking import check_polars
from ..terminology.codes import Key
from ..terminology.readers.athena import CONCEPT, CONCEPT_RELATIONSHIP, MAPS_TO, STANDARD
from ..terminology.readers.table import VALID
from .documents import UNKNOWN, AnnotatedText, ExchangeReport, write_file
from .fhir import CODE_SYSTEMS, CodeFinder, normalize_source, pick_codes
from .fields import plain_text

# The columns that are read of each table, ids first.
READ = {
    CONCEPT: ["concept_id", "vocabulary_id", "concept_code", "standard_concept"],
    CONCEPT_RELATIONSHIP: ["concept_id_1", "concept_id_2", "relationship_id", "invalid_reason"],
}
COLUMNS = (
    *("note_nlp_id", "note_id", "section_concept_id", "snippet", "offset", "lexical_variant", "note_nlp_concept_id"),
    *("note_nlp_source_concept_id", "nlp_system", "nlp_date", "nlp_datetime"),
    *("term_exists", "term_temporal", "term_modifiers"),
)
# The most characters of a snippet and of a lexical variant, and of a snippet on each side of the mention.
WIDTH = 250
WINDOW = 100
FORM = "documents named by the note_id of their note, a whole number without zeros before it"
# The id of "No matching concept".
NO_CONCEPT = 0
# What a database takes as an integer.
NOTE_ID = re.compile("0|[1-9][0-9]{0,18}")
LARGEST_ID = (1 << 63) - 1


# The id of a concept, and the ids of its standard concepts: its own if it is standard, or what it maps to.
OmopConcept = tuple[int, tuple[int, ...]]


class AthenaTables(NamedTuple):
    """Tables as Athena hands them out, with tabs between columns. Without relationships, no concept maps to another."""

    concepts: Path
    relationships: Path | None = None

    def find(self, wanted: Iterable[Key]) -> dict[Key, OmopConcept]:
        """Find the concepts of Athena's vocabularies and codes in them. Files are read when this is called. If a code
        stands there twice, the concept that is standard counts, or else one that maps to standard ones."""
        check_polars("read tables of Athena")
        key = ["vocabulary_id", "concept_code"]
        keys = pl.DataFrame(list(set(wanted)), dict.fromkeys(key, pl.String), orient="row")
        concepts = _scan(self.concepts, CONCEPT)
        joined = concepts.join(keys.lazy(), on=key, how="semi")
        rows = _collect(joined, self.concepts, ["concept_id"])
        is_standard = pl.col("standard_concept").eq_missing(STANDARD)
        mapped = self._map(rows.filter(~is_standard)["concept_id"], concepts)
        rows = rows.join(mapped, on="concept_id", how="left", maintain_order="left")
        # The best comes last, and replaces others.
        order = [is_standard, pl.col("standard").is_not_null(), "concept_id"]
        rows = rows.sort(order, descending=[False, False, True])
        matches: dict[Key, OmopConcept] = {}
        for id_, vocabulary, code, kind, others in rows.iter_rows():
            standard = [id_] if kind == STANDARD else others or []
            matches[vocabulary, code] = id_, tuple(standard)
        return matches

    def find_codes(self, ids: Iterable[int]) -> dict[int, Key]:
        """Find the vocabulary and the code of concepts."""
        wanted = pl.DataFrame({"concept_id": [str(id_) for id_ in set(ids)]}, {"concept_id": pl.String})
        joined = _scan(self.concepts, CONCEPT).join(wanted.lazy(), on="concept_id", how="semi")
        rows = _collect(joined, self.concepts, ["concept_id"])
        return {id_: (vocabulary, code) for id_, vocabulary, code, _ in rows.iter_rows()}

    def _map(self, ids: pl.Series, concepts: pl.LazyFrame) -> pl.DataFrame:
        """Map concepts to lists of standard ones, by valid relations of the kind "Maps to"."""
        if self.relationships is None:
            return pl.DataFrame(schema={"concept_id": pl.Int64, "standard": pl.List(pl.Int64)})
        first = pl.col("concept_id_1")
        second = pl.col("concept_id_2")
        relations = _scan(self.relationships, CONCEPT_RELATIONSHIP).filter(
            pl.col("relationship_id") == MAPS_TO,
            pl.col("invalid_reason").fill_null("").str.strip_chars().is_in(VALID),
            first.is_in(ids.cast(pl.String).implode()),
        )
        distinct = relations.select(first, second).unique()
        pairs = _collect(distinct, self.relationships, ["concept_id_1", "concept_id_2"])
        # A file of another release can name concepts that are no longer standard.
        targets = pairs.select(concept_id=second.cast(pl.String)).unique().lazy()
        standard = concepts.filter(pl.col("standard_concept") == STANDARD)
        standard = standard.join(targets, on="concept_id", how="semi")
        rows = _collect(standard, self.concepts, ["concept_id"])
        pairs = pairs.join(rows, left_on="concept_id_2", right_on="concept_id", how="semi")
        return pairs.group_by(concept_id="concept_id_1").agg(standard=second.sort())


def _scan(path: Path, name: str) -> pl.LazyFrame:
    check_is_file(path)
    # All values are texts, and nothing is quoted.
    table = pl.scan_csv(path, separator="\t", quote_char=None, infer_schema=False)
    try:
        columns = table.collect_schema().names()
    except (pl.exceptions.NoDataError, pl.exceptions.ComputeError) as error:
        raise _make_error(path, error) from error
    if missing := ", ".join(column for column in READ[name] if column not in columns):
        raise ValueError(
            f"{path} is not Athena's {name}, because it has no column {missing}. Its columns are: "
            f"{', '.join(columns)[:200]}. Give the file as it is in the download, with tabs between columns."
        )
    # Columns that are not read hide a shifted row from polars. No text has a NUL, so each line is one field here.
    schema = {"line": pl.String()}
    width = pl.col("line").str.count_matches("\t", literal=True) + 1
    lines = pl.scan_csv(path, separator="\0", quote_char=None, has_header=False, schema=schema, row_index_name="number")
    odd = lines.filter(width != len(columns)).head(1).select(pl.col("number") + 1, width)
    if rows := _collect(odd, path).rows():
        number, n_fields = rows[0]
        raise _make_error(path, f"line {number} has {n_fields} fields, but there are {len(columns)} columns")
    return table.select(READ[name])


def _make_error(path: Path, reason: object) -> ValueError:
    return ValueError(
        f"{path} cannot be read as a table of Athena: {reason}. It is perhaps cut off, in another encoding than UTF-8, "
        "or was saved by another program. Take the file as it is in the download."
    )


def _collect(table: pl.LazyFrame, path: Path, ids: Sequence[str] = ()) -> pl.DataFrame:
    try:
        rows = table.collect(engine="streaming")
    except pl.exceptions.ComputeError as error:
        raise _make_error(path, error) from error
    numbers = rows.with_columns(pl.col(ids).str.strip_chars().cast(pl.Int64, strict=False))
    for column in ids:
        odd = rows.filter(numbers[column].is_null())
        if odd.height:
            reason = f"{odd[column][0]!r} is no {column}, a whole number, in the row {odd.row(0)}"
            raise _make_error(path, reason)
    return numbers


@dataclass
class NoteNlp:
    """Make rows of NOTE_NLP.

    codes (CodeFinder): Finds the codes of mentions.
    report (ExchangeReport): Names and counts mentions that get the concept 0.
    vocabularies (Mapping[str, str]): Athena's vocabularies of further sources, by source.
    sources (Sequence[str]): The sources to look in, in this order; empty for all.
    nlp_date (date | None): The date of the processing; None for today.
    first_id (int): The note_nlp_id of the first row.
    """

    codes: CodeFinder
    report: ExchangeReport
    _: KW_ONLY
    vocabularies: Mapping[str, str] = field(default_factory=dict)
    sources: Sequence[str] = ()
    nlp_date: date | None = None
    first_id: int = 1

    def list_rows(self, documents: Iterable[AnnotatedText], athena: AthenaTables) -> Iterator[dict[str, Any]]:
        """List the rows of documents that are named by the note_id of their note: one for each mention, and more for a
        code that maps to several standard concepts, as OMOP's conventions have it."""
        notes: list[tuple[int, Span, MentionContext | None]] = []
        for document in documents:
            name = document.doc_id
            # Not "017", which would become the note 17 as well.
            if not NOTE_ID.fullmatch(name) or int(name) > LARGEST_ID:
                self.report.refuse(f"document {name}", "its name is not a whole number", FORM)
                continue
            for annotation in document.annotations:
                if annotation.span:
                    notes.append((int(name), annotation.span, annotation.context))
        keys = [self._list_keys(span) for _, span, _ in notes]
        of_keys = athena.find(key for of_mention in keys for key in of_mention)
        # A component that finds the past anywhere tells it from the present.
        has_past = any(context is not None and context.historical for *_, context in notes)
        number = self.first_id
        for (note_id, span, context), of_mention in zip(notes, keys, strict=True):
            concepts = [of_keys[key] for key in of_mention if key in of_keys]
            # A code that is standard is nearer to the concept than what another code maps to.
            in_order = sorted(concepts, key=lambda concept: concept[1] != concept[:1])
            standard: tuple[int, ...] = next((ids for _, ids in in_order if ids), ())
            reason = "" if standard else self._explain(span, of_mention, concepts)
            row = self._make_row(note_id, span, reason) | _describe(context, reason, has_past)
            row["note_nlp_source_concept_id"] = concepts[0][0] if concepts else NO_CONCEPT
            for concept_id in standard or (NO_CONCEPT,):
                yield {**row, "note_nlp_id": number, "note_nlp_concept_id": concept_id}
                number += 1

    def _list_keys(self, span: Span) -> list[Key]:
        names = {source: system.vocabulary for source, system in CODE_SYSTEMS.items() if system.vocabulary}
        names |= {normalize_source(source): name for source, name in self.vocabularies.items()}
        sources = [*map(normalize_source, self.sources)]
        codes = [*chain.from_iterable(self.codes.find(span).values())]
        return [(names[code.source], code.code) for code in pick_codes(codes, sources) if code.source in names]

    def _explain(self, span: Span, keys: list[Key], concepts: list[OmopConcept]) -> str:
        if not self.codes.find(span):
            return "the mention has no concept"
        if not keys:
            return "the concept has no code in a vocabulary of Athena"
        return "its codes stand for no standard concept" if concepts else "CONCEPT.csv has none of its codes"

    def _make_row(self, note_id: int, span: Span, reason: str) -> dict[str, Any]:
        place = f"note {note_id}, {span.start_char}: {span.text!r:.60}"
        if reason:
            self.report.note_odd(f"mentions with the concept 0: {reason}", place)
        if len(span.text) > WIDTH:
            self.report.note_odd("mentions that are too long for their column, and were cut", place)
        around = span.doc.text[max(0, span.start_char - WINDOW) : span.end_char + WINDOW]
        return dict.fromkeys(COLUMNS, "") | {
            "note_id": note_id,
            "section_concept_id": NO_CONCEPT,
            "snippet": plain_text(around)[:WIDTH],
            "offset": str(span.start_char),
            "lexical_variant": plain_text(span.text)[:WIDTH],
            "nlp_system": f"spacy-sapbert {__version__}",
            "nlp_date": (self.nlp_date or date.today()).isoformat(),
        }


def _describe(context: MentionContext | None, reason: str, has_past: bool) -> dict[str, str]:
    """Fill the columns of a term. By OMOP's convention it exists if the patient has it, or had it."""
    modifiers = [f"unmapped={reason}"] if reason else []
    if context is None:
        return {"term_modifiers": ";".join(modifiers)}
    subject = context.person or "family member"
    terms = [f"subject={subject}" if word == "family" else f"{word}=true" for word in context.words]
    return {
        "term_exists": "N" if context.negated or context.family or context.hypothetical else "Y",
        "term_temporal": "past" if context.historical else "present" if has_past else "",
        "term_modifiers": ";".join([*terms, *modifiers]),
    }


def export_notes(
    documents: Iterable[AnnotatedText], output: Path, notes: NoteNlp, athena: AthenaTables
) -> dict[str, Any]:
    """Write rows of OMOP's table NOTE_NLP for mentions, and return the counts."""
    rows = list(notes.list_rows(documents, athena))
    if rows and not any(row["term_exists"] for row in rows):
        notes.report.note_odd(UNKNOWN, f"note {rows[0]['note_id']}", len(rows))
    table = io.StringIO()
    writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_file(output, table.getvalue())
    counts = {
        "rows": len(rows),
        "rows with a concept": sum(row["note_nlp_concept_id"] != NO_CONCEPT for row in rows),
        "rows whose term does not exist": sum(row["term_exists"] == "N" for row in rows),
    }
    return notes.report.write(output, counts)
