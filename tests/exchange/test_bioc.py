"""BioC's JSON: documents come back as they went out; passages and sentences make one text."""

import json

import pytest
from annotated_texts import annotated_texts, check_refused, take, tokenize, ways
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.exchange.documents import AnnotatedText, Annotation, ExchangeReport, annotate, make_doc

read_bioc, write_bioc = ways("bioc")


def note(text, start, length, **infons):
    return {"id": "1", "infons": infons, "text": text, "locations": [{"offset": start, "length": length}]}


def read(tmp_path, *passages, report=None):
    path = tmp_path / "in.json"
    path.write_text(json.dumps({"documents": [{"id": "7", "passages": list(passages)}]}), encoding="utf8")
    return list(read_bioc(path, report or ExchangeReport()))


@given(st.lists(annotated_texts(labels=("D x", "\t")), max_size=3))
def test_documents_come_back_from_bioc(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("bioc") / "out.json"
    docs = [make_doc(document, tokenize, ExchangeReport()) for document in documents]
    going = annotate(docs, ExchangeReport())
    write_bioc(going, path, ExchangeReport())
    report = ExchangeReport()
    found = list(read_bioc(path, report))
    assert found == going and not report.odd and not report.left_out
    for before, after in zip(documents, found, strict=True):
        assert set(before.annotations) == set(take(make_doc(after, tokenize, ExchangeReport())).annotations)


def test_passages_and_sentences_make_one_text(tmp_path):
    sentence = {"offset": 12, "text": "It hurts.", "annotations": [note("hurts", 15, 5, type="Sign")]}
    first = {"offset": 0, "text": "Sore toe.", "annotations": [note("toe", 5, 3, type="Part", identifier="D1;D2")]}
    [found] = read(tmp_path, first, {"offset": 12, "sentences": [sentence]})
    assert found.text == "Sore toe.   It hurts." and found.doc_id == "7"
    assert found.annotations == [Annotation(5, 8, "Part", "D1|D2"), Annotation(15, 20, "Sign")]


def test_exports_of_pubtator_3_and_single_documents_are_read(tmp_path):
    document = {"id": 7, "passages": [{"offset": 0, "text": "toe", "annotations": [note("toe", 0, 3, identifier="-")]}]}
    for data in ({"PubTator3": [document]}, document):
        (tmp_path / "in.json").write_text(json.dumps(data), encoding="utf8")
        [found] = read_bioc(tmp_path / "in.json", ExchangeReport())
        assert (found.doc_id, found.annotations) == ("7", [Annotation(0, 3, "", "NIL")])


def test_units_of_utf_16_are_converted_and_pieces_counted(tmp_path):
    pieces = {"text": "Sore it", "infons": {}, "locations": [{"offset": 3, "length": 4}, {"offset": 8, "length": 2}]}
    report = ExchangeReport()
    passage = {"offset": 0, "text": "😀 Sore it", "annotations": [note("Sore", 3, 4), pieces]}
    [found] = read(tmp_path, passage, report=report)
    assert found.annotations == [Annotation(2, 6)]
    assert report.odd["documents with offsets in units of UTF-16, which are converted"]["count"] == 1
    assert report.left_out["mentions in several pieces"]["count"] == 1


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[]", "no collection"),
        ("{", "no valid JSON"),
        ('"\\ud83d"', "no valid JSON"),
        ('{"documents": [{"id": 1}]}', "not of this form .*passages"),
        ('{"documents": ["a"]}', "not of this form"),
        (
            json.dumps({"id": 1, "passages": [{"offset": 0, "text": "ab", "annotations": [note("b", 0, 1)]}]}),
            "mention is 'b'",
        ),
        (json.dumps({"id": 1, "passages": [{"offset": 0, "text": "ab"}, {"offset": 1, "text": "b"}]}), "begins before"),
    ],
)
def test_faults_of_bioc_are_refused_or_counted(tmp_path, content, fault):
    (tmp_path / "a.json").write_text(content, encoding="utf8")
    check_refused(lambda report: list(read_bioc(tmp_path / "a.json", report)), fault)


def test_ids_that_would_change_are_refused(tmp_path):
    with pytest.raises(ValueError, match="would be read back as"):
        write_bioc([AnnotatedText("a", "ab", [Annotation(0, 1, "D", "C1;C2")])], tmp_path / "a", ExchangeReport())
