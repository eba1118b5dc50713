"""INCEpTION: documents come back as they went out, with offsets that count units of UTF-16."""

import json

import pytest
from annotated_texts import annotated_texts, check_refused, take, tokenize, ways
from hypothesis import given

from spacy_sapbert.exchange.documents import AnnotatedText, Annotation, ExchangeReport, make_doc
from spacy_sapbert.exchange.formats import IDENTIFIER, NAMED_ENTITY, SOFA

read_inception, write_inception = ways("inception")


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


def read(tmp_path, rows, *, report=None, prefix="", text="😀 sore toe"):
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
    [found] = read(tmp_path, rows, report=report, prefix="http://x.org/")
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
    [found] = check_refused(lambda report: read(tmp_path, rows, report=report), "feature structure 2.*UTF-16")
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
