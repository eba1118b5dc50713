"""PubTator: documents come back as they went out, but for line breaks, and offsets of either kind are understood."""

import pytest
from annotated_texts import annotated_texts, check_refused, count_refused, take, tokenize, ways
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.exchange.documents import AnnotatedText, Annotation, ExchangeReport, make_doc
from spacy_sapbert.exchange.fields import BREAK, count_utf16, place_mentions, plain_text

read_pubtator, write_pubtator = ways("pubtator")


@given(
    st.lists(annotated_texts(characters="ab. é?\n\t\r\u2028\ufeff😀|"), max_size=3, unique_by=lambda doc: doc.doc_id)
)
def test_documents_come_back_from_pubtator(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("pubtator") / "out.pubtator"
    report = ExchangeReport("skip")
    write_pubtator(documents, path, report)
    reading = ExchangeReport()
    found = list(read_pubtator(path, reading))
    assert [doc.doc_id for doc in found] == [doc.doc_id for doc in documents]
    # As long as it was: no offset is shifted.
    assert [doc.text for doc in found] == [plain_text(doc.text) for doc in documents]
    n_changed = sum(bool(BREAK.search(doc.text)) for doc in documents)
    assert report.odd == {} or sum(entry["count"] for entry in report.odd.values()) == n_changed
    n_kept = 0
    for before, after in zip(documents, found, strict=True):
        assert set(after.annotations) <= set(before.annotations)
        assert {a for a in before.annotations if before.text[a.start : a.end].strip()} == set(after.annotations)
        n_kept += len(after.annotations)
        again = take(make_doc(after, tokenize, ExchangeReport()))
        assert set(again.annotations) == set(after.annotations)
    assert n_kept == sum(len(doc.annotations) for doc in documents) - count_refused(report)
    assert not reading.odd and not reading.left_out


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (AnnotatedText("a|b", "ab", []), "the name 'a[|]b'"),
        (AnnotatedText(" a", "ab", []), "the name ' a'"),
        (AnnotatedText("a", "ab", [Annotation(0, 2, "x\ty")]), "the label"),
        (AnnotatedText("a", "ab", [Annotation(0, 2, "")]), "the label ''"),
        (AnnotatedText("a", "a ", [Annotation(1, 2, "D")]), "a mention of white space"),
        (AnnotatedText("a", "ab", [Annotation(0, 2, "D", "C1+C2")]), "would be read back"),
    ],
)
def test_what_pubtator_cannot_hold_is_refused_or_counted(tmp_path, document, fault):
    check_refused(lambda report: write_pubtator([document], tmp_path / "a", report), fault)


def test_ids_are_read_with_and_without_prefixes(tmp_path):
    lines = [
        "1|t|Sore toe.",
        "1|a|It hurts.",
        "1\t0\t4\tSore\tSign\tMESH:D1|D2",
        "1\t5\t8\ttoe\tPart\t-1",
        "1\tCID\tD1\tD2",
    ]
    (tmp_path / "a.txt").write_text("\n".join([*lines, "1\t10\t12\tIt\tPart"]), encoding="utf8")
    report = ExchangeReport()
    [found] = read_pubtator(tmp_path / "a.txt", report, "MESH:")
    assert [(a.start, a.end, a.kb_id) for a in found.annotations] == [(0, 4, "D1|D2"), (5, 8, "NIL"), (10, 12, "")]
    assert report.left_out["relations"]["count"] == 1


def test_offsets_in_units_of_utf_16_are_converted_and_counted(tmp_path):
    (tmp_path / "a.txt").write_text(
        "1|t|😀 Sore 😀 toe\n1|a|\n1\t3\t7\tSore\tSign\t\n1\t11\t14\ttoe\tPart\tX:1\n", encoding="utf8"
    )
    report = ExchangeReport()
    [found] = read_pubtator(tmp_path / "a.txt", report)
    assert [found.text[a.start : a.end] for a in found.annotations] == ["Sore", "toe"]
    assert report.odd["documents with offsets in units of UTF-16, which are converted"]["count"] == 1
    # One that fits in neither way is refused, and none is shifted.
    with (tmp_path / "a.txt").open("a", encoding="utf8") as file:
        file.write("1\t0\t4\ttoes\tPart\tX:1\n")
    with pytest.raises(ValueError, match="the text from 3 to 7"):
        list(read_pubtator(tmp_path / "a.txt", ExchangeReport()))


@given(st.text(st.characters(exclude_categories=["Cs"])), st.data())
def test_units_of_utf_16_are_those_of_the_codec(text, data):
    units = count_utf16(text)
    assert units == [len(text[:point].encode("utf-16-le")) // 2 for point in range(len(text) + 1)]
    if text:
        start = data.draw(st.integers(0, len(text) - 1))
        mention = text[start:]
        written = [(Annotation(units[start], units[-1]), mention)]
        [found] = place_mentions(text, written, "a", ExchangeReport(), "")
        assert text[found.start : found.end].split() == mention.split()
