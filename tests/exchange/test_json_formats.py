"""BioC, INCEpTION and Prodigy: documents come back as they went out, and faults are counted."""

import json

import pytest
from annotated_texts import annotated_texts, check_refused, count_refused, take, tokenize, ways
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.exchange.documents import AnnotatedText, Annotation, ExchangeReport, annotate, make_doc
from spacy_sapbert.exchange.formats import IDENTIFIER, NAMED_ENTITY, SOFA

read_bioc, write_bioc = ways("bioc")
read_inception, write_inception = ways("inception")
read_prodigy, _ = ways("prodigy")


def make_row(text, start, length, **infons):
    return {"id": "1", "infons": infons, "text": text, "locations": [{"offset": start, "length": length}]}


def read_passages(tmp_path, *passages, report=None):
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
    sentence = {"offset": 12, "text": "It hurts.", "annotations": [make_row("hurts", 15, 5, type="Sign")]}
    first = {"offset": 0, "text": "Sore toe.", "annotations": [make_row("toe", 5, 3, type="Part", identifier="D1;D2")]}
    [found] = read_passages(tmp_path, first, {"offset": 12, "sentences": [sentence]})
    assert found.text == "Sore toe.   It hurts." and found.doc_id == "7"
    assert found.annotations == [Annotation(5, 8, "Part", "D1|D2"), Annotation(15, 20, "Sign")]


def test_exports_of_pubtator_3_and_single_documents_are_read(tmp_path):
    document = {
        "id": 7,
        "passages": [{"offset": 0, "text": "toe", "annotations": [make_row("toe", 0, 3, identifier="-")]}],
    }
    for data in ({"PubTator3": [document]}, document):
        (tmp_path / "in.json").write_text(json.dumps(data), encoding="utf8")
        [found] = read_bioc(tmp_path / "in.json", ExchangeReport())
        assert (found.doc_id, found.annotations) == ("7", [Annotation(0, 3, "", "NIL")])


def test_units_of_utf_16_are_converted_and_pieces_counted(tmp_path):
    pieces = {"text": "Sore it", "infons": {}, "locations": [{"offset": 3, "length": 4}, {"offset": 8, "length": 2}]}
    report = ExchangeReport()
    passage = {"offset": 0, "text": "😀 Sore it", "annotations": [make_row("Sore", 3, 4), pieces]}
    [found] = read_passages(tmp_path, passage, report=report)
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
            json.dumps({"id": 1, "passages": [{"offset": 0, "text": "ab", "annotations": [make_row("b", 0, 1)]}]}),
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


@given(annotated_texts(labels=("D", "x y"), ids=("", "NIL", "http://x.org/D1", "C1|C2")))
def test_documents_come_back_from_inception(tmp_path_factory, document):
    folder = tmp_path_factory.mktemp("inception")
    going = take(make_doc(document, tokenize, ExchangeReport()))
    write_inception([going], folder, ExchangeReport())
    report = ExchangeReport()
    assert list(read_inception(folder, report)) == [going] and not report.left_out
    assert set(going.annotations) == set(document.annotations)
    # UIMA counts as Java does: what its offsets cut out of UTF-16 is the mention.
    [path] = folder.glob("*.json")
    data = json.loads(path.read_text(encoding="utf8"))
    units = document.text.encode("utf-16-le")
    rows = [row for row in data["%FEATURE_STRUCTURES"] if row["%TYPE"] == NAMED_ENTITY]
    cut = [units[2 * row["begin"] : 2 * row["end"]].decode("utf-16-le") for row in rows]
    assert cut == [document.text[note.start : note.end] for note in going.annotations]
    members = data["%VIEWS"]["_InitialView"]["%MEMBERS"]
    assert members == [row["%ID"] for row in data["%FEATURE_STRUCTURES"] if row["%TYPE"] != SOFA]


def read_rows(tmp_path, rows, *, report=None, prefix="", text="😀 sore toe"):
    sofa = {"%ID": 1, "%TYPE": SOFA, "sofaNum": 1, "sofaID": "_InitialView", "mimeType": "text", "sofaString": text}
    structures = [sofa, *({"%ID": i, "@sofa": 1, **row} for i, row in enumerate(rows, 2))]
    (tmp_path / "a.json").write_text(json.dumps({"%FEATURE_STRUCTURES": structures}), encoding="utf8")
    return list(read_inception(tmp_path, report or ExchangeReport(), prefix))


