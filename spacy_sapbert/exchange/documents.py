"""Texts with annotations, as they are exchanged; the way from and to spaCy's documents; and a report of what is lost.
Offsets are counted in code points, as Python and spaCy do. Formats that count otherwise convert them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast, get_args

import spacy
import srsly
from spacy.tokens import Doc, DocBin, Span, SpanGroup
from spacy.util import filter_spans

from ..annotations import ATTRIBUTE, Match, get_pieces, get_user_data, read_attribute, write_match
from ..candidates import Candidate
from ..context import (
    ATTRIBUTES,
    GRAPH,
    Attributes,
    MentionContext,
    has_context,
    list_attributes,
    read_context,
    write_context,
)
from ..errors import BAD_SETTING, warn
from ..files import check_is_file, write_whole
from ..settings import OnMalformed

# The document's id in `Doc.user_data`, and the span groups of mentions that overlap an entity or are in several pieces.
DOC_ID = "doc_id"
OVERLAPPING = "overlapping"
DISCONTINUOUS = "discontinuous"
# The label of mentions without one: spaCy drops entities that have none.
LABEL = "MENTION"
UNKNOWN = (
    "mentions in documents that do not say whether a mention is negated, of the family or of the past: add "
    "`note_context` to the pipeline (docs/exchange.md)"
)
N_EXAMPLES = 5

DOCS_FORM = "documents with entities and their ids in kb_id_, saved by DocBin.to_disk"


class ExchangeReport:
    """Count the records that are left out or odd, by kind, with the places of the first.

    errors (str): "raise" an error at the first malformed record, or "skip" and count malformed records.
    """

    def __init__(self, errors: str = "raise") -> None:
        if errors not in get_args(OnMalformed):
            allowed = " or ".join(map(repr, get_args(OnMalformed)))
            raise ValueError(BAD_SETTING.format(name="errors", where="", value=errors, allowed=allowed))
        self.errors = errors
        # The count and the first places of each kind.
        self.left_out: dict[str, dict[str, Any]] = {}
        self.odd: dict[str, dict[str, Any]] = {}

    def refuse(self, place: str, reason: str, form: str) -> None:
        """Raise an error for a malformed record, or one that a format cannot hold. Count it if errors are skipped."""
        if self.errors == "raise":
            raise self.make_error(place, reason, form)
        self.leave_out("malformed", f"{place}: {reason}")

    def make_error(self, place: str, reason: str, form: str) -> ValueError:
        """Make the error of a malformed record. Readers of corpora have one of their own."""
        return ValueError(
            f"{place}: {reason}. The form is {form}. The file is probably damaged or of another kind, or the format "
            "cannot hold this. Correct it, or set errors = 'skip' (--errors skip) to count such records instead."
        )

    def leave_out(self, kind: str, place: str, n: int = 1) -> None:
        """Count records that are excluded."""
        _count(self.left_out, kind, place, n)

    def note_odd(self, kind: str, place: str, n: int = 1) -> None:
        """Count records that are kept, but look odd."""
        _count(self.odd, kind, place, n)

    def write(self, output: Path, counts: dict[str, int]) -> dict[str, Any]:
        """Write the report beside an output, as <output>.report.json, and return its data."""
        data = {"counts": counts, "left_out": self.left_out, "odd": self.odd}
        write_file(output.with_name(f"{output.name}.report.json"), json.dumps(data, indent=2, ensure_ascii=False))
        return data


def _count(entries: dict[str, dict[str, Any]], kind: str, place: str, n: int) -> None:
    entry = entries.setdefault(kind, {"count": 0, "first": []})
    entry.update(count=entry["count"] + n, first=[*entry["first"], place][:N_EXAMPLES])


@dataclass(frozen=True)
class Annotation:
    """A mention and its ids.

    start (int), end (int): Where it is in the text, in code points.
    label (str): Its label.
    kb_id (str): Its ids with "|" between them; "NIL" for no concept, and "" where nobody has said which concept it is.
    place (str): The file and line, for messages.
    span (Span | None): The span of spaCy, if it comes from one.
    context (MentionContext | None): Whether it is negated, and such; None where nobody has said.
    pieces (tuple[tuple[int, int], ...]): Starts and ends of its pieces, in order; empty if it is in one piece.
    """

    start: int
    end: int
    label: str = ""
    kb_id: str = ""
    place: str = field(default="", compare=False)
    span: Span | None = field(default=None, compare=False)
    context: MentionContext | None = None
    pieces: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class AnnotatedText:
    """A document's name, its text and its mentions."""

    doc_id: str
    text: str
    annotations: list[Annotation]

    def cut(self, annotation: Annotation) -> str:
        """Cut a mention out of the text."""
        return self.text[annotation.start : annotation.end]

    def cut_pieces(self, annotation: Annotation) -> str:
        """Cut the pieces of a mention out of the text, and put spaces between them."""
        pieces = annotation.pieces or ((annotation.start, annotation.end),)
        return " ".join(self.text[start:end] for start, end in pieces)


