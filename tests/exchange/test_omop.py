"""OMOP: rows of NOTE_NLP with the columns and types of CDM 5.4, and concept 0 with its reason."""

import csv
import datetime

import pytest
import spacy
from annotated_texts import HEADER, annotated_texts, count_kinds, run, save, tokenize
from conftest import build_terminology
from hypothesis import given
from spacy.tokens import Span

from spacy_sapbert.exchange.documents import DOC_ID, ExchangeReport, annotate, make_doc
from spacy_sapbert.exchange.fhir import CODE_SYSTEMS, CodeFinder, normalize_source
from spacy_sapbert.exchange.omop import COLUMNS, AthenaTables, NoteNlp, export_notes

nlp = spacy.blank("en")
# Athena quotes nothing: a quotation mark is part of a name.
CONCEPTS = (
    '260427\tThe "common" cold\tCondition\tSNOMED\tDisorder\tS\t82272006\n'
    "45571668\tAcute nasopharyngitis\tCondition\tICD10CM\t3-char\t\tJ00\n"
    "1\tOther\tCondition\tICD10CM\t3-char\t\t82272006\n"
)


WIDTHS = {"snippet": 250, "offset": 50, "lexical_variant": 250, "nlp_system": 250, "term_exists": 1}
WIDTHS |= {"term_temporal": 50, "term_modifiers": 2000}


@pytest.fixture
def concepts(tmp_path):
    path = tmp_path / "CONCEPT.csv"
    path.write_text(HEADER + CONCEPTS, encoding="utf8")
    return path


@pytest.fixture(scope="module")
def terminology():
    codes = {"C0000001": ["ICD10CM:J00", "SNOMEDCT_US:82272006"], "C0000002": ["ICD10CM:J00"], "C0000003": ["MSH:D1"]}
    return build_terminology({id_: [f"name {id_}"] for id_ in (*codes, "C0000004")}, codes=codes)


def make_note(name, *ids):
    doc = nlp.make_doc(" ".join("mention" for _ in ids))
    doc.user_data[DOC_ID] = name
    doc.ents = [Span(doc, i, i + 1, "D", kb_id=id_) for i, id_ in enumerate(ids)]
    return doc


def take_all(doc):
    return annotate([doc], ExchangeReport())


def check_types(row):
    """Check a row as it is written, by the types of CDM 5.4."""
    assert list(row) == list(COLUMNS)
    for column in ("note_nlp_id", "note_id", "section_concept_id", "note_nlp_concept_id", "note_nlp_source_concept_id"):
        assert 0 <= int(row[column]) < 2**31
    assert datetime.date.fromisoformat(row["nlp_date"]) and row["lexical_variant"]
    for column, width in WIDTHS.items():
        assert len(row[column]) <= width


