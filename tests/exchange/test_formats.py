"""Formats: documents come back as they went out, and what a format or a file cannot hold is refused or counted."""

import csv
import io
import json
from dataclasses import replace
from xml.etree.ElementTree import Element, SubElement, tostring

import polars as pl
import pytest
import spacy
from annotated_texts import (
    CHARACTERS,
    annotated,
    annotated_texts,
    check_refused,
    count_kinds,
    count_refused,
    in_pieces,
    take,
    tokenize,
    ways,
    write_files,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spacy.tokens import Span

from spacy_sapbert.annotations import register_extensions
from spacy_sapbert.context import MentionContext
from spacy_sapbert.exchange import fields
from spacy_sapbert.exchange.documents import (
    DISCONTINUOUS,
    AnnotatedText,
    Annotation,
    ExchangeReport,
    annotate,
    make_doc,
    tidy_pieces,
)
from spacy_sapbert.exchange.fields import count_utf16, place_mentions, plain_text
from spacy_sapbert.exchange.formats import IDENTIFIER, NAMED_ENTITY, SOFA, export_docs

read_brat, write_brat = ways("brat")
read_bioc, write_bioc = ways("bioc")
read_csv, write_csv = ways("csv")
read_inception, write_inception = ways("inception")
read_prodigy, _ = ways("prodigy")
read_pubtator, _ = ways("pubtator")
OF_TABLES = annotated_texts(
    "=+-@'\t\r ab\n😀", labels=("a,b", 'x\t"', "=D", "'-D"), ids=("", "NIL", "C1|C2", "a b;c", "''@C")
)
# Prodigy has no task for an empty text, and no choice without a mention.
WITH_TEXT = annotated_texts().filter(lambda document: document.text.strip())
TEXTS = {
    "bioc": annotated_texts(labels=("D x", "\t")),
    "brat": annotated_texts(),
    "csv": OF_TABLES,
    "tsv": OF_TABLES,
    "inception": annotated_texts(labels=("D", "x y"), ids=("", "NIL", "http://x.org/D1", "C1|C2")),
    "parquet": annotated_texts("\0" + CHARACTERS, labels=("D", "x\t"), ids=("", "NIL", "a b;c", "C1|C2")),
    "prodigy": WITH_TEXT,
    "prodigy-choice": WITH_TEXT.filter(lambda document: any(document.cut(a).strip() for a in document.annotations)),
    "pubtator": annotated_texts("ab. é?\n\t\r\u2028\ufeff😀|"),
}
# The mentions that a format may refuse.
REFUSED = dict.fromkeys(("parquet", "prodigy", "prodigy-choice", "pubtator"), lambda mention: not mention.strip())
REFUSED["brat"] = lambda mention: mention != mention.strip()


@pytest.mark.parametrize("name", TEXTS)
@given(st.data())
def test_documents_come_back(tmp_path_factory, name, data):
    documents = data.draw(st.lists(TEXTS[name], min_size=1, max_size=3, unique_by=lambda doc: doc.doc_id))
    escape = data.draw(st.booleans()) if name in ("csv", "tsv") else False
    going = annotate([make_doc(doc, tokenize, ExchangeReport()) for doc in documents], ExchangeReport())
    assert [set(doc.annotations) for doc in going] == [set(doc.annotations) for doc in documents]
    read, write = ways(name)
    path, writing, reading = tmp_path_factory.mktemp(name) / "out", ExchangeReport("skip"), ExchangeReport()
    write(going, path, writing, **({"prefix": "+", "escape_formulas": True} if escape else {}))
    found = {doc.doc_id: doc for doc in read(path, reading, "+" if escape else "")}
    assert sorted(found) == sorted(doc.doc_id for doc in going)
    assert not reading.odd and not reading.left_out
    n_lost = 0
    for before in going:
        after = found[before.doc_id]
        assert after.text == (plain_text(before.text) if name == "pubtator" else before.text)
        lost = set(before.annotations) - set(after.annotations)
        assert set(after.annotations) <= set(before.annotations)
        assert all(name in REFUSED and REFUSED[name](before.cut(annotation)) for annotation in lost)
        assert name != "pubtator" or lost == {a for a in before.annotations if not before.cut(a).strip()}
        n_lost += len(before.annotations) - len(after.annotations)
        assert set(take(make_doc(after, tokenize, ExchangeReport())).annotations) == set(after.annotations)
    assert count_refused(writing) == n_lost
    if escape:
        with (path / f"mentions.{name}").open(encoding="utf8", newline="") as file:
            cells = [cell for row in csv.reader(file, delimiter="\t" if name == "tsv" else ",") for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


@given(annotated_texts())
def test_examples_of_prodigy_are_read_as_they_are(tmp_path_factory, document):
    report = ExchangeReport("skip")
    spans = [{"start": a.start, "end": a.end, "label": a.label, "kb_id": a.kb_id} for a in document.annotations]
    path = tmp_path_factory.mktemp("prodigy") / "a.jsonl"
    path.write_text(json.dumps({"text": document.text, "spans": spans, "doc_id": "x"}), encoding="utf8")
    found = list(read_prodigy(path, report))
    kept = [a for a in document.annotations if document.cut(a).strip()]
    if document.text.strip():
        assert [(doc.doc_id, doc.text, doc.annotations) for doc in found] == [("x", document.text, kept)]
        assert count_refused(report) == len(document.annotations) - len(kept)
    else:
        assert not found and count_refused(report) == 1


@pytest.mark.parametrize(
    "written, expected",
    [
        ('["negated", "family"]', MentionContext(negated=True, family=True)),
        ("[]", MentionContext()),
        # Nobody has said, or it is something else of this name.
        ("null", None),
        ('"negated"', None),
        ('["no", "fever"]', None),
        ("[[]]", None),
    ],
)
def test_spans_of_prodigy_may_have_a_context(tmp_path, written, expected):
    spans = f'[{{"start": 3, "end": 8, "label": "A", "kb_id": "C1", "context": {written}}}]'
    (tmp_path / "a.jsonl").write_text(f'{{"text": "no fever", "spans": {spans}}}')
    (document,) = read_prodigy(tmp_path / "a.jsonl", ExchangeReport())
    assert [found.context for found in document.annotations] == [expected]


@pytest.mark.parametrize("start, end", [(-3, 5), (3, -1), (-5, -1), (3, 3), (3, 9), (True, 3), (None, 3), (2.0, 3)])
def test_spans_of_prodigy_are_within_their_text(tmp_path, start, end):
    task = {"text": "no fever", "doc_id": 0, "spans": [{"start": start, "end": end}, {"start": 3, "end": 8}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(task))
    (document,) = read_prodigy(tmp_path / "a.jsonl", report := ExchangeReport("skip"))
    assert document.doc_id == "0" and [document.cut(one) for one in document.annotations] == ["fever"]
    assert count_refused(report) == 1


@given(st.text(st.characters(exclude_categories=["Cs"])), st.data())
def test_units_of_utf_16_are_those_of_the_codec(text, data):
    units = count_utf16(text)
    assert units == [len(text[:point].encode("utf-16-le")) // 2 for point in range(len(text) + 1)]
    if text:
        start = data.draw(st.integers(0, len(text) - 1))
        mention = text[start:]
        [found] = place_mentions(text, [(Annotation(units[start], units[-1]), mention)], "a", ExchangeReport(), "")
        assert text[found.start : found.end].split() == mention.split()


def make_row(text, start, length, **infons):
    return {"id": "1", "infons": infons, "text": text, "locations": [{"offset": start, "length": length}]}


def make_xml(record, tag="collection"):
    """Write BioC XML of what stands for it in JSON."""
    attributes = [key for key in ("id", "offset", "length") if key in record and tag in ("annotation", "location")]
    element = Element(tag, {key: str(record[key]) for key in attributes})
    for key, value in record.items():
        if key == "infons":
            for name, infon in value.items():
                SubElement(element, "infon", {"key": name}).text = str(infon)
        elif isinstance(value, list):
            element.extend(make_xml(one, key.removesuffix("s")) for one in value)
        elif key not in element.attrib:
            SubElement(element, key).text = str(value)
    return element


def write_xml(collection):
    # Without the reference, a carriage return would come back as a line break.
    text = tostring(make_xml(collection), encoding="unicode").replace("\r", "&#13;")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n{text}'


# The forms in which others write a collection of BioC.
FORMS = {
    "XML": write_xml,
    "PubTator 3": lambda collection: json.dumps({"PubTator3": collection["documents"]}),
    "a list": lambda collection: json.dumps(collection["documents"]),
    "lines": lambda collection: "\ufeff" + "\r\n".join(map(json.dumps, [*collection["documents"], collection])),
    "lines of PubTator 3": lambda collection: "".join(
        json.dumps({"PubTator3": [document]}) + "\n\n" for document in collection["documents"]
    ),
    "lines of a list": lambda collection: json.dumps(collection["documents"], indent=0),
}


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
def test_bioc_is_read_in_each_of_its_forms(tmp_path_factory, form, data):
    texts = annotated_texts(
        CHARACTERS if form != "XML" else "ab\u00e9 \n\t\r\u2028\x85\ufeff\U0001f600<&>\"'", labels=("D", "x<y")
    )
    documents = data.draw(st.lists(texts, min_size=1, max_size=3, unique_by=lambda doc: doc.doc_id))
    folder, reports = tmp_path_factory.mktemp("bioc"), [ExchangeReport(), ExchangeReport()]
    write_bioc(documents, folder / "json", ExchangeReport())
    collection = json.loads((folder / "json").read_text(encoding="utf8"))
    # Any of the infons in which ids are, and perhaps some in sentences or at the document.
    name = data.draw(st.sampled_from(["identifier", "MESH", "mesh", "NCBI Gene", "Mine"]))
    where = data.draw(st.sampled_from(["passage", "sentence", "document"]))
    for document in collection["documents"]:
        [passage] = document["passages"]
        for annotation in passage["annotations"]:
            infons = annotation["infons"]
            infons |= {name: infons.pop("identifier")} if "identifier" in infons else {}
        if where != "passage":
            sentence = {"offset": 0, "text": passage["text"], "annotations": passage.pop("annotations")}
            passage["sentences"] = [sentence] if where == "sentence" else []
            document["annotations"] = sentence["annotations"] if where == "document" else []
    (folder / "other").write_bytes(FORMS[form](collection).encode())
    how = {"id_infons": ["none", "mine"]} if name == "Mine" else {}
    found = list(read_bioc(folder / "other", reports[0], **how))
    assert found == documents * (2 if form == "lines" else 1)
    assert not count_kinds(reports[0])
    # What could be an id is never left out in silence.
    n_ids = sum(bool(annotation.kb_id) for document in found for annotation in document.annotations)
    if name == "Mine":
        lost = list(read_bioc(folder / "other", reports[1]))
        assert [doc.annotations for doc in lost] == [[replace(a, kb_id="") for a in doc.annotations] for doc in found]
        assert sum(count_kinds(reports[1]).values()) == n_ids


# Pairs of characters that are written for each other, in both directions.
ALIKE = [("\u03b1", "a"), ("\u03b2", "b"), ("\u0394", "D"), ("\u00e9", "e"), ("e\u0301", "\u00e9"), ("\u2010", "-")]
ALIKE += [("\u2019", "'"), ("\ufb01", "fi"), ("\u00a0", " "), ("\u2082", "2"), ("\u00ad", ""), ("\u0141", "l")]


@pytest.mark.parametrize("name", ["bioc", "brat", "pubtator"])
@example([("\u03b2-1", "beta-1")], False, "")
@given(st.lists(st.sampled_from(ALIKE), min_size=1, max_size=4), st.booleans(), st.sampled_from(["", "\U0001f600 "]))
def test_mentions_in_another_writing_are_read_and_counted(tmp_path_factory, name, pairs, is_turned, before):
    turned = [pair[::-1] if is_turned else pair for pair in pairs]
    in_text, written = (f"TNF{''.join(side)}x" for side in zip(*turned, strict=True))
    text, n, end = f"{before}{in_text} up", len(before), len(before) + len(in_text)
    files = {
        "bioc": make_bioc(make_passage(text, make_row(written, n, len(in_text), MESH="D1"))),
        "brat": {"7.txt": text, "7.ann": f"T1\tD {n} {end}\t{written}\nN1\tReference T1 D1\tx\n"},
        "pubtator": f"7|t|{text}\n7|a|\n7\t{n}\t{end}\t{written}\tD\tD1\n",
    }[name]
    report, (read, _) = ExchangeReport(), ways(name)
    [document] = read(write_files(tmp_path_factory.mktemp(name), files), report)
    assert [(a.start, a.end, a.kb_id) for a in document.annotations] == [(n, end, "D1")]
    assert count_kinds(report) == ({} if in_text.split() == written.split() else {fields.ALIKE: 1})


def make_bioc(*passages):
    return json.dumps({"id": 7, "passages": list(passages)})


def make_passage(text, *annotations, offset=0):
    return {"offset": offset, "text": text, "annotations": list(annotations)}


def make_structures(rows, text="😀 sore toe"):
    sofa = {"%ID": 1, "%TYPE": SOFA, "sofaNum": 1, "sofaID": "_InitialView", "mimeType": "text", "sofaString": text}
    structures = [sofa, *({"%ID": i, "@sofa": 1, **row} for i, row in enumerate(rows, 2))]
    return json.dumps({"%FEATURE_STRUCTURES": structures})


def make_table(*rows, texts='{"document": "a", "text": "ab"}\n'):
    header = "document,start,end,label,id,mention"
    return {"texts.jsonl": texts, "mentions.csv": "".join(f"{row}\n" for row in (header, *rows))}


def make_parquet(**columns):
    file = io.BytesIO()
    pl.DataFrame(columns).write_parquet(file)
    return file.getvalue()


COLD = {"start": 2, "end": 6, "label": "D", "kb_id": "C1"}
IN_PIECES = "document,start,end,label,id,mention,pieces\na,0,2,D,C1,ab,0 1;1 3\n"


@pytest.mark.parametrize(
    ("name", "files", "fault"),
    [
        ("brat", {"a.txt": "Sore", "a.ann": "T1\tSign 0 9\tSore feet\n"}, "a.ann, line 1: the text at"),
        ("brat", {"a.txt": "Sore", "a.ann": "T1\tSign 0\tSore\n"}, "an unknown line"),
        ("brat", {"a.txt": "Sore toe", "a.ann": "T1\tSign 0 4 5 8\ttoe\n"}, "an unknown line"),
        ("brat", {"a.txt": "Sore"}, "a text without annotations"),
        ("brat", {}, "no .txt and .ann files"),
        ("brat", {"a.txt": "Sor\udce9", "a.ann": ""}, "byte 4 is not UTF-8"),
        ("bioc", "[]", "no collection"),
        ("bioc", "{", "no valid JSON"),
        ("bioc", '{"documents": []}\n{"id": 1\n', "line 2: no valid JSON"),
        ("bioc", "<collection><document>", "no valid XML"),
        ("bioc", "<collection><document/></collection>", "not of this form .*id"),
        ("bioc", f'<!DOCTYPE c [<!ENTITY a "{"x" * 99}">]><c>&a;</c>', "no valid XML .the entity 'a'"),
        ("bioc", '<!DOCTYPE c [<!ENTITY a SYSTEM "/etc/passwd">]><c>&a;</c>', "no valid XML .the entity 'a'"),
        ("bioc", '<!DOCTYPE c SYSTEM "BioC.dtd"><c>TNF-&alpha;</c>', "no valid XML .the entity '&alpha;'"),
        ("bioc", "<c>" + "<passage>" * 10_000 + "</passage>" * 10_000 + "</c>", "elements in elements"),
        ("bioc", '"\\ud83d"', "no valid JSON"),
        ("bioc", make_bioc(make_passage("ab", offset=float("inf"))), "not of this form .*infinity"),
        ("bioc", make_bioc(make_passage("ab", offset=10**11)), "100,000,000,000 characters behind"),
        ("bioc", '{"documents": [{"id": 1}]}', "not of this form .*passages"),
        ("bioc", '{"documents": ["a"]}', "not of this form"),
        ("bioc", make_bioc(make_passage("ab", make_row("b", 0, 1))), "mention is 'b'"),
        ("bioc", make_bioc(make_passage("ab"), make_passage("b", offset=1)), "begins before"),
        *(
            ("inception", {"a.json": make_structures([{"%TYPE": NAMED_ENTITY, **place}])}, "structure 2.*UTF-16")
            for place in ({"begin": 1, "end": 3}, {"begin": 3, "end": 99}, {"begin": 5, "end": 5}, {"begin": "1"})
        ),
        ("inception", {"a.json": "[]"}, "0 texts"),
        ("inception", {"a.json": "{"}, "no valid JSON"),
        ("inception", {}, "no .json files"),
        ("brat", {"a.txt": "Sore", "a.ann": f"T1\tSign 0 {'1' * 5000}\tSore\n"}, "an unknown line"),
        ("csv", make_table(f"a,0,{'1' * 5000},D,C1,a"), "row 2.*offsets that are not numbers"),
        ("prodigy", "[]", "line 1"),
        ("prodigy", "{", "line 1"),
        ("prodigy", '{"text": 1}', "line 1"),
        ("prodigy", '{"text": " "}', "'text' is empty"),
        ("prodigy", '{"text": "a", "spans": {"start": 0}}', "'spans' has to be a list"),
        *(
            ("prodigy", json.dumps({"text": "a cold", "spans": spans, "options": []}), "'options' are for one span")
            for spans in ([], [COLD, COLD], ["cold"])
        ),
        ("prodigy", json.dumps({"text": "a cold", "spans": [COLD | {"pieces": "2 3;5 7"}]}), "are not '2 END"),
        ("parquet", b"PAR1", "no Parquet"),
        ("parquet", make_parquet(text=["a cold"], entities=[[COLD | {"mention": "old"}]]), "row 1.*mention is 'old'"),
        ("parquet", make_parquet(text=[None], entities=[None]), "row 1.*no text"),
        ("parquet", make_parquet(text=["a"], entities=["a"]), "row 1.*that are no list"),
        ("parquet", make_parquet(text=["a"], entities=[[{"start": 0, "end": 9}]]), "row 1: a span without a place"),
        ("brat", {"a.txt": "Sore ", "a.ann": "T1\tSign 4 5\t \n"}, "an empty mention"),
        ("prodigy", '{"text": "a", "spans": [{"start": 0, "end": 9}]}', "line 1"),
        ("pubtator", "1|t|😀 Sore\n1|a|\n1\t3\t7\tSore\tSign\n1\t0\t4\ttoes\tPart\n", "the text from 0 to 4"),
        ("csv", make_table("b,0,1,D,C1,a"), "row 2.*no such document as 'b'"),
        ("csv", make_table("a,0,x,D,C1,a"), "row 2.*offsets that are not numbers"),
        ("csv", make_table("a,0,1,D,C1,b"), "row 2.*the text from 0 to 1 is 'a'"),
        ("csv", make_table("a,0"), "row 2.*offsets that are not numbers"),
        ("csv", make_table("a,0,1,D,C1,a,,b"), "row 2: 8 cells, but there are 6 columns"),
        ("csv", make_table("a,0,1,D\r,C1,a"), "mentions.csv: new-line character"),
        ("csv", {**make_table(), "mentions.csv": IN_PIECES}, "row 2.*the pieces '0 1;1 3' are not '0 END"),
        (
            "csv",
            make_table(texts='{"document": 1, "text": "ab"}\n{"document": "1", "text": "b"}\n'),
            "a second document",
        ),
        ("csv", make_table(texts='{"document": 1, "text": "ab"}\n[]\n'), "no object with a text"),
    ],
)
def test_faults_of_files_are_refused_or_counted(tmp_path, name, files, fault):
    path, (read, _) = write_files(tmp_path, files), ways(name)
    # One mention that fits as neither leaves the others where they are.
    n = 2 if name == "pubtator" else 1
    found = check_refused(lambda report: list(read(path, report)), fault if n == 1 else "the text from 3 to 7", n)
    assert not [annotation for document in found for annotation in document.annotations]


@pytest.mark.parametrize("ids", [{"D": 1}, ["D", ["E"]]])
@pytest.mark.parametrize("read", [read_bioc, read_prodigy])
def test_what_is_no_id_costs_the_id_only(tmp_path, read, ids):
    span = {"start": 0, "end": 1, "kb_id": ids}
    line = make_bioc(make_passage("a", make_row("a", 0, 1, identifier=ids)))
    path = write_files(tmp_path, line if read is read_bioc else json.dumps({"text": "a", "spans": [span]}))
    [document] = check_refused(lambda report: list(read(path, report)), "in place of an id")
    assert [(found.start, found.end, found.kb_id) for found in document.annotations] == [(0, 1, "")]


@pytest.mark.parametrize(
    ("name", "document", "fault"),
    [
        ("brat", annotated("a", "ab\nc", (0, 2, "a b", "C1")), "the label 'a b'"),
        ("brat", annotated("a", "ab\nc", (0, 2, "D", "C1 C2")), "would be read back as 'C1|C2'"),
        ("brat", annotated("a", "ab\nc", (2, 4, "D", "C1")), "begins or ends with a line break"),
        ("bioc", annotated("a", "ab", (0, 1, "D", "C1;C2")), "would be read back as"),
        ("inception", annotated("a", "ab", (0, 1, "", "C1")), "the label ''"),
        ("pubtator", annotated("a|b", "ab"), "the name 'a[|]b'"),
        ("pubtator", annotated(" a", "ab"), "the name ' a'"),
        ("pubtator", annotated("a", "ab", (0, 2, "x\ty")), "the label"),
        ("pubtator", annotated("a", "a ", (1, 2, "D")), "a mention of white space"),
        ("csv", annotated("a", "a\0", (0, 2, "D")), "a null character"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_or_counted(tmp_path, name, document, fault):
    _, write = ways(name)
    check_refused(lambda report: write([document], tmp_path / "out", report), fault)


def test_what_is_no_matter_of_one_record_is_refused_in_any_case(tmp_path):
    write_files(tmp_path, {**make_table(), "mentions.csv": "document,start\n"})
    with pytest.raises(ValueError, match="no column end, label, id, mention"):
        list(read_csv(tmp_path, ExchangeReport("skip")))
    with pytest.raises(ValueError, match="errors is 'ignore'"):
        ExchangeReport("ignore")
    with pytest.raises(ValueError, match="'brat' to write with formulas escaped.*csv, tsv"):
        export_docs("brat", [], tmp_path / "out", ExchangeReport(), escape_formulas=True)


PIECES = {"text": "Sore it", "infons": {}, "locations": [{"offset": 3, "length": 4}, {"offset": 8, "length": 2}]}
APART = {"text": "Sore toe", "infons": {}, "locations": [{"offset": 12, "length": 3}, {"offset": 3, "length": 4}]}
NOWHERE = {**APART, "locations": []}
TOE = make_row("toe", 5, 3, type="Part", identifier="D1;D2")
SENTENCE = {"offset": 12, "text": "It hurts.", "annotations": [make_row("hurts", 15, 5, type="Sign")]}
IN_UTF_16 = "documents with offsets in units of UTF-16, which are converted"
MINE = [
    {"text": "cold", "spans": [{"start": 0, "end": 4, "kb_id": ["X:1", "X:2"]}], "meta": {"doc_id": 7}},
    {"text": "b", "answer": "reject"},
]
CHOSEN = [
    {"text": "a cold", "spans": [span], "options": [], **answer}
    for span, answer in (
        (COLD, {"accept": ["NIL"]}),
        ({**COLD, "start": 0}, {"accept": ["X:1", 2], "answer": "accept"}),
        ({**COLD, "start": 1}, {"accept": ["X:1"], "answer": "reject"}),
        ({**COLD, "start": 0, "end": 1, "kb_id": "X:C3"}, {}),
    )
]
LAYERS = [
    {"%TYPE": NAMED_ENTITY, "begin": 3, "end": 7, "value": "Sign", IDENTIFIER: "X:1"},
    {"%TYPE": "custom.Part", "begin": 8, "end": 11, IDENTIFIER: "X:2"},
    {"%TYPE": "custom.Sentiment", "begin": 3, "end": 7},
    {"%TYPE": "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token", "begin": 3, "end": 7},
    {"%TYPE": NAMED_ENTITY, "end": 2},
]
BY_NUMBER = {
    "1": {"%TYPE": SOFA, "sofaString": "toe"},
    "2": {"%TYPE": NAMED_ENTITY, "@sofa": 1, "end": 3, "value": "P"},
}


@pytest.mark.parametrize(
    ("name", "files", "expected", "counts"),
    [
        (
            "brat",
            {
                "a.txt": "Sore toes\nwings",
                "a.ann": "T1\tSign 0 4\tSore\nT2\tSign 10 15;0 4\twings Sore\nT3\tSign 5 9;10 15\ttoes wings\n"
                "N1\tReference T9 X:1\tx\n",
            },
            annotated("a", "Sore toes\nwings", (0, 4, "Sign"), in_pieces("Sign", (0, 4), (10, 15)), (5, 15, "Sign")),
            {"normalizations of no mention": 1},
        ),
        # Codes in notes, as in QUAERO; a note without one; types with spaces.
        (
            "brat",
            {
                "a.txt": "Sore toes, wet",
                "a.ann": "T1\tSign or Symptom 0 4\tSore\n#1\tAnnotatorNotes T1\tC0234233 C0030193\n"
                "T2\tGrade 2 Part 5 9\ttoes\n#2\tAnnotatorNotes T2\tsee C0040357\n"
                "T3\tSign 11 14\twet\nN1\tReference T3 X:D1\twet\n#3\tAnnotatorNotes T3\tX:D11\n"
                "#4\tAnnotatorNotes T9\tC0040357\n",
            },
            annotated(
                "a",
                "Sore toes, wet",
                *((0, 4, "Sign or Symptom", "C0234233|C0030193"), (5, 9, "Grade 2 Part"), (11, 14, "Sign", "D1")),
            ),
            {
                "mentions whose type has a space, which brat itself doesn't read": 2,
                "annotations that are neither mentions nor normalizations": 1,
                "codes in notes on mentions that have a normalization": 1,
                "normalizations of no mention": 1,
            },
        ),
        (
            "pubtator",
            "1|t|Sore toe.\n1|a|It hurts.\n1\t0\t4\tSore\tSign\tX:1|D2\n1\t5\t8\ttoe\tPart\t-1\n1\tCID\tD1\tD2\n"
            "1\t10\t12\tIt\tPart",
            annotated("1", "Sore toe. It hurts.", (0, 4, "Sign", "1|D2"), (5, 8, "Part", "NIL"), (10, 12, "Part")),
            {"relations": 1},
        ),
        (
            "pubtator",
            "1|t|😀 Sore 😀 toe\n1|a|\n1\t3\t7\tSore\tSign\t\n1\t11\t14\ttoe\tPart\tX:1\n",
            annotated("1", "😀 Sore 😀 toe", (2, 6, "Sign"), (9, 12, "Part", "1")),
            {IN_UTF_16: 1},
        ),
        (
            "bioc",
            make_bioc(make_passage("😀 Sore it", make_row("Sore", 3, 4), PIECES)),
            annotated("7", "😀 Sore it", (2, 6), (2, 9)),
            {IN_UTF_16: 1},
        ),
        (
            "bioc",
            make_bioc(make_passage("😀 Sore big toe", APART, {**APART, "text": "Sore...toe"}, NOWHERE)),
            annotated("7", "😀 Sore big toe", *[in_pieces("", (2, 6), (11, 14))] * 2),
            {IN_UTF_16: 1, "annotations without a place": 1},
        ),
        (
            "bioc",
            make_bioc(make_passage("Sore toe.", TOE), {"offset": 12, "sentences": [SENTENCE]}),
            annotated("7", "Sore toe.   It hurts.", (5, 8, "Part", "D1|D2"), (15, 20, "Sign")),
            {},
        ),
        # From public threads: a byte order mark, line ends of Windows, a null character, a seventh field, overlapping
        # pieces, another hyphen.
        (
            "pubtator",
            "\ufeff1|t|Sore\0 toe\r\n1|a|\r\n1\t0\t4\tSore\tSign\tD1\tSore\r\n1\t0\t9\tSore\0 toe\tSign\tD2\r\n",
            annotated("1", "Sore\0 toe", (0, 4, "Sign", "D1"), (0, 9, "Sign", "D2")),
            {},
        ),
        (
            "brat",
            {
                "a.txt": "Sore\r\nbig\u2010toe",
                "a.ann": "\ufeffT1\tSign 6 13\tbig-toe\r\nT2\tSign 0 4;2 9\tSore re big\r\n",
            },
            annotated("a", "Sore\r\nbig\u2010toe", (6, 13, "Sign"), (0, 9, "Sign")),
            {fields.ALIKE: 1},
        ),
        # The first of several infons; those that hold a list; one that nobody knows.
        (
            "bioc",
            make_bioc(
                make_passage(
                    "toe",
                    make_row("toe", 0, 3, type="P", MESH="D1", identifier="MESH:D1", normalized_id="D1"),
                    make_row("toe", 0, 3, OMIM="1", MESH=["D1", "D2"]),
                    make_row("toe", 0, 3, concept="D1"),
                )
            ),
            annotated("7", "toe", (0, 3, "P", "MESH:D1"), (0, 3, "", "D1|D2"), (0, 3)),
            {
                "annotations with ids in several infons; the first is read: choose one with --id-infon": 1,
                "annotations without an id: if another of their infons has it, name that one with --id-infon": 1,
            },
        ),
        # An export of PubTator 3.
        (
            "bioc",
            f'{{"PubTator3": [{make_bioc(make_passage("toe", make_row("toe", 0, 3, identifier="-")))}]}}',
            annotated("7", "toe", (0, 3, "", "NIL")),
            {},
        ),
        (
            "inception",
            {"a.json": make_structures(LAYERS)},
            annotated("a", "😀 sore toe", (2, 6, "Sign", "1"), (7, 10, "Part", "2"), (0, 1, "NamedEntity")),
            {"annotations of the layer custom.Sentiment, which have no identifier": 1},
        ),
        # An older file.
        (
            "inception",
            {"a.json": json.dumps({"%FEATURE_STRUCTURES": BY_NUMBER})},
            annotated("a", "toe", (0, 3, "P")),
            {},
        ),
        (
            "prodigy",
            "\n".join(map(json.dumps, MINE)),
            annotated("7", "cold", (0, 4, "", "1|2")),
            {"examples that were rejected or ignored": 1},
        ),
        ("prodigy", '\n{"text": "c"}\n', annotated("file-2", "c"), {}),
        (
            "prodigy",
            "\n".join(map(json.dumps, CHOSEN)),
            annotated("file-1", "a cold", (2, 6, "D", "NIL"), (0, 6, "D", "1|2"), (0, 1, "D", "C3")),
            {"examples that were rejected or ignored": 1},
        ),
        # Neither an id nor a label, as a recogniser may leave it.
        (
            "parquet",
            make_parquet(text=["a cold"], entities=[[{"start": 2, "end": 6}]], other=[1]),
            annotated("file-1", "a cold", (2, 6)),
            {},
        ),
        ("parquet", make_parquet(id=[7], text=["a"], entities=[None]), annotated("7", "a"), {}),
    ],
)
def test_files_of_others_are_read_without_the_prefix_of_ids(tmp_path, name, files, expected, counts):
    report, (read, _) = ExchangeReport(), ways(name)
    assert list(read(write_files(tmp_path, files), report, "X:")) == [expected]
    assert count_kinds(report) == counts


HANDS = "Hand and foot deformities,\ncold and\nhot flushes"
APIECE = [
    in_pieces("Sign", (0, 4), (14, 25), kb_id="C1"),
    Annotation(9, 25, "Sign", "C2"),
    # Over several lines, with several pieces in one of them.
    in_pieces("Sign", (14, 25), (27, 31), (32, 47), kb_id="NIL"),
    in_pieces("Part", (27, 31), (40, 47), kb_id="C1|C2"),
]


@pytest.mark.parametrize("name", ["brat", "bioc", "csv", "tsv", "parquet", "prodigy", "prodigy-choice"])
def test_pieces_of_mentions_go_out_and_come_back(tmp_path, name):
    (read, write), report = ways(name), ExchangeReport()
    document = AnnotatedText("a", HANDS, APIECE)
    write([document], tmp_path / "first", ExchangeReport())
    [found] = read(tmp_path / "first", report)
    expected = [tidy_pieces(HANDS, annotation) for annotation in APIECE]
    assert found == AnnotatedText("a", HANDS, expected) and count_kinds(report) == {}
    assert expected[2].pieces == ((14, 25), (27, 47)) and expected[3] == APIECE[3]
    # By way of a document of spaCy, in which they are no entities.
    doc = make_doc(found, tokenize, report)
    assert [(ent.start_char, ent.end_char) for ent in doc.ents] == [(9, 25)]
    assert count_kinds(report) == {"mentions in several pieces, in the span group 'discontinuous'": 3}
    [back] = annotate([doc], ExchangeReport())
    assert set(back.annotations) == set(expected)
    write([back], tmp_path / "second", ExchangeReport())
    assert set(next(iter(read(tmp_path / "second", ExchangeReport()))).annotations) == set(expected)


@pytest.mark.parametrize("name", ["inception", "pubtator"])
def test_formats_without_pieces_have_the_whole_extent(tmp_path, name):
    (read, write), report = ways(name), ExchangeReport()
    write([AnnotatedText("a", HANDS, APIECE)], tmp_path / "out", report)
    assert count_kinds(report)[f"mentions in several pieces, which {name} joins"] == 3
    [found] = read(tmp_path / "out", ExchangeReport())
    assert found.annotations == [replace(annotation, pieces=()) for annotation in APIECE]


@settings(max_examples=25)
@given(st.sampled_from(["brat", "bioc", "csv"]), st.text("ab \n😀", min_size=2, max_size=25), st.data())
def test_any_pieces_are_stable_once_written(tmp_path_factory, name, text, data):
    place = st.tuples(st.integers(0, len(text) - 1), st.integers(1, 5)).map(lambda at: (at[0], min(sum(at), len(text))))
    pieces = data.draw(st.lists(place, min_size=1, max_size=4))
    start, end = min(pieces)[0], max(end for _, end in pieces)
    before = tidy_pieces(text, Annotation(start, end, "D", "C1", pieces=tuple(pieces)))
    folder, (read, write) = tmp_path_factory.mktemp(name), ways(name)
    for number in range(2):
        report = ExchangeReport("skip")
        write([AnnotatedText("a", text, [before])], folder / f"{number}", report)
        [found] = read(folder / f"{number}", ExchangeReport())
        if count_refused(report):
            assert name == "brat"
            break
        assert number == 0 or found.annotations == [before]
        assert name == "brat" or found.annotations == [before]
        [before] = found.annotations


def test_pieces_fit_the_span_that_is_made_and_are_those_of_one_mention():
    text = "Sore and big toes, sore and wet toes."
    annotations = [
        in_pieces("D", (0, 4), (13, 18), kb_id="C1"),
        in_pieces("D", (0, 8), (13, 17), kb_id="C2"),
        Annotation(19, 36, "D", "C3"),
        in_pieces("D", (19, 23), (32, 36), kb_id="C4"),
        in_pieces("E", (20, 23), (32, 35), kb_id="C5"),
    ]
    report, tokenizer = ExchangeReport(), spacy.blank("en")
    doc = make_doc(AnnotatedText("a", text, annotations), tokenizer.make_doc, report, inside_tokens="expand")
    register_extensions()
    found = [(span.label_, span.kb_id_, span.text, span._.match_pieces) for span in doc.spans[DISCONTINUOUS]]
    assert found == [
        ("D", "C1", "Sore and big toes,", [(0, 4), (13, 18)]),
        ("D", "C2", "Sore and big toes", [(0, 8), (13, 17)]),
        ("E", "C5", "sore and wet toes", [(19, 23), (32, 36)]),
    ]
    assert doc.ents[0].kb_id_ == "C3" and doc.ents[0]._.match_pieces == [(19, 36)]
    assert count_kinds(report) == {
        "mentions extended to whole tokens": 1,
        "mentions in several pieces, in the span group 'discontinuous'": 3,
        "mentions in several pieces with the ends and the label of another one": 1,
    }


def test_brat_has_prefixes_and_names_of_files(tmp_path):
    document = annotated("x/1", "a head cold", (2, 11, "D", "C1|C2"), (0, 1, "D", "NIL"))
    report = ExchangeReport()
    write_brat([document], tmp_path, report, "UMLS:")
    assert "Reference T1 UMLS:C1\thead cold\n" in (tmp_path / "x%2F1.ann").read_text(encoding="utf8")
    [found] = read_brat(tmp_path, ExchangeReport(), "UMLS:")
    assert found.annotations == document.annotations
    # NIL has no resource, so that brat does not show it; the document's name is no file name.
    assert count_kinds(report) == {
        "ids without a resource and a colon, which brat does not show": 1,
        "documents whose names are not file names, with % for other characters": 1,
    }


def test_the_view_of_inception_has_all_structures(tmp_path):
    document = annotated("a", "😀 toe", (2, 5, "P", "x:1"), (0, 1, "Q", "NIL"))
    write_inception([document], tmp_path, ExchangeReport())
    data = json.loads((tmp_path / "a.json").read_text(encoding="utf8"))
    members = [row["%ID"] for row in data["%FEATURE_STRUCTURES"] if row["%TYPE"] != SOFA]
    assert data["%VIEWS"]["_InitialView"]["%MEMBERS"] == members


def make_linked(kb_id):
    """Make a document whose mention has one candidate."""
    register_extensions()
    doc = spacy.blank("en").make_doc("a cold")
    doc.ents = [Span(doc, 1, 2, "D", kb_id=kb_id)]
    candidate = {"id": "C1", "concept_id": "C1", "name": "cold, common", "canonical_name": "Common Cold", "types": []}
    doc.ents[0]._.kb_candidates = [{**candidate, "score": 0.5, "mention": "cold", "probability": 0.25}]
    return take(doc, "n")


def test_rows_of_parquet_have_candidates_and_become_rows_of_mentions(tmp_path):
    ways("parquet")[1]([make_linked("C1"), annotated("b", "x")], tmp_path / "a.parquet", ExchangeReport(), "UMLS:")
    frame = pl.read_parquet(tmp_path / "a.parquet")
    assert frame["id"].to_list() == ["n", "b"] and frame["entities"].list.len().to_list() == [1, 0]
    # A document without mentions has a row without any, or none, as polars decides.
    row, *_ = frame.explode("entities").unnest("entities").rows(named=True)
    expected = {"id": "n", "text": "a cold", "start": 2, "end": 6, "label": "D", "kb_id": "UMLS:C1", "mention": "cold"}
    expected |= {"name": "cold, common", "canonical_name": "Common Cold", "score": 0.5, "probability": 0.25}
    assert {key: value for key, value in row.items() if value is not None} == expected


@pytest.mark.parametrize(
    ("kb_id", "accepted", "added"),
    [("", [], []), ("C1", ["X:C1"], []), ("NIL", ["NIL"], []), ("C1|C2", ["X:C1", "X:C2"], ["X:C2"])],
)
def test_choices_of_prodigy_are_the_candidates_and_what_was_chosen(tmp_path, kb_id, accepted, added):
    report, (read, write) = ExchangeReport(), ways("prodigy-choice")
    write([make_linked(kb_id), annotated("b", "x")], tmp_path / "a.jsonl", report, "X:")
    assert count_kinds(report) == {"documents without mentions, which have no task": 1}
    [task] = map(json.loads, (tmp_path / "a.jsonl").read_text(encoding="utf8").splitlines())
    span = {"start": 2, "end": 6, "label": "D", "kb_id": "|".join(accepted)}
    offered = {"X:C1": "Common Cold (X:C1)", "NIL": "No concept", **dict(zip(added, added, strict=True))}
    options = [{"id": id_, "text": text} for id_, text in offered.items()]
    meta = {"doc_id": "n"}
    assert task == {"text": "a cold", "meta": meta, "spans": [span], "options": options, "accept": accepted}
    # What an annotator does.
    for answer, found_id in (({}, kb_id), ({"accept": ["NIL"], "answer": "accept"}, "NIL"), ({"accept": []}, "")):
        (tmp_path / "b.jsonl").write_text(json.dumps(task | answer), encoding="utf8")
        [found] = read(tmp_path / "b.jsonl", ExchangeReport(), "X:")
        assert found == annotated("n", "a cold", (2, 6, "D", found_id))


def test_tables_have_candidates_and_long_mentions(tmp_path):
    long = annotated("long", "x" * 200_000, (0, 200_000, "D", "C1"))
    limit = csv.field_size_limit()
    write_csv([make_linked("C1"), long], tmp_path, ExchangeReport(), "UMLS:")
    found = list(read_csv(tmp_path, ExchangeReport(), "UMLS:"))
    assert found == [annotated("n", "a cold", (2, 6, "D", "C1")), long]
    assert csv.field_size_limit() == limit
    _, row, *_ = (tmp_path / "mentions.csv").read_text(encoding="utf8").splitlines()
    of_mention, of_candidate = '"n",2,6,"D","UMLS:C1","cold"', '"cold, common","Common Cold",0.5,0.25'
    assert row == ",".join([of_mention, of_candidate, *['""'] * 6])
