"""The formats of annotated texts, by name, and the ways from files to files. Each output appears whole. Functions named
`read_` and `dump_` keep ids as a format writes them. Dumping yields the content of files, each with its path in the
folder; the path is empty if a format has one file."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import spacy

from ..annotations import NIL
from ..context import FLAGS
from ..errors import BAD_SETTING, NO_FILE
from ..files import fill_folder, write_whole
from ..text import MARK, escape_formula
from . import brat, fields, pubtator, tools
from .documents import (
    OVERLAPPING,
    AnnotatedText,
    Annotation,
    ExchangeReport,
    find_candidate,
    list_mentions,
    make_doc,
    tidy_pieces,
    write_docs,
)
from .names import WRITTEN, find_other
from .records import (
    OF_CANDIDATE,
    PARQUET_FORM,
    PIECES,
    PRODIGY_FORM,
    dump_choices,
    dump_parquet,
    dump_prodigy,
    read_parquet,
    read_prodigy,
)

BIOC_FORM = (
    '{"documents": [{"id": "1", "passages": [{"offset": 0, "text": "a cold", "annotations": [{"text": "cold", '
    '"infons": {"type": "Disease", "identifier": "MESH:D003139"}, "locations": [{"offset": 2, "length": 4}]}]}]}]}'
)
# The infons of ids in files of NCBI's taggers, BC5CDR, NLM-Gene, bconv and others, compared without regard to capitals.
ID_INFONS = (
    *("identifier", "MESH", "OMIM", "UMLS", "CUI", "NCBI Gene", "NCBI Gene identifier", "NCBI Taxonomy", "native_id"),
)
# The elements of BioC XML that stand in lists of JSON.
LISTED = frozenset(("document", "passage", "sentence", "annotation", "location"))
# Spaces between two passages. A damaged offset can ask for more than there is memory.
MAX_GAP = 1_000_000
INCEPTION_FORM = "UIMA CAS JSON, whose %FEATURE_STRUCTURES have one text, a uima.cas.Sofa"
SOFA = "uima.cas.Sofa"
DOCUMENT = "uima.tcas.DocumentAnnotation"
VIEW = "_InitialView"
NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
IDENTIFIER = "identifier"
# Layers that INCEpTION has in each document: tokens, sentences and what it knows of the file.
OWN_LAYERS = (".segmentation.type.", ".metadata.type.", "uima.")
_FEATURES = {name: {"%NAME": name, "%RANGE": "uima.cas.String"} for name in ("value", IDENTIFIER)}
TYPES = {NAMED_ENTITY: {"%NAME": NAMED_ENTITY, "%SUPER_TYPE": "uima.tcas.Annotation", **_FEATURES}}
TEXTS = "texts.jsonl"
DELIMITERS = {"csv": ",", "tsv": "\t"}
READ = ("document", "start", "end", "label", "id", "mention")
# A column that says that cells have the mark: it is in each row.
MARKED = "escaped"
# Tasks for choices, and mentions that are not only white space.
CHOICES, VISIBLE = "prodigy-choice", r".*\S.*"
# Prodigy leaves `spans` out where an annotator has marked nothing.
PRODIGY_KEYS = ("spans", "answer", "_task_hash")
TABLE_FORM = f"a table with the columns {', '.join(READ)}"
TEXTS_FORM = '{"document": "1", "text": "a cold"}'


def read_bioc(path: Path, report: ExchangeReport, *, id_infons: Sequence[str] = ()) -> Iterator[AnnotatedText]:
    """Read a collection, a list of documents, a document or an export of PubTator 3: JSON, JSON lines or XML. Spaces
    fill the gaps between passages. Ids are in the first of `id_infons` that an annotation has, by default of
    `ID_INFONS`."""
    names = [name.casefold() for name in id_infons or ID_INFONS]
    for number, document in enumerate(_list_documents(path, report), 1):
        place = f"{path.name}, document {number}"
        try:
            name = str(document["id"])
            text, rows = _parse_passages(document)
        # What reading malformed records can raise.
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            report.refuse(place, f"not of this form ({error!r:.80})", BIOC_FORM)
            continue
        place = f"{place} ({name})"
        written = []
        for places, mention, infons in rows:
            where = f"{place}: {mention!r:.60}"
            if not places:
                report.leave_out("annotations without a place", where)
                continue
            start = min(places)[0]
            end = max(end for _, end in places)
            pieces = tuple(sorted(places))
            label = str(infons.get("type") or "")
            ids = _find_ids(infons, names, where, report)
            annotation = Annotation(start, end, label, ids, place, context=fields.read_flags(infons), pieces=pieces)
            written.append((annotation, mention or text[start:end]))
        annotations = fields.place_mentions(text, written, place, report, BIOC_FORM)
        yield AnnotatedText(name, text, [tidy_pieces(text, annotation) for annotation in annotations])


def _list_documents(path: Path, report: ExchangeReport) -> Iterator[Any]:
    values: Iterable[Any]
    if path.is_file() and path.read_bytes().removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<"):
        root = fields.parse_xml(path.read_bytes(), str(path), report, "a collection of BioC XML")
        try:
            values = [] if root is None else [_parse_element(root)]
        except RecursionError:
            report.refuse(str(path), "too many elements in elements", "a collection of BioC XML")
            return
    else:
        values = fields.parse_values(fields.read_text(path, report), str(path), report, BIOC_FORM)
    for data in values:
        # PubTator 3 has a key of its own.
        documents = data.get("documents", data.get("PubTator3", [data])) if isinstance(data, dict) else data
        if isinstance(documents, list) and (documents or documents is not data):
            yield from documents
        else:
            report.refuse(str(path), "no collection of documents", BIOC_FORM)


def _parse_element(element: Element) -> dict[str, Any]:
    """Convert an element of XML to the form that it has in JSON."""
    record: dict[str, Any] = {**element.attrib, "infons": {}}
    for child in element:
        if child.tag == "infon":
            record["infons"][child.get("key", "")] = child.text
        elif child.tag in LISTED:
            record.setdefault(f"{child.tag}s", []).append(_parse_element(child))
        else:
            record[child.tag] = "".join(child.itertext())
    return record


def _find_ids(infons: dict[str, Any], names: Sequence[str], place: str, report: ExchangeReport) -> str:
    """Find the ids of an annotation. It is counted if other infons have ids as well, or may have them instead."""
    values = {key.casefold(): value for key, value in infons.items()}
    written = [fields.join_ids(values.get(name), place, report, BIOC_FORM) for name in names]
    filled = [ids for ids in written if ids.strip()]
    unread = [key for key in infons if key.casefold() not in ("type", *FLAGS, *names)]
    if len({tuple(fields.split_ids(ids)) for ids in filled}) > 1:
        kind = "annotations with ids in several infons; the first is read: choose one with --id-infon"
        report.note_odd(kind, f"{place}: {', '.join(map(repr, filled)):.80}")
    elif unread and not filled:
        kind = "annotations without an id: if another of their infons has it, name that one with --id-infon"
        report.note_odd(kind, f"{place}: {', '.join(unread):.80}")
    return "".join(filled[:1])


def _parse_passages(document: dict[str, Any]) -> tuple[str, list[tuple[list[tuple[int, int]], str, dict[str, Any]]]]:
    """Join the texts of passages, and list the places, the text and the `infons` of each annotation."""
    text = ""
    parts = []
    for passage in document["passages"]:
        # Some have sentences instead of a text, and some have both.
        parts += [(passage, passage.get("text") or "")]
        parts += [(one, "" if parts[-1][1] else one.get("text") or "") for one in passage.get("sentences") or ()]
    for part, own in parts:
        gap = int(part["offset"]) - len(text)
        if own and gap < 0:
            raise ValueError("a passage begins before the one above it has ended")
        if gap > MAX_GAP:
            raise ValueError(f"a passage is {gap:,} characters behind the one above it")
        if own:
            text += " " * gap + own
    rows = []
    for part in (*(part for part, _ in parts), document):
        for annotation in part.get("annotations") or ():
            places = []
            for location in annotation.get("locations") or ():
                start = int(location["offset"])
                places.append((start, start + int(location["length"])))
            mention = str(annotation.get("text") or "")
            rows.append((places, mention, dict(annotation.get("infons") or {})))
    return text, rows


def dump_bioc(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, str]]:
    """Make a collection. Each document is one passage, and offsets count code points."""
    records = []
    for document in documents:
        rows = []
        for number, annotation in enumerate(document.annotations, 1):
            infons = {"type": annotation.label}
            if annotation.kb_id:
                infons["identifier"] = annotation.kb_id
            infons |= fields.write_flags(annotation.context)
            pieces = annotation.pieces or [(annotation.start, annotation.end)]
            locations = [{"offset": start, "length": end - start} for start, end in pieces]
            text = document.cut_pieces(annotation)
            rows.append({"id": str(number), "infons": infons, "text": text, "locations": locations})
        passage = {"offset": 0, "infons": {}, "text": document.text, "sentences": [], "annotations": rows}
        passage["relations"] = []
        records.append({"id": document.doc_id, "infons": {}, "passages": [passage], "relations": []})
    collection = {"source": "spacy-sapbert", "date": "", "key": "", "infons": {}, "documents": records}
    yield "", json.dumps(collection, ensure_ascii=False, indent=1)


def read_inception(folder: Path, report: ExchangeReport) -> Iterator[AnnotatedText]:
    """Read .json files at any depth. Mentions are named entities and all else with an identifier."""
    paths = sorted(folder.rglob("*.json"), key=lambda path: path.with_suffix(""))
    if not paths:
        report.refuse(str(folder), "there are no .json files", INCEPTION_FORM)
    for path in paths:
        data = fields.parse_json(fields.read_text(path, report), str(path), report, INCEPTION_FORM)
        if data is None:
            continue
        rows = _list_structures(data)
        texts = [row for row in rows if row.get("%TYPE") == SOFA and isinstance(row.get("sofaString"), str)]
        # Other views of a document are not its text.
        texts = [row for row in texts if row.get("sofaID") == VIEW] or texts
        if len(texts) != 1:
            report.refuse(str(path), f"{len(texts)} texts", INCEPTION_FORM)
            continue
        text = texts[0]["sofaString"]
        id_ = str(texts[0].get("%ID"))
        of_text = [row for row in rows if str(row.get("@sofa")) == id_ and row.get("%TYPE") != SOFA]
        name = path.relative_to(folder).with_suffix("").as_posix()
        annotations = _parse_annotations(text, of_text, path.name, report)
        yield AnnotatedText(name, text, list(annotations))


def _list_structures(data: Any) -> list[dict[str, Any]]:
    structures = data.get("%FEATURE_STRUCTURES") if isinstance(data, dict) else None
    if isinstance(structures, dict):
        # Older files have their structures by number, which is text in JSON.
        return [{"%ID": id_, **row} for id_, row in structures.items() if isinstance(row, dict)]
    return [row for row in structures if isinstance(row, dict)] if isinstance(structures, list) else []


def _parse_annotations(
    text: str, rows: list[dict[str, Any]], label: str, report: ExchangeReport
) -> Iterator[Annotation]:
    points = {unit: point for point, unit in enumerate(fields.count_utf16(text))}
    for row in rows:
        kind = str(row.get("%TYPE"))
        identifier = row.get(IDENTIFIER)
        place = f"{label}, feature structure {row.get('%ID')}"
        if kind != NAMED_ENTITY and not isinstance(identifier, str):
            if not any(own in kind for own in OWN_LAYERS):
                report.leave_out(f"annotations of the layer {kind}, which have no {IDENTIFIER}", place)
            continue
        # JSON may leave out zeros.
        begin, end = row.get("begin", 0), row.get("end", 0)
        start, stop = (points.get(at) if type(at) is int else None for at in (begin, end))
        if start is None or stop is None or start >= stop:
            report.refuse(place, f"no mention is from {begin!r:.20} to {end!r:.20}, in units of UTF-16", INCEPTION_FORM)
        else:
            label_ = str(row.get("value") or kind.rpartition(".")[2])
            yield Annotation(start, stop, label_, str(identifier or ""), place)


def dump_inception(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, str]]:
    """Make a file of each document."""
    for name, document in fields.name_files(documents, report):
        units = fields.count_utf16(document.text)
        sofa = {"%ID": 1, "%TYPE": SOFA, "sofaNum": 1, "sofaID": VIEW, "mimeType": "text", "sofaString": document.text}
        row: dict[str, Any] = {"%ID": 2, "%TYPE": DOCUMENT, "@sofa": 1, "begin": 0, "end": units[-1]}
        row["language"] = "x-unspecified"
        rows = [row]
        for id_, annotation in enumerate(document.annotations, 3):
            row = {"%ID": id_, "%TYPE": NAMED_ENTITY, "@sofa": 1}
            row["begin"] = units[annotation.start]
            row["end"] = units[annotation.end]
            row["value"] = annotation.label
            if annotation.kb_id:
                row[IDENTIFIER] = annotation.kb_id
            rows.append(row)
        view = {"%SOFA": 1, "%MEMBERS": [row["%ID"] for row in rows]}
        cas = {"%TYPES": TYPES, "%FEATURE_STRUCTURES": [sofa, *rows], "%VIEWS": {VIEW: view}}
        yield f"{name}.json", json.dumps(cas, ensure_ascii=False, indent=1)


def dump_table(
    documents: Iterable[AnnotatedText], report: ExchangeReport, *, ending: str, escape_formulas: bool = False
) -> Iterator[tuple[str, str]]:
    """Make mentions.csv or mentions.tsv, and the texts as lines of JSON."""
    table = io.StringIO()
    texts = []
    columns = [*READ, *OF_CANDIDATE, *FLAGS, PIECES, *([MARKED] if escape_formulas else [])]
    # Texts in quotation marks: a carriage return in a mention would otherwise end its row.
    form: dict[str, Any] = {"delimiter": DELIMITERS[ending], "lineterminator": "\n", "quoting": csv.QUOTE_NONNUMERIC}
    writer = csv.DictWriter(table, columns, extrasaction="ignore", **form)
    writer.writeheader()
    for document in documents:
        texts.append(json.dumps({"document": document.doc_id, "text": document.text}, ensure_ascii=False) + "\n")
        for annotation in document.annotations:
            mention = document.cut(annotation)
            values = document.doc_id, annotation.start, annotation.end, annotation.label, annotation.kb_id, mention
            cells: dict[str, Any] = {}
            if annotation.span:
                cells |= find_candidate(annotation.span) or {}
            cells |= zip(READ, values, strict=True)
            cells |= fields.write_flags(annotation.context)
            cells[PIECES] = fields.write_pieces(annotation.pieces)
            if any("\0" in str(cells[column]) for column in READ):
                report.refuse(f"document {document.doc_id}: {mention!r:.60}", "a null character", TABLE_FORM)
                continue
            if escape_formulas:
                escaped = {name: escape_formula(cell) for name, cell in cells.items() if isinstance(cell, str)}
                cells |= escaped | {MARKED: MARK}
            writer.writerow(cells)
    yield f"mentions.{ending}", table.getvalue()
    yield TEXTS, "".join(texts)


def read_mention_table(folder: Path, report: ExchangeReport, *, ending: str) -> Iterator[AnnotatedText]:
    """Read mentions.csv or mentions.tsv and the texts beside it, in the order of the texts."""
    documents: dict[str, AnnotatedText] = {}
    lines = fields.read_lines(folder / TEXTS, report)
    for _, place, record in fields.parse_records(lines, TEXTS, report, TEXTS_FORM):
        name = str(record.get("document", ""))
        if "document" not in record:
            report.refuse(place, "a text without a document", TEXTS_FORM)
        elif name in documents:
            report.refuse(place, f"a second document {name!r:.80}, so that its mentions could be of either", TEXTS_FORM)
        else:
            documents[name] = AnnotatedText(name, record["text"], [])
    for place, cells in _read_rows(folder / f"mentions.{ending}", DELIMITERS[ending], report):
        name, start, end, label, ids, mention = (cells[column] for column in READ)
        flags = [cells.get(word, "").lower() for word in FLAGS]
        pieces = cells.get(PIECES, "")
        if name not in documents or not (fields.is_offset(start) and fields.is_offset(end)):
            report.refuse(place, f"no such document as {name!r:.40}, or offsets that are not numbers", TABLE_FORM)
        elif (text := documents[name].text[int(start) : int(end)]) != mention:
            fault = f"the text from {start} to {end} is {text!r:.80}, but the mention is {mention!r:.80}"
            report.refuse(place, fault, TABLE_FORM)
        elif not {"", "true", "false"}.issuperset(flags):
            report.refuse(place, f"{', '.join(FLAGS)} are {flags!r:.80}, not all true or false", TABLE_FORM)
        elif pieces and not fields.is_in_pieces(pieces, start, end):
            fault = f"the pieces {pieces!r:.80} are not '{start} END;...;START {end}'"
            report.refuse(place, fault, TABLE_FORM)
        else:
            places = tuple(fields.read_pieces(pieces)) if pieces else ()
            context = fields.read_flags(cells)
            annotation = Annotation(int(start), int(end), label, ids, place, context=context, pieces=places)
            documents[name].annotations.append(tidy_pieces(documents[name].text, annotation))
    yield from documents.values()


def _read_rows(path: Path, delimiter: str, report: ExchangeReport) -> Iterator[tuple[str, dict[str, str]]]:
    # A whole text may be a mention. The limit is that of the module, so that others find it as it was.
    limit = csv.field_size_limit(1 << 30)
    try:
        lines = (fields.read_text(path, report) or "").removeprefix("\ufeff").split("\n")
        header, *rows = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
    except csv.Error as error:
        report.refuse(str(path), str(error), TABLE_FORM)
        return
    finally:
        csv.field_size_limit(limit)
    if missing := ", ".join(column for column in READ if column not in header):
        raise ValueError(
            f"{path} has no column {missing}. Its columns are: {', '.join(header)[:200]}. Name them in the first line, "
            "with commas between them in a .csv and tabs in a .tsv."
        )
    for number, row in enumerate(rows, 2):
        if any(row[len(header) :]):
            fault = f"{len(row)} cells, but there are {len(header)} columns, so cells are perhaps shifted"
            report.refuse(f"{path.name}, row {number}", fault, TABLE_FORM)
        elif any(row):
            # A short row has no values at its end.
            cells = dict.fromkeys(header, "") | dict(zip(header, row, strict=False))
            if MARKED in header:
                cells = {column: cell.removeprefix(MARK) for column, cell in cells.items()}
            yield f"{path.name}, row {number}", cells


class ExchangeFormat(NamedTuple):
    """How a format is read and written."""

    form: str
    read: Callable[..., Iterator[AnnotatedText]]
    # None for what is only read.
    dump: Callable[..., Iterator[tuple[str, str | bytes]]] | None = None
    # What labels, mentions and names of documents it can hold.
    label: str = ".*"
    mention: str = ".*"
    name: str = ".*"
    is_folder: bool = False
    # Whether it can say that a mention is negated, and such.
    has_context: bool = True
    # Whether it can say where the pieces of a mention are.
    has_pieces: bool = True
    # Whether ids may have any characters, so that only "|" is between them.
    has_any_id: bool = False
    # The keys of JSON in which its mentions are. A file with texts and none of them is of another format.
    keys: tuple[str, ...] = ()


def _make_table(ending: str) -> ExchangeFormat:
    read = partial(read_mention_table, ending=ending)
    dump = partial(dump_table, ending=ending)
    return ExchangeFormat(TABLE_FORM, read, dump, is_folder=True, has_any_id=True)


FORMATS = {
    "bioc": ExchangeFormat(BIOC_FORM, read_bioc, dump_bioc, keys=("annotations",)),
    "brat": ExchangeFormat(brat.FORM, brat.read_brat, brat.dump_brat, *brat.HOLDS, is_folder=True),
    "csv": _make_table("csv"),
    "inception": ExchangeFormat(
        INCEPTION_FORM, read_inception, dump_inception, ".+", is_folder=True, has_context=False, has_pieces=False
    ),
    "parquet": ExchangeFormat(PARQUET_FORM, read_parquet, dump_parquet, mention=VISIBLE, has_any_id=True),
    "prodigy": ExchangeFormat(PRODIGY_FORM, read_prodigy, dump_prodigy, mention=VISIBLE, keys=PRODIGY_KEYS),
    CHOICES: ExchangeFormat(PRODIGY_FORM, read_prodigy, dump_choices, mention=VISIBLE, keys=PRODIGY_KEYS),
    "pubtator": ExchangeFormat(
        *(pubtator.FORM, pubtator.read_pubtator, pubtator.dump_pubtator, *pubtator.HOLDS),
        has_context=False,
        has_pieces=False,
    ),
    "tsv": _make_table("tsv"),
    "doccano": ExchangeFormat(tools.DOCCANO_FORM, tools.read_doccano, keys=tools.DOCCANO_KEYS),
    "label-studio": ExchangeFormat(
        tools.LABEL_STUDIO_FORM, tools.read_label_studio, keys=("annotations", "completions", "lead_time", "labels")
    ),
    "medcattrainer": ExchangeFormat(tools.MEDCAT_FORM, tools.read_medcat, keys=("annotations",)),
    "pubannotation": ExchangeFormat(tools.PUBANNOTATION_FORM, tools.read_pubannotation, keys=("denotations", "tracks")),
}


def read_texts(
    name: str, source: Path, report: ExchangeReport, prefix: str = "", **how: Any
) -> Iterator[AnnotatedText]:
    """Read texts in a format, with ids as in `kb_id_`."""

    def read_kb_id(written: str) -> str:
        if FORMATS[name].has_any_id:
            return fields.ID_SEPARATOR.join(id_.removeprefix(prefix) for id_ in written.split(fields.ID_SEPARATOR))
        return fields.read_kb_id(written, prefix)

    for document in FORMATS[name].read(source, report, **how):
        annotations = [replace(annotation, kb_id=read_kb_id(annotation.kb_id)) for annotation in document.annotations]
        yield replace(document, annotations=annotations)


def write_texts(
    name: str, documents: Iterable[AnnotatedText], output: Path, report: ExchangeReport, prefix: str = "", **how: Any
) -> None:
    """Write texts in a format, as a file or a folder. What the format cannot hold is refused."""
    writable = _list_writable(name, documents, report, prefix)
    dump = FORMATS[name].dump
    assert dump is not None  # `export_docs` takes only what is written.
    # Options have ids of their own.
    how |= {"prefix": prefix} if name == CHOICES else {}
    with fill_folder(output) if FORMATS[name].is_folder else write_whole(output) as place:
        for file, content in dump(writable, report, **how):
            (place / file).write_bytes(content.encode("utf8") if isinstance(content, str) else content)


def _list_writable(
    name: str, documents: Iterable[AnnotatedText], report: ExchangeReport, prefix: str
) -> Iterator[AnnotatedText]:
    format_ = FORMATS[name]
    for document in documents:
        writable = []
        if not re.fullmatch(format_.name, document.doc_id, re.DOTALL):
            fault = f"the name {document.doc_id!r:.80} has a bar, a tab or spaces at its ends"
            report.refuse(f"document {document.doc_id}", fault, format_.form)
            continue
        for annotation in document.annotations:
            mention = document.cut(annotation)
            kb_id = annotation.kb_id
            place = f"document {document.doc_id}: {mention!r:.60}"
            for word in annotation.context.words if annotation.context and not format_.has_context else ():
                report.note_odd(f"{word} mentions, which {name} cannot mark as such", place)
            if annotation.pieces and not format_.has_pieces:
                report.note_odd(f"mentions in several pieces, which {name} joins", place)
            if reason := _find_fault(format_, annotation, mention):
                report.refuse(place, reason, format_.form)
                continue
            ids = (id_ if id_ == NIL else prefix + id_ for id_ in kb_id.split(fields.ID_SEPARATOR) if id_)
            writable.append(replace(annotation, kb_id=fields.ID_SEPARATOR.join(ids)))
        yield replace(document, annotations=writable)


def _find_fault(format_: ExchangeFormat, annotation: Annotation, mention: str) -> str | None:
    label = annotation.label
    kb_id = annotation.kb_id
    if not re.fullmatch(format_.label, label, re.DOTALL):
        return f"the label {label!r:.80} is empty, or has white space where the format has none"
    if not re.fullmatch(format_.mention, mention, re.DOTALL):
        return "a mention of white space, or one that begins or ends with a line break"
    if not format_.has_any_id and fields.read_kb_id(kb_id) != kb_id:
        return f"the id {kb_id!r:.80} would be read back as {fields.read_kb_id(kb_id)!r:.80}"
    return None


def export_docs(
    name: str,
    documents: Sequence[AnnotatedText],
    output: Path,
    report: ExchangeReport,
    *,
    prefix: str = "",
    escape_formulas: bool = False,
) -> dict[str, Any]:
    """Write documents in another format.

    name (str): The format, of `FORMATS`.
    documents (Sequence[AnnotatedText]): The documents, as `annotate` takes them out of spaCy's.
    output (Path): The file or the folder to write to. A folder has to be new or empty.
    report (ExchangeReport): Gets what the format cannot hold.
    prefix (str): What is put before each id, such as "UMLS:".
    escape_formulas (bool): Put an apostrophe before cells of a table that look like a formula.
    RETURNS (dict[str, Any]): The counts, which are written beside the output as well.
    RAISES (ValueError): If there is no such format, or if it cannot hold a document and errors are not skipped.
    """
    if escape_formulas:
        _check_format(name, "write with formulas escaped", DELIMITERS)
    _check_format(name, "write", WRITTEN)
    _check_place(name, output)
    if FORMATS[name].is_folder and output.is_dir() and any(output.iterdir()):
        raise FileExistsError(f"{output} is there already, and not empty. Choose another folder, or clear it.")
    write_texts(name, documents, output, report, prefix, **({"escape_formulas": True} if escape_formulas else {}))
    n_mentions = sum(len(document.annotations) for document in documents)
    return report.write(output, {"documents": len(documents), "mentions": n_mentions})


def _check_format(name: str, direction: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ValueError(f"There is no format '{name}' to {direction}. There are: {', '.join(known)}.")


def _check_place(name: str, path: Path) -> None:
    """Refuse a file where a format takes a folder, and the other way."""
    if path.exists() and path.is_dir() != FORMATS[name].is_folder:
        kind, needed = ("a file", "a folder") if FORMATS[name].is_folder else ("a folder", "a file")
        raise ValueError(f"{path} is {kind}, but the format {name} takes {needed}. Give the path of {needed}.")


def _check_keys(name: str, source: Path) -> None:
    """Refuse a file without mentions if it is of another format."""
    if other := find_other(name, source):
        raise ValueError(other)
    own = FORMATS[name].keys
    keys = fields.list_keys(source.read_text(encoding="utf8", errors="replace")) if own else []
    if keys and not set(keys).intersection(own):
        raise ValueError(
            f"{source} has texts, but nothing below {' or '.join(map(repr, own))}, where {name} has mentions. Its "
            f"keys are: {', '.join(keys):.300}. Choose its format, or rename its keys. The form of {name} is "
            f"{FORMATS[name].form}."
        )


def import_docs(
    name: str,
    source: Path,
    output: Path,
    report: ExchangeReport,
    *,
    prefix: str = "",
    lang: str = "en",
    inside_tokens: str = "leave_out",
    id_infons: Sequence[str] = (),
) -> dict[str, Any]:
    """Write annotations of another format as documents, with gold ids in `kb_id_`.

    name (str): The format, of `FORMATS`.
    source (Path): The file or the folder.
    output (Path): The file to write, .spacy.
    report (ExchangeReport): Gets malformed records, mentions that overlap, and mentions that spaCy cannot hold.
    prefix (str): What stands before each id in the files only, such as "UMLS:".
    lang (str): The language of the tokenizer.
    inside_tokens (str): What is done with mentions that begin or end inside a token: "leave_out", or "expand".
    id_infons (Sequence[str]): The infons of BioC that may have a mention's ids, the first before the others; empty for
        those that are known.
    RETURNS (dict[str, Any]): The counts, which are written beside the output as well.
    RAISES (ValueError): If there is no such format, the output is not .spacy, or a record is malformed and errors are
        not skipped.
    """
    if id_infons:
        _check_format(name, "read with names of infons", ["bioc"])
    _check_format(name, "read", FORMATS)
    if inside_tokens not in ("leave_out", "expand"):
        allowed = "leave_out or expand"
        raise ValueError(BAD_SETTING.format(name="inside_tokens", where="", value=inside_tokens, allowed=allowed))
    if not source.exists():
        raise FileNotFoundError(NO_FILE.format(file=source, cwd=Path.cwd()))
    if output.suffix != ".spacy":
        raise ValueError(f"The name of {output} has to end in .spacy: spaCy's commands read no other documents.")
    texts = _read_own(name, source, report, prefix, **({"id_infons": id_infons} if id_infons else {}))
    nlp = spacy.blank(lang)
    short = _list_short(texts, source, report, nlp.max_length)
    docs = [make_doc(text, nlp.make_doc, report, inside_tokens=inside_tokens) for text in short]
    write_docs(output, docs)
    spans = [span for doc in docs for span in list_mentions(doc)]
    counts = {
        "documents": len(docs),
        "mentions": len(spans),
        "mentions without an id": sum(not span.kb_id_ for span in spans),
        f"mentions in the span group {OVERLAPPING!r}": sum(len(doc.spans.get(OVERLAPPING, ())) for doc in docs),
    }
    return report.write(output, counts)


def _read_own(name: str, source: Path, report: ExchangeReport, prefix: str, **how: Any) -> list[AnnotatedText]:
    """Read texts in a format. Where that fails or gives no mention, say which other format they have."""
    try:
        _check_place(name, source)
        texts = [*read_texts(name, source, report, prefix, **how)]
    except (ValueError, OSError) as error:
        if other := find_other(name, source):
            raise ValueError(other) from error
        raise
    if not any(text.annotations for text in texts):
        _check_keys(name, source)
    return texts


def _list_short(
    texts: Iterable[AnnotatedText], source: Path, report: ExchangeReport, longest: int
) -> Iterator[AnnotatedText]:
    """List the texts that spaCy takes, and report the others."""
    for text in texts:
        if len(text.text) > longest:
            form = f"texts of at most {longest:,} characters, spaCy's limit"
            report.refuse(f"{source}, document {text.doc_id}", f"{len(text.text):,} characters", form)
        else:
            yield text
