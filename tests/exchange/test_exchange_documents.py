"""What comes back as documents: labels, overlaps, mentions inside of tokens and outside of texts."""

import json

import spacy
from annotated_texts import check_refused, take, tokenize, ways
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.exchange.documents import (
    DOC_ID,
    OVERLAPPING,
    AnnotatedText,
    Annotation,
    ExchangeReport,
    annotate,
    make_doc,
    read_docs,
)
from spacy_sapbert.exchange.formats import FORMATS, import_docs, read_texts

nlp = spacy.blank("en")


def count(report):
    return {kind: entry["count"] for kind, entry in (report.left_out | report.odd).items()}


def test_overlaps_and_places_are_counted_and_never_shifted():
    places = [(2, 11), (2, 6), (4, 11), (3, 3), (5, 2), (-2, 1), (7, 99), (11, 12)]
    text = AnnotatedText("a", "a head cold!", [Annotation(*place, "D", "C1") for place in places])
    report = ExchangeReport()
    doc = make_doc(text, nlp.make_doc, report)
    assert doc.user_data[DOC_ID] == "a"
    assert [(ent.start_char, ent.end_char) for ent in doc.ents] == [(2, 11), (11, 12)]
    assert [(span.start_char, span.end_char) for span in doc.spans[OVERLAPPING]] == [(2, 6)]
    assert count(report) == {
        "mentions that begin or end inside of a token": 1,
        "mentions outside of their text": 4,
        "mentions that overlap a longer one": 1,
    }
    report = ExchangeReport()
    doc = make_doc(text, nlp.make_doc, report, inside_tokens="expand")
    assert [(span.start_char, span.end_char) for span in doc.spans[OVERLAPPING]] == [(2, 11), (2, 6)]
    assert count(report)["mentions extended to whole tokens"] == 1


def test_white_space_at_the_ends_of_mentions_is_left_off_and_counted():
    report = ExchangeReport()
    notes = [Annotation(1, 7, "D", "C1"), Annotation(6, 7, "D", "C1"), Annotation(0, 5, "D", "C1")]
    doc = make_doc(AnnotatedText("a", "a head cold", notes), nlp.make_doc, report)
    assert [(ent.start_char, ent.end_char) for ent in doc.ents] == [(2, 6)]
    assert count(report) == {
        "mentions that begin or end inside of a token": 2,
        "mentions with white space at their ends, which is left off": 1,
    }
    # Expanding begins at the mention, not at the token that the space before it belongs to.
    doc = make_doc(AnnotatedText("a", "a head cold", notes[:1]), nlp.make_doc, report, inside_tokens="expand")
    assert [(ent.start_char, ent.end_char) for ent in doc.ents] == [(2, 6)]


def test_span_groups_go_out_once_and_names_are_distinct():
    report = ExchangeReport()
    doc = make_doc(AnnotatedText("a", "cold", [Annotation(0, 4, "", "C1")]), tokenize, report)
    assert [(ent.label_, ent.kb_id_) for ent in doc.ents] == [("MENTION", "C1")]
    assert count(report) == {"mentions without a label, which get 'MENTION'": 1}
    doc.spans["sc"] = [*doc.ents, doc.char_span(0, 2, "E", kb_id="C2")]
    assert len(take(doc).annotations) == 1
    assert take(doc, spans_keys=["sc"]).annotations == [Annotation(0, 4, "MENTION", "C1"), Annotation(0, 2, "E", "C2")]
    report = ExchangeReport()
    docs = make_named(["a#2"])
    assert [text.doc_id for text in annotate([*docs, doc, doc, nlp.make_doc("b")], report)] == [
        *("a#2", "a", "a#3", "document-4")
    ]
    assert count(report) == {"documents with the name of another one, which get a number": 1}


# Names that are numbered already, differ in capitals only, or are no file names.
NAMES = st.one_of(
    st.sampled_from(["a", "A", "a#2", "a#3", "A#3", "a#2#2", "b/1", "b%2F1", "document-2", ""]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9),
)


def make_named(names):
    docs = [nlp.make_doc(f"text {number}") for number in range(len(names))]
    for doc, name in zip(docs, names, strict=True):
        doc.user_data[DOC_ID] = name
    return docs


@settings(deadline=None, max_examples=25)
@given(st.lists(NAMES, min_size=1, max_size=6))
def test_all_documents_have_a_name_of_their_own_and_come_back(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("names")
    docs = annotate(make_named(names), ExchangeReport())
    assert len({doc.doc_id for doc in docs}) == len(names)
    for name in FORMATS:
        if FORMATS[name].dump:
            report, output = ExchangeReport("skip"), folder / name
            read, write = ways(name)
            write(docs, output, report)
            # A file system may take capitals for small letters.
            files = [path.name.lower() for path in folder.glob(f"{name}/*")]
            assert len(set(files)) == len(files)
            back = list(read(output, ExchangeReport()))
            n_refused = count(report).get("malformed", 0)
            assert len(back) == len(names) - n_refused and (name == "pubtator" or not n_refused)
            assert len({doc.doc_id for doc in back}) == len({doc.text for doc in back}) == len(back)
            assert {doc.text for doc in back} <= {doc.text for doc in docs}
    lines = [json.dumps({"text": "a", "doc_id": name}) + "\n" for name in names]
    (folder / "a.jsonl").write_text("".join(lines), encoding="utf8")
    assert len({doc.doc_id for doc in read_texts("prodigy", folder / "a.jsonl", ExchangeReport())}) == len(names)


def test_texts_above_the_limit_of_spacy_are_refused_or_counted(tmp_path):
    records = [{"text": "a cold"}, {"text": "x" * (nlp.max_length + 1), "doc_id": "long"}, {"text": "b"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf8")
    fault = "a.jsonl, document long: 1,000,001 characters.*at most 1,000,000"
    check_refused(lambda report: import_docs("prodigy", tmp_path / "a.jsonl", tmp_path / "a.spacy", report), fault)
    assert [doc.text for doc in read_docs(tmp_path / "a.spacy", ExchangeReport())] == ["a cold", "b"]
