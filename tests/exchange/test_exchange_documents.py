"""What comes back as documents: labels, overlaps, mentions inside of tokens and outside of texts."""

import spacy
from annotated_texts import tokenize

from spacy_sapbert.exchange.documents import (
    DOC_ID,
    OVERLAPPING,
    AnnotatedText,
    Annotation,
    annotate,
    make_doc,
    name_docs,
)
from spacy_sapbert.exchange.report import ExchangeReport

nlp = spacy.blank("en")


def count(report):
    return {kind: entry["count"] for kind, entry in (report.left_out | report.odd).items()}


def test_mentions_without_a_label_are_not_dropped():
    report = ExchangeReport()
    doc = make_doc(AnnotatedText("a", "cold", [Annotation(0, 4, "", "C1")]), tokenize, report)
    assert [(ent.label_, ent.kb_id_) for ent in doc.ents] == [("MENTION", "C1")]
    assert count(report) == {"mentions without a label, which get 'MENTION'": 1}


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
    doc = make_doc(AnnotatedText("a", "cold", [Annotation(0, 4, "D", "C1")]), tokenize, ExchangeReport())
    doc.spans["sc"] = [*doc.ents, doc.char_span(0, 2, "E", kb_id="C2")]
    assert len(annotate("a", doc).annotations) == 1
    assert annotate("a", doc, ["sc"]).annotations == [Annotation(0, 4, "D", "C1"), Annotation(0, 2, "E", "C2")]
    report = ExchangeReport()
    assert [name for name, _ in name_docs([doc, doc, nlp.make_doc("b")], report)] == ["a", "a#2", "document-3"]
    assert count(report) == {"documents with the name of another one, which get a number": 1}
