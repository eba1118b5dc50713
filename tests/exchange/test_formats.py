"""Formats: documents come back as they went out, and what a format or a file cannot hold is refused or counted."""

import csv
import json

import pytest
import spacy
from annotated_texts import annotated_texts, check_refused, count_refused, take, tokenize, ways
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Span

from spacy_sapbert.annotations import register_extensions
from spacy_sapbert.exchange.documents import AnnotatedText, Annotation, ExchangeReport, annotate, make_doc
from spacy_sapbert.exchange.fields import BREAK, count_utf16, place_mentions, plain_text
from spacy_sapbert.exchange.formats import IDENTIFIER, NAMED_ENTITY, SOFA, export_docs

read_brat, write_brat = ways("brat")
read_bioc, write_bioc = ways("bioc")
read_csv, write_csv = ways("csv")
read_inception, write_inception = ways("inception")
read_prodigy, _ = ways("prodigy")
read_pubtator, write_pubtator = ways("pubtator")
OF_TABLES = annotated_texts(labels=("a,b", 'x\t"'), ids=("", "NIL", "C1|C2", "a b;c"))
LOSSLESS = {
    "bioc": annotated_texts(labels=("D x", "\t")),
    "csv": OF_TABLES,
    "tsv": OF_TABLES,
    "inception": annotated_texts(labels=("D", "x y"), ids=("", "NIL", "http://x.org/D1", "C1|C2")),
}


@pytest.mark.parametrize("name", LOSSLESS)
@given(st.data())
def test_documents_come_back(tmp_path_factory, name, data):
    documents = data.draw(st.lists(LOSSLESS[name], min_size=1, max_size=3, unique_by=lambda doc: doc.doc_id))
    going = annotate([make_doc(doc, tokenize, ExchangeReport()) for doc in documents], ExchangeReport())
    read, write = ways(name)
    path, report = tmp_path_factory.mktemp(name) / "out", ExchangeReport()
    write(going, path, ExchangeReport())
    found = sorted(read(path, report), key=lambda doc: doc.doc_id)
    assert found == sorted(going, key=lambda doc: doc.doc_id) and not report.odd and not report.left_out
    assert [set(doc.annotations) for doc in going] == [set(doc.annotations) for doc in documents]


def make_row(text, start, length, **infons):
    return {"id": "1", "infons": infons, "text": text, "locations": [{"offset": start, "length": length}]}


def make_passage(text, *annotations, offset=0):
    return {"offset": offset, "text": text, "annotations": list(annotations)}


def make_structures(rows, text="😀 sore toe"):
    sofa = {"%ID": 1, "%TYPE": SOFA, "sofaNum": 1, "sofaID": "_InitialView", "mimeType": "text", "sofaString": text}
    structures = [sofa, *({"%ID": i, "@sofa": 1, **row} for i, row in enumerate(rows, 2))]
    return json.dumps({"%FEATURE_STRUCTURES": structures})


def make_table(row):
    return {
        "texts.jsonl": '{"document": "a", "text": "ab"}\n',
        "mentions.csv": f"document,start,end,label,id,mention\n{row}\n",
    }