def read(path):
    with path.open(encoding="utf8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        check_types(row)
    return rows


def count_zeros(report):
    return [entry["count"] for kind, entry in report.odd.items() if kind.startswith("mentions with the concept 0")]


def export(folder, notes, doc, athena):
    export_notes(take_all(doc), folder / "out.csv", notes, athena)
    return read(folder / "out.csv")


def test_rows_and_reasons(tmp_path, concepts, terminology):
    doc = make_note("7", "C0000001", "C0000002", "C0000003", "C0000004", "NIL")
    report = ExchangeReport()
    notes = NoteNlp(CodeFinder(terminology), report, nlp_date=datetime.date(2025, 1, 2), first_id=10)
    rows = export(tmp_path, notes, doc, AthenaTables(concepts))
    found = [(row["note_nlp_concept_id"], row["note_nlp_source_concept_id"], row["term_modifiers"]) for row in rows]
    assert found == [
        ("260427", "45571668", ""),
        ("0", "45571668", "unmapped=its codes stand for no standard concept"),
        ("0", "0", "unmapped=CONCEPT.csv has none of its codes"),
        ("0", "0", "unmapped=the concept has no code in a vocabulary of Athena"),
        ("0", "0", "unmapped=the mention has no concept"),
    ]
    assert [(row["note_nlp_id"], row["note_id"], row["offset"], row["nlp_date"]) for row in rows[:2]] == [
        ("10", "7", "0", "2025-01-02"),
        ("11", "7", "8", "2025-01-02"),
    ]
    assert count_zeros(report) == [1, 1, 1, 1]
    of_snomed = NoteNlp(CodeFinder(terminology), report, sources=["SNOMEDCT_US"])
    [first, *_] = of_snomed.list_rows(take_all(doc), AthenaTables(concepts))
    assert first["note_nlp_source_concept_id"] == 260427
    notes = NoteNlp(CodeFinder(), report, vocabularies={"local": "SNOMED"})
    [row] = notes.list_rows(take_all(make_note("1", "LOCAL:82272006")), AthenaTables(concepts))
    assert row["note_nlp_concept_id"] == 260427


RELATIONSHIPS = "concept_id_1\tconcept_id_2\trelationship_id\tvalid_start_date\tvalid_end_date\tinvalid_reason\n"


def write_relations(path, rows):
    """Write CONCEPT_RELATIONSHIP.csv of rows with two ids, a relation and the reason why it is not valid."""
    lines = ["\t".join([*row[:3], "20200101", "20991231", row[3]]) for row in rows]
    path.write_text(RELATIONSHIPS + "".join(f"{line}\n" for line in lines))
    return path


def test_codes_map_to_standard_concepts(tmp_path, concepts, terminology):
    more = "2\tB\tCondition\tSNOMED\tDisorder\tS\t2\n3\tD\tCondition\tMeSH\tMain\t\tD1\n"
    concepts.write_text(HEADER + CONCEPTS + more)
    relations = [
        ("45571668", to, "Maps to", "") for to in ("260427", "2", "2", "1", "99")
    ]  # 1 and 99 are not standard.
    relations += [("3", "2", "Maps to", "D"), ("3", "2", "Is a", ""), ("260427", "2", "Maps to", "")]
    path = write_relations(tmp_path / "CONCEPT_RELATIONSHIP.csv", relations)
    report = ExchangeReport()
    doc = make_note("7", "C0000001", "C0000002", "C0000003")
    notes = NoteNlp(CodeFinder(terminology), report)
    rows = export(tmp_path, notes, doc, AthenaTables(concepts, path))
    kept = ("note_nlp_id", "offset", "note_nlp_concept_id", "note_nlp_source_concept_id", "term_modifiers")
    assert [tuple(row[column] for column in kept) for row in rows] == [
        # Another of its codes is standard.
        ("1", "0", "260427", "45571668", ""),
        ("2", "8", "2", "45571668", ""),
        ("3", "8", "260427", "45571668", ""),
        ("4", "16", "0", "3", "unmapped=its codes stand for no standard concept"),
    ]
    assert count_zeros(report) == [1]


@pytest.mark.parametrize("turned", [False, True])
def test_a_code_that_stands_twice_is_the_concept_that_helps(tmp_path, concepts, turned):
    rows = ["20\tA\tCondition\tICD10CM\t3-char\tS\tJ00\n", "21\tB\tCondition\tICD10CM\t3-char\t\tJ00\n"]
    rows += ["30\tC\tCondition\tICD10CM\t3-char\t\tJ01\n", "31\tD\tCondition\tICD10CM\t3-char\t\tJ01\n"]
    concepts.write_text(HEADER + "".join(reversed(rows) if turned else rows))
    # NULL as databases write it.
    path = write_relations(tmp_path / "CONCEPT_RELATIONSHIP.csv", [("31", "20", "Maps to", "NULL")])
    keys = [("ICD10CM", "J00"), ("ICD10CM", "J01"), ("ICD10CM", "J02")]
    assert AthenaTables(concepts, path).find(keys) == {keys[0]: (20, (20,)), keys[1]: (31, (20,))}


@pytest.mark.xfail(
    reason="A concept that is retired itself is followed in silence.", raises=AssertionError, strict=True
)
def test_a_retired_code_is_followed_and_said(tmp_path):
    path, report = tmp_path / "CONCEPT.csv", ExchangeReport()
    rows = "30\tC\tCondition\tICD10CM\tcode\t\tJ01\tU\n20\tA\tCondition\tSNOMED\tDisorder\tS\t2\t\n"
    path.write_text(f"{HEADER.strip()}\tinvalid_reason\n{rows}")
    relations = write_relations(tmp_path / "CONCEPT_RELATIONSHIP.csv", [("30", "20", "Maps to", "")])
    notes = NoteNlp(CodeFinder(build_terminology({"C1": ["a"]}, codes={"C1": ["ICD10CM:J01"]})), report)
    [row] = notes.list_rows(take_all(make_note("1", "C1")), AthenaTables(path, relations))
    if (row["note_nlp_concept_id"], row["note_nlp_source_concept_id"]) != (20, 30):
        raise ValueError("It is not followed.")
    assert "retired" in row["term_modifiers"] or any("retired" in kind for kind in count_kinds(report))


ROW = "A\tCondition\tICD10CM\t3-char\tS\tJ00"


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "empty"),
        (b"concept_id,vocabulary_id\n1,SNOMED\n", "no column concept_id, vocabulary_id"),
        (f"{HEADER}abc\t{ROW}\n".encode(), "'abc' is no concept_id.*'J00'"),
        (f"{HEADER}\t{ROW}\n".encode(), "None is no concept_id.*'J00'"),
        (f"{HEADER}1\t{ROW}é\n".encode("latin1"), "utf-?8"),
        # The code that is asked for is elsewhere, and some of the columns are not read.
        (f"{HEADER}1\t{ROW}\n\n2\tB\t{ROW}\n".encode(), "line 4 has 8 fields, but there are 7 columns"),
        (f"{HEADER}1\t{ROW}\n2\tB\tCondition\n".encode(), "line 3 has 3 fields, but there are 7 columns"),
        (f"{HEADER}1\t{ROW}\r\n2\t{ROW}\t\r\n".encode(), "line 3 has 8 fields, but there are 7 columns"),
    ],
)
def test_tables_that_cannot_be_read_are_named(concepts, content, reason):
    concepts.write_bytes(content)
    with pytest.raises(ValueError, match=rf"(?is)CONCEPT\.csv.*{reason}"):
        AthenaTables(concepts).find([("ICD10CM", "J00")])
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        AthenaTables(concepts.with_name("none.csv")).find([("ICD10CM", "J00")])


