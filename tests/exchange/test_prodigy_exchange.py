"""Prodigy: spans with and without an id come back, and faults are counted."""

import json

import pytest
from annotated_texts import annotated_texts, check_refused, count_refused, ways
from hypothesis import given

from spacy_sapbert.exchange.documents import Annotation, ExchangeReport

read_prodigy, _ = ways("prodigy")


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf8")
    return path


@given(annotated_texts())
def test_spans_are_read_as_they_are(tmp_path_factory, document):
    report = ExchangeReport("skip")
    spans = [{"start": a.start, "end": a.end, "label": a.label, "kb_id": a.kb_id} for a in document.annotations]
    path = write(tmp_path_factory.mktemp("prodigy") / "a.jsonl", {"text": document.text, "spans": spans, "doc_id": "x"})
    found = list(read_prodigy(path, report))
    kept = [a for a in document.annotations if document.text[a.start : a.end].strip()]
    if document.text.strip():
        assert [(doc.doc_id, doc.text, doc.annotations) for doc in found] == [("x", document.text, kept)]
        assert count_refused(report) == len(document.annotations) - len(kept)
    else:
        assert not found and count_refused(report) == 1


def test_ids_names_and_answers(tmp_path):
    spans = [{"start": 0, "end": 4, "kb_id": ["X:C1", "X:C2"]}, {"start": 0, "end": 1, "label": "L", "kb_id": "NIL"}]
    records = [
        {"text": "cold", "spans": spans, "meta": {"doc_id": 7}},
        {"text": "b", "answer": "reject"},
        {"text": "c"},
    ]
    report = ExchangeReport()
    first, second = read_prodigy(write(tmp_path / "mine.jsonl", *records), report, "X:")
    assert first.annotations == [Annotation(0, 4, "", "C1|C2"), Annotation(0, 1, "L", "NIL")]
    assert (first.doc_id, second.doc_id, second.annotations) == ("7", "mine-3", [])
    assert report.left_out["examples that were rejected or ignored"]["count"] == 1


@pytest.mark.parametrize("record", ["[]", "{", '{"text": 1}', '{"text": "a", "spans": [{"start": 0, "end": 9}]}'])
def test_faults_of_prodigy_are_refused_or_counted(tmp_path, record):
    (tmp_path / "a.jsonl").write_text(record, encoding="utf8")
    check_refused(lambda report: list(read_prodigy(tmp_path / "a.jsonl", report)), "a.jsonl, line 1")