@pytest.mark.parametrize(
    ("name", "files", "fault"),
    [
        ("brat", {"a.txt": "Sore", "a.ann": "T1\tSign 0 9\tSore feet\n"}, "a.ann, line 1: the text at"),
        ("brat", {"a.txt": "Sore", "a.ann": "T1\tSign 0\tSore\n"}, "an unknown line"),
        ("brat", {"a.txt": "Sore"}, "a text without annotations"),
        ("brat", {}, "no .txt and .ann files"),
        ("brat", {"a.txt": "Sor\udce9", "a.ann": ""}, "byte 4 is not UTF-8"),
        ("bioc", "[]", "no collection"),
        ("bioc", "{", "no valid JSON"),
        ("bioc", '"\\ud83d"', "no valid JSON"),
        ("bioc", '{"documents": [{"id": 1}]}', "not of this form .*passages"),
        ("bioc", '{"documents": ["a"]}', "not of this form"),
        ("bioc", json.dumps({"id": 1, "passages": [make_passage("ab", make_row("b", 0, 1))]}), "mention is 'b'"),
        ("bioc", json.dumps({"id": 1, "passages": [make_passage("ab"), make_passage("b", offset=1)]}), "begins before"),
        *(
            ("inception", {"a.json": make_structures([{"%TYPE": NAMED_ENTITY, **place}])}, "structure 2.*UTF-16")
            for place in ({"begin": 1, "end": 3}, {"begin": 3, "end": 99}, {"begin": 5, "end": 5}, {"begin": "1"})
        ),
        ("inception", {"a.json": "[]"}, "0 texts"),
        ("inception", {"a.json": "{"}, "no valid JSON"),
        ("inception", {}, "no .json files"),
        ("prodigy", "[]", "line 1"),
        ("prodigy", "{", "line 1"),
        ("prodigy", '{"text": 1}', "line 1"),
        ("prodigy", '{"text": "a", "spans": [{"start": 0, "end": 9}]}', "line 1"),
        ("csv", make_table("b,0,1,D,C1,a"), "row 2.*no such document as 'b'"),
        ("csv", make_table("a,0,x,D,C1,a"), "row 2.*offsets that are no numbers"),
        ("csv", make_table("a,0,1,D,C1,b"), "row 2.*the text from 0 to 1 is 'a'"),
        ("csv", make_table("a,0"), "row 2.*offsets that are no numbers"),
        ("csv", make_table("a,0,1,D\r,C1,a"), "mentions.csv: new-line character"),
    ],
)
def test_faults_of_files_are_refused_or_counted(tmp_path, name, files, fault):
    if isinstance(files, str):
        files, path = {"file": files}, tmp_path / "file"
    else:
        path = tmp_path
    for file, text in files.items():
        (tmp_path / file).write_text(text, "utf8", "surrogateescape")
    read, _ = ways(name)
    check_refused(lambda report: list(read(path, report)), fault)


