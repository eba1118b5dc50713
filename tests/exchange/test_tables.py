"""Tables of mentions: documents come back as they went out, and candidates have columns."""

import csv

import pytest
import spacy
from annotated_texts import annotated_texts, check_refused, take, tokenize, ways
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Span

from spacy_sapbert.annotations import register_extensions
from spacy_sapbert.exchange.documents import AnnotatedText, Annotation, ExchangeReport, annotate, make_doc
from spacy_sapbert.exchange.formats import export_docs

read_csv, write_csv = ways("csv")


@given(
    st.sampled_from(["csv", "tsv"]),
    st.lists(
        annotated_texts(labels=("a,b", 'x\t"'), ids=("", "NIL", "C1|C2", "a b;c")),
        max_size=3,
        unique_by=lambda doc: doc.doc_id,
    ),
)
def test_documents_come_back_from_tables(tmp_path_factory, name, documents):
    read, write = ways(name)
    folder = tmp_path_factory.mktemp("tables")
    going = annotate([make_doc(doc, tokenize, ExchangeReport()) for doc in documents], ExchangeReport())
    write(going, folder, ExchangeReport())
    assert list(read(folder, ExchangeReport())) == going
    assert [set(doc.annotations) for doc in going] == [set(doc.annotations) for doc in documents]


def test_long_mentions_come_back(tmp_path):
    document = AnnotatedText("a", "x" * 200_000, [Annotation(0, 200_000, "D", "C1")])
    limit = csv.field_size_limit()
    write_csv([document], tmp_path, ExchangeReport())
    assert list(read_csv(tmp_path, ExchangeReport())) == [document]
    assert csv.field_size_limit() == limit


def test_candidates_have_columns(tmp_path):
    register_extensions()
    doc = spacy.blank("en").make_doc("a cold")
    doc.ents = [Span(doc, 1, 2, "D", kb_id="C1")]
    candidate = {"id": "C1", "concept_id": "C1", "name": "cold, common", "canonical_name": "Common Cold", "types": []}
    doc.ents[0]._.kb_candidates = [{**candidate, "score": 0.5, "mention": "cold", "probability": 0.25}]
    write_csv([take(doc, "n")], tmp_path, ExchangeReport(), "UMLS:")
    with (tmp_path / "mentions.csv").open(encoding="utf8", newline="") as file:
        [row] = csv.DictReader(file)
    of_mention, of_candidate = ["n", "2", "6", "D", "UMLS:C1", "cold"], ["cold, common", "Common Cold", "0.5", "0.25"]
    assert list(row.values()) == [*of_mention, *of_candidate, *[""] * 5]
    [found] = read_csv(tmp_path, ExchangeReport(), "UMLS:")
    assert found.annotations == [Annotation(2, 6, "D", "C1")]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("b,0,1,D,C1,a", "no such document as 'b'"),
        ("a,0,x,D,C1,a", "offsets that are no numbers"),
        ("a,0,1,D,C1,b", "the text from 0 to 1 is 'a'"),
        ("a,0", "offsets that are no numbers"),
    ],
)
def test_faults_of_tables_are_refused_or_counted(tmp_path, rows, fault):
    (tmp_path / "texts.jsonl").write_text('{"document": "a", "text": "ab"}\n', encoding="utf8")
    (tmp_path / "mentions.csv").write_text(f"document,start,end,label,id,mention\n{rows}\n", encoding="utf8")
    check_refused(lambda report: list(read_csv(tmp_path, report)), f"row 2.*{fault}")


def test_a_table_that_is_cut_within_a_row_is_refused(tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"document": "a", "text": "ab"}\n', encoding="utf8")
    (tmp_path / "mentions.csv").write_bytes(b"document,start,end,label,id,mention\na,0,1,D\r,C1,a\n")
    with pytest.raises(ValueError, match="mentions.csv: new-line character"):
        list(read_csv(tmp_path, ExchangeReport()))


def test_missing_columns_and_null_characters_are_refused(tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"document": "a", "text": "ab"}\n[]\n', encoding="utf8")
    (tmp_path / "mentions.csv").write_text("document,start\n", encoding="utf8")
    with pytest.raises(ValueError, match="no column end, label, id, mention"):
        list(read_csv(tmp_path, ExchangeReport("skip")))
    with pytest.raises(ValueError, match="no object with a text"):
        list(read_csv(tmp_path, ExchangeReport()))
    with pytest.raises(ValueError, match="a null character"):
        write_csv([AnnotatedText("a", "a\0", [Annotation(0, 2, "D")])], tmp_path, ExchangeReport())


def test_a_second_text_of_one_document_is_refused(tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"document": 1, "text": "ab"}\n{"document": "1", "text": "b"}\n')
    (tmp_path / "mentions.csv").write_text("document,start,end,label,id,mention\n1,0,2,D,C1,ab\n", encoding="utf8")
    fault = "texts.jsonl, line 2: a second document '1'"
    [found] = check_refused(lambda report: list(read_csv(tmp_path, report)), fault)
    assert (found.text, found.annotations) == ("ab", [Annotation(0, 2, "D", "C1")])


@given(
    st.sampled_from(["csv", "tsv"]),
    annotated_texts(characters="=+-@\t\r\n'\"a,", labels=("=D", "'-D", "D"), ids=("", "@C1", "'C1", "''C1|-C2")),
)
def test_formulas_are_escaped_and_come_back(tmp_path_factory, name, document):
    folder = tmp_path_factory.mktemp("formulas")
    going = take(make_doc(document, tokenize, ExchangeReport()), "=1+1")
    read, write = ways(name)
    write([going], folder, ExchangeReport(), "+", escape_formulas=True)
    with (folder / f"mentions.{name}").open(encoding="utf8", newline="") as file:
        cells = [cell for row in csv.reader(file, delimiter="\t" if name == "tsv" else ",") for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert list(read(folder, ExchangeReport(), "+")) == [going]


def test_only_tables_have_formulas(tmp_path):
    with pytest.raises(ValueError, match="'brat' to write with formulas escaped.*csv, tsv"):
        export_docs("brat", tmp_path / "docs.spacy", tmp_path / "out", ExchangeReport(), escape_formulas=True)