def tidy_pieces(text: str, annotation: Annotation) -> Annotation:
    """Sort the pieces of a mention, and join pieces with only white space between them. A single piece is not kept."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(piece for piece in annotation.pieces if text[slice(*piece)].strip()):
        if joined and not text[joined[-1][1] : start].strip():
            start = joined[-1][0]
            end = max(joined.pop()[1], end)
        joined.append((start, end))
    if len(joined) < 2:
        return replace(annotation, pieces=())
    start = joined[0][0]
    end = joined[-1][1]
    return replace(annotation, start=start, end=end, pieces=tuple(joined))


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file as a whole or not at all, with the line ends that it has."""
    with write_whole(path) as temporary:
        temporary.write_bytes(content.encode("utf8") if isinstance(content, str) else content)


def parse_docs(data: bytes, label: str, report: ExchangeReport) -> list[Doc]:
    """Read the documents in the bytes of a DocBin, one of several, with a vocabulary of their own."""
    try:
        return _load_docs(data)
    except ValueError:
        report.refuse(label, "no documents of spaCy", DOCS_FORM)
        return []


def read_docs(path: Path) -> list[Doc]:
    """Read the documents of a file, .spacy."""
    check_is_file(path)
    try:
        return _load_docs(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"There are no documents of spaCy in {path}. Give a file of {DOCS_FORM}.") from error


def _load_docs(data: bytes) -> list[Doc]:
    try:
        return list(DocBin().from_bytes(data).get_docs(spacy.blank("xx").vocab))
    # zlib, msgpack and NumPy raise errors of their own for other bytes.
    except Exception as error:
        raise ValueError(str(error)) from error


def write_docs(path: str | Path, docs: Iterable[Doc]) -> None:
    """Write documents with their names, candidates and contexts to a file, .spacy.

    Values in `user_data` that no file can hold, such as the spans that medspaCy's ConText leaves there, are left out
    with a warning that counts them.

    path (str | Path): The file to write.
    docs (Iterable[Doc]): The documents, which stay as they are.
    """
    documents = DocBin()
    left_out = Counter[str]()
    for doc in docs:
        documents.add(doc)
        documents.user_data.append(_dump_user_data(doc, left_out))
    documents.store_user_data = True
    write_file(Path(path), documents.to_bytes())
    if left_out:
        counts = ", ".join(f"{n:,} of {name}" for name, n in sorted(left_out.items()))
        warn(f"{path} lacks values of `user_data` that no file can hold: {counts}.")


def _dump_user_data(doc: Doc, left_out: Counter[str]) -> bytes:
    # Objects may have ways of their own to fail.
    with suppress(Exception):
        return cast(bytes, srsly.msgpack_dumps(doc.user_data))
    values: dict[Any, Any] = {}
    for key, value in get_user_data(doc[:]).items():
        try:
            srsly.msgpack_dumps({key: value})
        except Exception:
            name = key[1] if isinstance(key, tuple) and len(key) == 4 else key
            left_out[str(name)] += 1
            # That ConText has looked at the document can be kept.
            if key == GRAPH:
                values[GRAPH] = None
        else:
            values[key] = value
    return cast(bytes, srsly.msgpack_dumps(values))