def test_relations_with_missing_or_shifted_columns_are_named(tmp_path, concepts):
    path = write_relations(tmp_path / "CONCEPT_RELATIONSHIP.csv", [("1", "2", "Maps\tto", ""), ("1", "2", "Is a", "")])
    with pytest.raises(ValueError, match=r"RELATIONSHIP\.csv cannot.*line 2 has 7 fields, but there are 6 columns"):
        AthenaTables(concepts, path).find([("ICD10CM", "J00")])
    path.write_text("concept_id_1\tconcept_id_2\n")
    with pytest.raises(ValueError, match="CONCEPT_RELATIONSHIP.csv.*no column relationship_id, invalid_reason"):
        AthenaTables(concepts, path).find([("ICD10CM", "J00")])


def test_what_athena_calls_a_source_is_known():
    named = {source: system.vocabulary for source, system in CODE_SYSTEMS.items() if system.vocabulary}
    assert all(source == normalize_source(vocabulary) for source, vocabulary in named.items())


def test_documents_that_are_not_named_by_a_note_id_are_refused(concepts):
    notes = NoteNlp(CodeFinder(), ExchangeReport())
    for name in ("note-a", "017", "9" * 19, "9" * 5000, "１８"):
        with pytest.raises(ValueError, match=f"document {name}.*not a whole number"):
            list(notes.list_rows(take_all(make_note(name, "C1")), AthenaTables(concepts)))


def test_the_command_writes_the_table(tmp_path, concepts, terminology):
    terminology.to_disk(tmp_path / "terminology")
    save(tmp_path / "d.spacy", make_note("7", "C0000001"), make_note("x", "NIL"))
    (tmp_path / "relationships.csv").write_text(RELATIONSHIPS)
    paths = {"--concepts": concepts, "--terminology": "terminology", "--relationships": "relationships.csv"}
    options = [part for option, name in paths.items() for part in (option, tmp_path / name)]
    options += ["--errors", "skip", "--nlp-date", "2025-01-02"]
    assert "1 malformed" in run("to-omop", tmp_path / "d.spacy", tmp_path / "out.csv", *options)
    [row] = read(tmp_path / "out.csv")
    assert row["note_nlp_concept_id"] == "260427"


@given(annotated_texts(characters="a\"',; \n\t\r😀"))
def test_any_mention_gives_a_row(tmp_path_factory, document):
    folder = tmp_path_factory.mktemp("omop")
    (folder / "CONCEPT.csv").write_text(HEADER + CONCEPTS, encoding="utf8")
    doc = make_doc(document, tokenize, ExchangeReport())
    doc.user_data[DOC_ID] = "3"
    notes = NoteNlp(CodeFinder(), ExchangeReport())
    rows = export(folder, notes, doc, AthenaTables(folder / "CONCEPT.csv"))
    assert len(rows) == len(document.annotations)
    for row in rows:
        # Of equal length, because line ends become spaces.
        mention = document.text[int(row["offset"]) :][: len(row["lexical_variant"])]
        assert row["lexical_variant"].split() == mention.split()
