"""Brat: documents come back as they went out, and what brat cannot hold is counted."""

import pytest
from annotated_texts import annotated_texts, check_refused, count_refused, take, tokenize, ways
from hypothesis import given

from spacy_sapbert.exchange.documents import AnnotatedText, Annotation, ExchangeReport, make_doc

read_brat, write_brat = ways("brat")


def write(folder, text, annotations, name="a"):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.txt").write_bytes(text.encode("utf8"))
    (folder / f"{name}.ann").write_bytes(annotations.encode("utf8"))
    return folder


@given(annotated_texts())
def test_documents_come_back_from_brat(tmp_path_factory, document):
    folder = tmp_path_factory.mktemp("brat")
    report = ExchangeReport("skip")
    doc = make_doc(document, tokenize, report)
    going = take(doc)
    assert set(going.annotations) == set(document.annotations)
    write_brat([going], folder, report)
    [found] = read_brat(folder, ExchangeReport())
    assert (found.doc_id, found.text) == (document.doc_id, document.text)
    assert set(found.annotations) <= set(document.annotations)
    assert len(found.annotations) == len(document.annotations) - count_refused(report)
    # Nothing but white space at the ends of a mention is refused.
    kept = {(mention.start, mention.end) for mention in found.annotations}
    for annotation in document.annotations:
        mention = document.text[annotation.start : annotation.end]
        if mention == mention.strip():
            assert (annotation.start, annotation.end) in kept
    again = make_doc(found, tokenize, ExchangeReport())
    assert set(take(again).annotations) == set(found.annotations)


def test_prefixes_are_put_on_and_taken_off(tmp_path):
    document = AnnotatedText("x/1", "a head cold", [Annotation(2, 11, "D", "C1|C2"), Annotation(0, 1, "D", "NIL")])
    report = ExchangeReport()
    write_brat([document], tmp_path, report, "UMLS:")
    assert "Reference T1 UMLS:C1\thead cold\n" in (tmp_path / "x%2F1.ann").read_text(encoding="utf8")
    [found] = read_brat(tmp_path, ExchangeReport(), "UMLS:")
    assert found.annotations == document.annotations
    # NIL has no resource, so that brat does not show it; the document's name is no file name.
    assert {kind: entry["count"] for kind, entry in report.odd.items()} == {
        "ids without a resource and a colon, which brat does not show": 1,
        "documents whose names are no file names, with % for other characters": 1,
    }


def test_mentions_without_an_id_and_in_pieces(tmp_path):
    lines = (
        "T1\tSign 0 4\tSore\nT2\tSign 10 15;0 4\twings Sore\nT3\tSign 5 9;10 15\ttoes wings\nN1\tReference T9 X:1\tx\n"
    )
    folder = write(tmp_path / "in", "Sore toes\nwings", lines)
    report = ExchangeReport()
    [found] = read_brat(folder, report)
    assert found.annotations == [Annotation(0, 4, "Sign"), Annotation(5, 15, "Sign")]
    assert {kind: entry["count"] for kind, entry in report.left_out.items()} == {
        "mentions in several pieces": 1,
        "normalizations of no mention": 1,
    }


@pytest.mark.parametrize(
    ("annotation", "fault"),
    [
        (Annotation(0, 2, "a b", "C1"), "the label 'a b'"),
        (Annotation(0, 2, "", "C1"), "the label ''"),
        (Annotation(0, 2, "D", "C1 C2"), "would be read back as 'C1|C2'"),
        (Annotation(2, 4, "D", "C1"), "begins or ends with a line break"),
        (Annotation(2, 3, "D", "C1"), "white space"),
    ],
)
def test_what_brat_cannot_hold_is_refused_or_counted(tmp_path, annotation, fault):
    document = AnnotatedText("a", "ab\nc", [annotation])
    check_refused(lambda report: write_brat([document], tmp_path, report), fault)
    assert (tmp_path / "a.ann").read_bytes() == b""


@pytest.mark.parametrize(
    ("text", "lines", "fault"),
    [
        ("Sore", "T1\tSign 0 9\tSore feet\n", "a.ann, line 1: the text at"),
        ("Sore", "T1\tSign 0\tSore\n", "an unknown line"),
        ("Sore", None, "a text without annotations"),
        ("Sor\u00e9".encode("latin-1"), "", "byte 4 is not UTF-8"),
    ],
)
def test_faults_of_brat_are_refused_or_counted(tmp_path, text, lines, fault):
    (tmp_path / "a.txt").write_bytes(text if isinstance(text, bytes) else text.encode("utf8"))
    if lines is not None:
        (tmp_path / "a.ann").write_text(lines, encoding="utf8")
    check_refused(lambda report: list(read_brat(tmp_path, report)), fault)


def test_an_empty_folder_and_an_unknown_way_to_treat_errors_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no .txt and .ann files"):
        list(read_brat(tmp_path, ExchangeReport()))
    with pytest.raises(ValueError, match="errors is 'ignore'"):
        ExchangeReport("ignore")