def number_name(name: str, taken: set[str], number: int = 2) -> str:
    """Take a name; if it is taken already, put "#" and the first free number behind it."""
    free = name
    while free in taken:
        free = f"{name}#{number}"
        number += 1
    taken.add(free)
    return free


def list_mentions(doc: Doc, spans_keys: Sequence[str] = ()) -> list[Span]:
    """List entities, what could not be one, and the spans of further groups, each with its label and id once."""
    keys = dict.fromkeys((OVERLAPPING, DISCONTINUOUS, *spans_keys))
    groups = [doc.spans[key] for key in keys if key in doc.spans]
    spans = [*doc.ents, *(span for group in groups for span in group)]
    distinct = {(span.start_char, span.end_char, span.label_, span.kb_id_): span for span in spans}
    return list(distinct.values())


def annotate(
    docs: Iterable[Doc], report: ExchangeReport, spans_keys: Sequence[str] = (), attributes: Attributes = ATTRIBUTES
) -> list[AnnotatedText]:
    """Take texts and mentions out of documents, and give each document a name of its own.

    docs (Iterable[Doc]): The documents.
    report (ExchangeReport): Names attributes that no mention has, and documents that get a number.
    spans_keys (Sequence[str]): Span groups with further mentions.
    attributes (Attributes): What says whether a mention is negated, and such; see `read_context`.
    RETURNS (list[AnnotatedText]): What every export takes.
    """
    docs = list(docs)
    stored = {name for doc in docs for name in list_attributes(doc)}
    for word, names in attributes.items():
        for name in {name.partition("=")[0] for name in names if name not in ATTRIBUTES[word]} - stored:
            report.note_odd("attributes that no mention has: they are misspelt, or true of none", name)
    # What ran over one document of a file ran over all of them.
    is_known = has_context(docs, attributes)
    named: set[str] = set()
    texts = []
    for number, doc in enumerate(docs, 1):
        name = str(doc.user_data.get(DOC_ID) or f"document-{number}")
        text = AnnotatedText(number_name(name, named, number), doc.text, [])
        if text.doc_id != name:
            report.note_odd("documents with the name of another one, which get a number", f"document {text.doc_id}")
        for span in list_mentions(doc, spans_keys):
            context = read_context(span, attributes, is_known=is_known)
            values = span.start_char, span.end_char, span.label_, span.kb_id_
            annotation = Annotation(*values, span=span, context=context, pieces=tuple(get_pieces(span)))
            text.annotations.append(tidy_pieces(doc.text, annotation))
        texts.append(text)
    return texts


def find_candidate(span: Span, attribute: str = ATTRIBUTE) -> Candidate | None:
    """Find the candidate that was chosen for a mention."""
    candidates = read_attribute(span, attribute)
    return next((candidate for candidate in candidates if candidate["id"] == span.kb_id_), None)


def make_doc(
    document: AnnotatedText, tokenize: Callable[[str], Doc], report: ExchangeReport, *, inside_tokens: str = "leave_out"
) -> Doc:
    """Make a document of spaCy, with the mentions as entities and their ids in `kb_id_`.

    Of mentions that overlap, the longest is an entity; the others are in the span group "overlapping". Mentions in
    several pieces are in the span group "discontinuous", and `span._.match_pieces` has the pieces.

    document (AnnotatedText): Text and mentions.
    tokenize (Callable): Makes a document of a text, as `nlp.make_doc` does.
    report (ExchangeReport): Counts mentions that overlap, are in several pieces, or begin or end inside tokens.
    inside_tokens (str): "leave_out" such mentions, or "expand" them to whole tokens.
    RETURNS (Doc): The document, with its name in `user_data`.
    """
    doc = tokenize(document.text)
    doc.user_data[DOC_ID] = document.doc_id
    mentions: list[tuple[Span, Annotation]] = []
    for annotation in document.annotations:
        span = _make_span(doc, document, annotation, report, inside_tokens)
        if span is not None:
            mentions.append((span, annotation))
    doc.ents, others = split_overlapping(span for span, annotation in mentions if not annotation.pieces)
    for span in others:
        report.note_odd("mentions that overlap a longer one", f"document {document.doc_id}: {span.text!r:.60}")
    if others:
        doc.spans[OVERLAPPING] = SpanGroup(doc, name=OVERLAPPING, spans=others)
    if in_pieces := list(_keep_pieces(mentions, f"document {document.doc_id}", report)):
        doc.spans[DISCONTINUOUS] = SpanGroup(doc, name=DISCONTINUOUS, spans=in_pieces)
    return doc