@pytest.mark.parametrize(
    ("name", "document", "fault"),
    [
        ("brat", AnnotatedText("a", "ab\nc", [Annotation(0, 2, "a b", "C1")]), "the label 'a b'"),
        ("brat", AnnotatedText("a", "ab\nc", [Annotation(0, 2, "", "C1")]), "the label ''"),
        ("brat", AnnotatedText("a", "ab\nc", [Annotation(0, 2, "D", "C1 C2")]), "would be read back as 'C1|C2'"),
        ("brat", AnnotatedText("a", "ab\nc", [Annotation(2, 4, "D", "C1")]), "begins or ends with a line break"),
        ("brat", AnnotatedText("a", "ab\nc", [Annotation(2, 3, "D", "C1")]), "white space"),
        ("bioc", AnnotatedText("a", "ab", [Annotation(0, 1, "D", "C1;C2")]), "would be read back as"),
        ("inception", AnnotatedText("a", "ab", [Annotation(0, 1, "D", "C1;C2")]), "would be read back"),
        ("inception", AnnotatedText("a", "ab", [Annotation(0, 1, "", "C1")]), "the label ''"),
        ("pubtator", AnnotatedText("a|b", "ab", []), "the name 'a[|]b'"),
        ("pubtator", AnnotatedText(" a", "ab", []), "the name ' a'"),
        ("pubtator", AnnotatedText("a", "ab", [Annotation(0, 2, "x\ty")]), "the label"),
        ("pubtator", AnnotatedText("a", "ab", [Annotation(0, 2, "")]), "the label ''"),
        ("pubtator", AnnotatedText("a", "a ", [Annotation(1, 2, "D")]), "a mention of white space"),
        ("pubtator", AnnotatedText("a", "ab", [Annotation(0, 2, "D", "C1+C2")]), "would be read back"),
        ("csv", AnnotatedText("a", "a\0", [Annotation(0, 2, "D")]), "a null character"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_or_counted(tmp_path, name, document, fault):
    _, write = ways(name)
    check_refused(lambda report: write([document], tmp_path / "out", report), fault)


def test_what_is_no_matter_of_one_record_is_refused_in_any_case(tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"document": "a", "text": "ab"}\n[]\n', encoding="utf8")
    (tmp_path / "mentions.csv").write_text("document,start\n", encoding="utf8")
    with pytest.raises(ValueError, match="no column end, label, id, mention"):
        list(read_csv(tmp_path, ExchangeReport("skip")))
    with pytest.raises(ValueError, match="no object with a text"):
        list(read_csv(tmp_path, ExchangeReport()))
    with pytest.raises(ValueError, match="errors is 'ignore'"):
        ExchangeReport("ignore")
    with pytest.raises(ValueError, match="'brat' to write with formulas escaped.*csv, tsv"):
        export_docs("brat", tmp_path / "docs.spacy", tmp_path / "out", ExchangeReport(), escape_formulas=True)


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
    (tmp_path / "a.txt").write_text("Sore toes\nwings", encoding="utf8")
    (tmp_path / "a.ann").write_text(lines, encoding="utf8")
    report = ExchangeReport()
    [found] = read_brat(tmp_path, report)
    assert found.annotations == [Annotation(0, 4, "Sign"), Annotation(5, 15, "Sign")]
    assert {kind: entry["count"] for kind, entry in report.left_out.items()} == {
        "mentions in several pieces": 1,
        "normalizations of no mention": 1,
    }


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


def read_passages(tmp_path, *passages, report=None):
    path = tmp_path / "in.json"
    path.write_text(json.dumps({"documents": [{"id": "7", "passages": list(passages)}]}), encoding="utf8")
    return list(read_bioc(path, report or ExchangeReport()))


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


def test_layers_with_an_identifier_are_mentions(tmp_path):
    rows = [
        {"%TYPE": NAMED_ENTITY, "begin": 3, "end": 7, "value": "Sign", IDENTIFIER: "http://x.org/C1"},
        {"%TYPE": "custom.Part", "begin": 8, "end": 11, IDENTIFIER: "http://x.org/C2"},
        {"%TYPE": "custom.Sentiment", "begin": 3, "end": 7},
        {"%TYPE": "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token", "begin": 3, "end": 7},
        {"%TYPE": NAMED_ENTITY, "end": 2},
    ]
    report = ExchangeReport()
    (tmp_path / "a.json").write_text(make_structures(rows), encoding="utf8")
    [found] = read_inception(tmp_path, report, "http://x.org/")
    assert found.annotations == [
        Annotation(2, 6, "Sign", "C1"),
        Annotation(7, 10, "Part", "C2"),
        Annotation(0, 1, "NamedEntity"),
    ]
    kind = "annotations of the layer custom.Sentiment, which have no identifier"
    assert {kind: entry["count"] for kind, entry in report.left_out.items()} == {kind: 1}


def test_the_view_of_inception_has_all_structures_and_older_files_have_them_by_number(tmp_path):
    document = AnnotatedText("a", "😀 toe", [Annotation(2, 5, "P", "x:1"), Annotation(0, 1, "Q", "NIL")])
    write_inception([document], tmp_path, ExchangeReport())
    data = json.loads((tmp_path / "a.json").read_text(encoding="utf8"))
    structures = data["%FEATURE_STRUCTURES"]
    assert data["%VIEWS"]["_InitialView"]["%MEMBERS"] == [row["%ID"] for row in structures if row["%TYPE"] != SOFA]
    rows = {"1": {"%TYPE": SOFA, "sofaString": "toe"}, "2": {"%TYPE": NAMED_ENTITY, "@sofa": 1, "end": 3, "value": "P"}}
    (tmp_path / "a.json").write_text(json.dumps({"%FEATURE_STRUCTURES": rows}), encoding="utf8")
    assert list(read_inception(tmp_path, ExchangeReport())) == [AnnotatedText("a", "toe", [Annotation(0, 3, "P")])]


@given(annotated_texts())
def test_spans_are_read_as_they_are(tmp_path_factory, document):
    report = ExchangeReport("skip")
    spans = [{"start": a.start, "end": a.end, "label": a.label, "kb_id": a.kb_id} for a in document.annotations]
    path = tmp_path_factory.mktemp("prodigy") / "a.jsonl"
    path.write_text(json.dumps({"text": document.text, "spans": spans, "doc_id": "x"}), encoding="utf8")
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
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf8")
    first, second = read_prodigy(tmp_path / "mine.jsonl", report, "X:")
    assert first.annotations == [Annotation(0, 4, "", "C1|C2"), Annotation(0, 1, "L", "NIL")]
    assert (first.doc_id, second.doc_id, second.annotations) == ("7", "mine-3", [])
    assert report.left_out["examples that were rejected or ignored"]["count"] == 1


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
