"""Readers of somebody's own annotations: brat, Prodigy, DocBin, and the uniform form."""

import json

import pytest
import spacy
from corpus_originals import PUBTATOR, convert, write
from spacy.tokens import DocBin, Span
from training.evaluation.corpora.readers import ReadingReport, open_input
from training.evaluation.corpora.readers.formats import find_reader

TEXT = "Sore toes\nand wet\nfeathers, blue or green beaks"
ANN = """\
T1\tSign 0 9\tSore toes
T2\tSign 14 17;18 26\twet feathers
T3\tSign 28 32;42 47\tblue beaks
T4\tSign 0 4\tSore
T5\tSign 36 41\tgreen
N1\tReference T1 MESH:D1\tSore toes
N2\tReference T2 X:D2\twet
N3\tReference T2 X:D3
N4\tReference T3 X:D4\tblue beaks
N5\tReference T5 NIL
A1\tNegation T1
"""


def read(tmp_path, name, files, **settings):
    report = ReadingReport(settings.pop("errors", "raise"))
    return find_reader(name, **settings)(open_input(write(tmp_path / "in", files)), report), report


def found(corpus, part):
    return [(mention.doc_id, mention.text, mention.type, mention.ids) for mention in corpus.mentions[part]]


def test_brat_has_ids_in_normalizations_and_mentions_over_line_ends(tmp_path):
    corpus, report = read(tmp_path, "brat", {"Training/a.txt": TEXT, "Training/a.ann": ANN})
    assert corpus.texts == {"train": {"a": TEXT}} and corpus.documents == {"train": 1}
    assert found(corpus, "train") == [
        ("a", "Sore toes", "Sign", ["MESH:D1"]),
        ("a", "wet feathers", "Sign", ["X:D2", "X:D3"]),
        ("a", "blue beaks", "Sign", ["X:D4"]),
        ("a", "green", "Sign", []),
    ]
    _, wet, blue, _ = corpus.mentions["train"]
    assert (wet.start, wet.end, wet.fragments) == (14, 26, []) and blue.fragments == [[28, 32], [42, 47]]
    counts = {kind: entry["count"] for kind, entry in report.left_out.items()}
    assert counts == {
        "annotations that are neither mentions nor normalizations": 1,
        "mentions that no line normalizes (NIL has to be written)": 1,
    }


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"a.txt": TEXT, "a.ann": "T1\tSign 0 9\tSore feet\n"}, "the mention is 'Sore feet'"),
        ({"a.txt": TEXT, "a.ann": "T1\tSign\tSore\n"}, "an unknown line"),
        ({"a.txt": TEXT}, "without annotations"),
    ],
)
def test_faults_of_brat_are_refused_or_counted(tmp_path, files, fault):
    with pytest.raises(ValueError, match=f"E701.*{fault}"):
        read(tmp_path, "brat", files)
    _, report = read(tmp_path, "brat", files, errors="skip")
    assert report.left_out["malformed"]["count"] == 1


def test_prodigy_has_spans_with_ids(tmp_path):
    lines = [
        {
            "text": "a head cold",
            "meta": {"doc_id": 7},
            "spans": [
                {"start": 2, "end": 11, "label": "SIGN", "code": "C1|C2"},
                {"start": 2, "end": 6, "label": "BODY", "code": ["MESH:C3"]},
                {"start": 7, "end": 11, "label": "SIGN"},
                {"start": 0, "end": 1, "label": "SIGN", "code": "NIL"},
            ],
        },
        {"text": "no", "answer": "reject", "spans": [{"start": 0, "end": 2, "code": "C1"}]},
        {"text": "more of it", "doc_id": "7"},
        {"text": "last"},
    ]
    content = "\n".join(map(json.dumps, lines))
    corpus, report = read(tmp_path, "prodigy", {"mine.jsonl": content}, id_key="code")
    assert corpus.texts == {"mine": {"7": "a head cold", "7#3": "more of it", "mine-4": "last"}}
    assert found(corpus, "mine") == [
        ("7", "head cold", "SIGN", ["C1", "C2"]),
        ("7", "head", "BODY", ["MESH:C3"]),
        ("7", "a", "SIGN", []),
    ]
    assert {entry["count"] for entry in report.left_out.values()} == {1} and len(report.left_out) == 2
    # Its key is another one: all spans lack an id, and none is lost silently.
    other, counted = read(tmp_path, "prodigy", {"mine.jsonl": content})
    assert (
        not other.mentions["mine"] and counted.left_out["spans without 'kb_id' (NIL has to be written)"]["count"] == 4
    )


@pytest.mark.parametrize(
    "line",
    [
        '{"text": "a", "spans": [{"start": 0, "end": 9, "kb_id": "C1"}]}',
        '{"text": "a", "spans": [{"start": "0", "end": 1, "kb_id": "C1"}]}',
        '{"text": "a", "spans": {"start": 0}}',
        '{"text": ""}',
        '{"text": "\\ud83d"}',
        "[]",
        "{",
    ],
)
def test_faults_of_prodigy_are_refused_or_counted(tmp_path, line):
    with pytest.raises(ValueError, match="E701.*mine.jsonl, line 1"):
        read(tmp_path, "prodigy", {"mine.jsonl": line})
    _, report = read(tmp_path, "prodigy", {"mine.jsonl": line}, errors="skip")
    assert report.left_out["malformed"]["count"] == 1


def test_documents_of_spacy_have_ids_in_their_entities(tmp_path):
    nlp = spacy.blank("en")
    doc = nlp("a head cold")
    doc.ents = [Span(doc, 1, 3, label="SIGN", kb_id="C1|C2"), Span(doc, 0, 1, label="SIGN")]
    other = nlp("a cold")
    other.ents = [Span(other, 1, 2, label="SIGN", kb_id="NIL")]
    other.user_data["doc_id"] = "second"
    data = DocBin(docs=[doc, other], store_user_data=True).to_bytes()
    corpus, report = read(tmp_path, "docbin", {"dev.spacy": data})
    assert corpus.texts == {"dev": {"dev-1": "a head cold", "second": "a cold"}}
    assert found(corpus, "dev") == [("dev-1", "head cold", "SIGN", ["C1", "C2"]), ("second", "cold", "SIGN", [])]
    assert report.left_out["entities without an id (NIL has to be written)"]["count"] == 1
    with pytest.raises(ValueError, match="E701.*no documents of spaCy"):
        read(tmp_path, "docbin", {"dev.spacy": b"damaged"})


def test_the_uniform_form_is_read_as_it_was_written(tmp_path):
    convert(tmp_path, "pubtator", {"test.txt": PUBTATOR})
    corpus = find_reader("jsonl")(open_input(tmp_path / "out" / "test.jsonl.gz"), ReadingReport())
    original, _ = read(tmp_path, "pubtator", {"test.txt": PUBTATOR})
    names = ("text", "ids", "doc_id", "start", "end", "type", "raw_id", "window", "window_start")
    for mention, first in zip(corpus.mentions["test"], [m for m in original.mentions["test"] if m.ids], strict=True):
        assert all(getattr(mention, name) == getattr(first, name) for name in names)
    with pytest.raises(ValueError, match="E701.*'mention' has to be text"):
        read(tmp_path, "jsonl", {"bad.jsonl": '{"ids": []}'})