def _keep_pieces(mentions: Sequence[tuple[Span, Annotation]], place: str, report: ExchangeReport) -> Iterator[Span]:
    """Store the pieces of mentions that have several. Only one mention with the same label and ends can have pieces."""
    whole = ((span.start, span.end, span.label) for span, annotation in mentions if not annotation.pieces)
    places: dict[tuple[int, int, int], list[list[int]]] = {key: [] for key in whole}
    for span, annotation in mentions:
        if not annotation.pieces:
            continue
        where = f"{place}: {span.text!r:.60}"
        pieces = [[start - span.start_char, end - span.start_char] for start, end in annotation.pieces]
        # At its ends, white space was perhaps left off, or it was extended to whole tokens.
        pieces[0][0] = 0
        pieces[-1][1] = span.end_char - span.start_char
        if places.setdefault((span.start, span.end, span.label), pieces) != pieces:
            report.leave_out("mentions in several pieces with the ends and the label of another one", where)
            continue
        report.note_odd(f"mentions in several pieces, in the span group {DISCONTINUOUS!r}", where)
        write_match(span, Match(label=span.label_, how="", pieces=pieces, terminology="", names=[], score=0, trust=1))
        yield span


def _make_span(
    doc: Doc, document: AnnotatedText, annotation: Annotation, report: ExchangeReport, inside_tokens: str
) -> Span | None:
    start = annotation.start
    end = annotation.end
    place = f"{annotation.place or f'document {document.doc_id}'}: {document.cut(annotation)!r:.60}"
    if not 0 <= start < end <= len(document.text):
        report.leave_out("mentions outside of their text", place)
        return None
    if not annotation.label:
        report.note_odd(f"mentions without a label, which get {LABEL!r}", place)
    # Spaces between tokens are in no token; annotators often mark one too many.
    trimmed = trim_span(document.text, start, end)
    ways = [("strict", (start, end), "")]
    ways.append(("strict", trimmed, "mentions with white space at their ends, which is left off"))
    if inside_tokens == "expand":
        ways.append(("expand", trimmed, "mentions extended to whole tokens"))
    for mode, (first, last), oddity in ways:
        span = None
        if first < last:
            span = doc.char_span(first, last, annotation.label or LABEL, annotation.kb_id, alignment_mode=mode)
        if span is not None:
            if oddity:
                report.note_odd(oddity, place)
            if annotation.context is not None:
                write_context(span, annotation.context)
            return span
    report.leave_out("mentions that begin or end inside a token", place)
    return None


def trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Take the spaces off the ends of a span; start and end are equal if there is nothing but spaces."""
    span = text[start:end]
    return start + len(span) - len(span.lstrip()), max(start, end - (len(span) - len(span.rstrip())))


def split_overlapping(spans: Iterable[Span]) -> tuple[list[Span], list[Span]]:
    """Choose spans that do not overlap: the longest first, the first of equal ones. Return them, and the others."""
    spans = list(spans)
    chosen = filter_spans(spans)
    identities = set(map(id, chosen))
    others = [span for span in spans if id(span) not in identities]
    return chosen, sorted(others, key=lambda span: (span.start, -span.end))