def test_layers_with_an_identifier_are_mentions(tmp_path):
    rows = [
        {"%TYPE": NAMED_ENTITY, "begin": 3, "end": 7, "value": "Sign", IDENTIFIER: "http://x.org/C1"},
        {"%TYPE": "custom.Part", "begin": 8, "end": 11, IDENTIFIER: "http://x.org/C2"},
        {"%TYPE": "custom.Sentiment", "begin": 3, "end": 7},
        {"%TYPE": "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token", "begin": 3, "end": 7},
        {"%TYPE": NAMED_ENTITY, "end": 2},
    ]
    report = ExchangeReport()
    [found] = read_rows(tmp_path, rows, report=report, prefix="http://x.org/")
    assert found.annotations == [
        Annotation(2, 6, "Sign", "C1"),
        Annotation(7, 10, "Part", "C2"),
        Annotation(0, 1, "NamedEntity"),
    ]
    kind = "annotations of the layer custom.Sentiment, which have no identifier"
    assert {kind: entry["count"] for kind, entry in report.left_out.items()} == {kind: 1}


def test_older_files_have_their_structures_by_number(tmp_path):
    rows = {"1": {"%TYPE": SOFA, "sofaString": "toe"}, "2": {"%TYPE": NAMED_ENTITY, "@sofa": 1, "end": 3, "value": "P"}}
    (tmp_path / "a.json").write_text(json.dumps({"%FEATURE_STRUCTURES": rows}), encoding="utf8")
    assert list(read_inception(tmp_path, ExchangeReport())) == [AnnotatedText("a", "toe", [Annotation(0, 3, "P")])]


@pytest.mark.parametrize(
    "place", [{"begin": 1, "end": 3}, {"begin": 3, "end": 99}, {"begin": 5, "end": 5}, {"begin": "1"}]
)
def test_places_that_are_none_are_refused_or_counted(tmp_path, place):
    rows = [{"%TYPE": NAMED_ENTITY, **place}]
    [found] = check_refused(lambda report: read_rows(tmp_path, rows, report=report), "feature structure 2.*UTF-16")
    assert found.annotations == []


@pytest.mark.parametrize(
    ("content", "fault"), [("[]", "0 texts"), ("{}", "0 texts"), ("{", "no valid JSON"), (None, "no .json files")]
)
def test_other_files_are_refused_or_counted(tmp_path, content, fault):
    if content is not None:
        (tmp_path / "a.json").write_text(content, encoding="utf8")
    assert check_refused(lambda report: list(read_inception(tmp_path, report)), fault) == []


@pytest.mark.parametrize("annotation", [Annotation(0, 1, "D", "C1;C2"), Annotation(0, 1, "", "C1")])
def test_what_would_be_read_back_otherwise_is_refused(tmp_path, annotation):
    with pytest.raises(ValueError, match="would be read back|the label ''"):
        write_inception([AnnotatedText("a", "ab", [annotation])], tmp_path, ExchangeReport())


def write_examples(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf8")
    return path


@given(annotated_texts())
def test_spans_are_read_as_they_are(tmp_path_factory, document):
    report = ExchangeReport("skip")
    spans = [{"start": a.start, "end": a.end, "label": a.label, "kb_id": a.kb_id} for a in document.annotations]
    path = write_examples(
        tmp_path_factory.mktemp("prodigy") / "a.jsonl", {"text": document.text, "spans": spans, "doc_id": "x"}
    )
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
    first, second = read_prodigy(write_examples(tmp_path / "mine.jsonl", *records), report, "X:")
    assert first.annotations == [Annotation(0, 4, "", "C1|C2"), Annotation(0, 1, "L", "NIL")]
    assert (first.doc_id, second.doc_id, second.annotations) == ("7", "mine-3", [])
    assert report.left_out["examples that were rejected or ignored"]["count"] == 1


@pytest.mark.parametrize("record", ["[]", "{", '{"text": 1}', '{"text": "a", "spans": [{"start": 0, "end": 9}]}'])
def test_faults_of_prodigy_are_refused_or_counted(tmp_path, record):
    (tmp_path / "a.jsonl").write_text(record, encoding="utf8")
    check_refused(lambda report: list(read_prodigy(tmp_path / "a.jsonl", report)), "a.jsonl, line 1")
