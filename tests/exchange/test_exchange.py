"""The commands that convert documents, and what comes back as documents: names, overlaps, places."""

import json
from pathlib import Path

import pytest
import spacy
from annotated_texts import check_refused, count_kinds, load, run, save, take, tokenize, ways
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span
from typer.testing import CliRunner

from spacy_sapbert.__main__ import app, main
from spacy_sapbert.commands.app import show_exchange
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
from spacy_sapbert.exchange.names import READ_ONLY, WRITTEN

nlp = spacy.blank("en")
TEXT = "She had a head cold😀 and\nfever."
# A choice needs a mention.
OF_DOCUMENTS = [name for name in WRITTEN if name != "prodigy-choice"]


@pytest.fixture
def docs(tmp_path):
    first, second = nlp.make_doc(TEXT), nlp.make_doc("No fever")
    first.user_data[DOC_ID] = second.user_data[DOC_ID] = "note"
    first.ents = [first.char_span(10, 19, "DISEASE", kb_id="C0009443"), first.char_span(25, 30, "SIGN", kb_id="NIL")]
    first.spans["more"] = [Span(first, 3, 4, "PART", kb_id="C0000001|C0000002")]
    return save(tmp_path / "docs.spacy", first, second)


@pytest.mark.parametrize("name", OF_DOCUMENTS)
def test_documents_go_out_and_come_back(tmp_path, docs, name):
    out, back = tmp_path / "out", tmp_path / "new" / "back.spacy"
    printed = run("to", name, docs, out, "--spans-key", "more", "--prefix", "UMLS:", "--errors", "skip")
    assert "documents with the name of another one" in printed
    report = json.loads((tmp_path / "out.report.json").read_text(encoding="utf8"))
    assert report["counts"] == {"documents": 2, "mentions": 3} and not report["left_out"]
    run("from", name, out, back, "--prefix", "UMLS:")
    found = load(back)
    # A PubTator document ends where its text does, but has no line breaks.
    assert [doc.text.replace("\n", " ") for doc in found] == [TEXT.replace("\n", " "), "No fever"]
    assert [doc.user_data[DOC_ID] for doc in found] == ["note", "note#2"]
    spans = [*found[0].ents, *found[0].spans[OVERLAPPING]]
    assert [(span.start_char, span.end_char, span.label_, span.kb_id_) for span in spans] == [
        (10, 19, "DISEASE", "C0009443"),
        (25, 30, "SIGN", "NIL"),
        (10, 14, "PART", "C0000001|C0000002"),
    ]
    data = json.loads((tmp_path / "new" / "back.spacy.report.json").read_text(encoding="utf8"))
    assert list(data["counts"].values()) == [2, 3, 0, 1]
    assert not list(tmp_path.glob("**/*.part"))


def test_mentions_inside_of_tokens_are_counted_or_expanded(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("headcold", encoding="utf8")
    (tmp_path / "in" / "a.ann").write_text("T1\tD 4 8\tcold\nN1\tReference T1 X:1\tcold\n", encoding="utf8")
    out = tmp_path / "a.spacy"
    assert "mentions that begin or end inside a token" in run("from", "brat", tmp_path / "in", out)
    assert [list(doc.ents) for doc in load(out)] == [[]]
    run("from", "brat", tmp_path / "in", out, "--inside-tokens", "expand")
    [doc] = load(out)
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("headcold", "X:1")]


def test_the_command_takes_the_infon_of_ids(tmp_path):
    infons = "".join(f'<infon key="{key}">{value}</infon>' for key, value in (("type", "D"), ("Mine", "X:1")))
    place = f"<annotation id='1'>{infons}<location offset='2' length='4'/><text>cold</text></annotation>"
    passage = f"<id>7</id><passage><offset>0</offset><text>a cold</text>{place}</passage>"
    (tmp_path / "a.xml").write_text(f"<collection><document>{passage}</document></collection>", encoding="utf8")
    assert "Odd: 1 annotations without an id" in run("from", "bioc", tmp_path / "a.xml", tmp_path / "a.spacy")
    run("from", "bioc", tmp_path / "a.xml", tmp_path / "a.spacy", "--id-infon", "mine", "--prefix", "X:")
    assert [(ent.text, ent.label_, ent.kb_id_) for doc in load(tmp_path / "a.spacy") for ent in doc.ents] == [
        ("cold", "D", "1")
    ]


FILES, FOLDERS = ("bioc", "pubtator"), ("brat", "csv", "tsv", "inception")


def test_what_is_refused_is_one_sentence_and_leaves_nothing_behind(tmp_path, docs, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("to", "brat", docs, "out")
    (tmp_path / "bad.spacy").write_bytes(b"no")
    doc = Doc(nlp.vocab, ["a"])
    doc.ents = [Span(doc, 0, 1, "two words", kb_id="C1")]
    save(tmp_path / "labels.spacy", doc)
    for arguments, message in (
        ("to brat docs.spacy out", "already, and not empty"),
        ("to xls docs.spacy new", "'xls' to write. There are: bioc, brat"),
        ("from word out new", "'word' to read. There are: bioc, brat"),
        ("from brat nothing new", "Can't find the file"),
        ("from brat out new --id-infon MESH", "'brat' to read with names of infons. There are: bioc"),
        ("from brat out new --inside-tokens shift", "leave_out or expand"),
        ("to brat nothing.spacy new", "Can't find the file"),
        ("to brat bad.spacy new", "no documents of spaCy in bad.spacy. Give a file of documents"),
        ("to brat bad.spacy new --errors skip", "no documents of spaCy in bad.spacy"),
        ("from brat out new.txt", "new.txt has to end in .spacy"),
        ("to brat out new", "out is a folder. Give the path of a file"),
        ("to-fhir out new", "out is a folder. Give the path of a file"),
        ("to-fhir docs.spacy out", "out is a folder. Give the path of a file"),
        *((f"to {name} docs.spacy out", f"out is a folder, but the format {name} takes a file") for name in FILES),
        *((f"to {name} docs.spacy bad.spacy", "bad.spacy is a file, but the format") for name in FOLDERS),
        *((f"from {name} out new.spacy", f"out is a folder, but the format {name} takes a file") for name in FILES),
        *((f"from {name} bad.spacy new.spacy", f"bad.spacy is a file, but the format {name}") for name in FOLDERS),
        ("to-fhir docs.spacy new --terminology out", "no saved terminology in out. A pipeline has it in"),
        ("to brat labels.spacy new", "the label 'two words'"),
        ("to-fhir docs.spacy new --version UMLS", "'UMLS'"),
    ):
        monkeypatch.setattr("sys.argv", ["spacy_sapbert", *arguments.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = " ".join("".join(capsys.readouterr()).split())
        assert ended.value.code == 1 and message in printed and "Traceback" not in printed
    assert not [path for path in tmp_path.glob("new*") if path.is_file() or any(path.iterdir())]


def test_overlaps_and_places_are_counted_and_never_shifted():
    places = [(2, 11), (2, 6), (4, 11), (3, 3), (5, 2), (-2, 1), (7, 99), (11, 12)]
    text = AnnotatedText("a", "a head cold!", [Annotation(*place, "D", "C1") for place in places])
    report = ExchangeReport()
    doc = make_doc(text, nlp.make_doc, report)
    assert doc.user_data[DOC_ID] == "a"
    assert [(ent.start_char, ent.end_char) for ent in doc.ents] == [(2, 11), (11, 12)]
    assert [(span.start_char, span.end_char) for span in doc.spans[OVERLAPPING]] == [(2, 6)]
    assert count_kinds(report) == {
        "mentions that begin or end inside a token": 1,
        "mentions outside of their text": 4,
        "mentions that overlap a longer one": 1,
    }
    report = ExchangeReport()
    doc = make_doc(text, nlp.make_doc, report, inside_tokens="expand")
    assert [(span.start_char, span.end_char) for span in doc.spans[OVERLAPPING]] == [(2, 11), (2, 6)]
    assert count_kinds(report)["mentions extended to whole tokens"] == 1


def test_white_space_at_the_ends_of_mentions_is_left_off_and_counted():
    notes = [Annotation(1, 7, "D", "C1"), Annotation(6, 7, "D", "C1"), Annotation(0, 5, "D", "C1")]
    # Expanding begins at the mention, not at the token that the space before it belongs to.
    for kept, how in ((notes, "leave_out"), (notes[:1], "expand")):
        report = ExchangeReport()
        doc = make_doc(AnnotatedText("a", "a head cold", kept), nlp.make_doc, report, inside_tokens=how)
        assert [(ent.start_char, ent.end_char) for ent in doc.ents] == [(2, 6)]
        assert count_kinds(report).pop("mentions with white space at their ends, which is left off") == 1
        assert sum(count_kinds(report).values()) == len(kept)


def make_named(names):
    docs = [nlp.make_doc(f"text {number}") for number in range(len(names))]
    for doc, name in zip(docs, names, strict=True):
        doc.user_data[DOC_ID] = name
    return docs


def test_span_groups_go_out_once_and_names_are_distinct():
    report = ExchangeReport()
    doc = make_doc(AnnotatedText("a", "cold", [Annotation(0, 4, "", "C1")]), tokenize, report)
    assert count_kinds(report) == {"mentions without a label, which get 'MENTION'": 1}
    doc.spans["sc"] = [*doc.ents, doc.char_span(0, 2, "E", kb_id="C2")]
    assert len(take(doc).annotations) == 1
    assert take(doc, spans_keys=["sc"]).annotations == [Annotation(0, 4, "MENTION", "C1"), Annotation(0, 2, "E", "C2")]
    report = ExchangeReport()
    texts = annotate([*make_named(["a#2"]), doc, doc, nlp.make_doc("b")], report)
    assert [text.doc_id for text in texts] == ["a#2", "a", "a#3", "document-4"]
    assert count_kinds(report) == {"documents with the name of another one, which get a number": 1}


# Names that are numbered already, differ in capitals only, or are no file names.
NAMES = st.one_of(
    st.sampled_from(["a", "A", "a#2", "a#3", "A#3", "a#2#2", "b/1", "b%2F1", "document-2", ""]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9),
)


@given(st.lists(NAMES, min_size=1, max_size=6))
def test_all_documents_have_a_name_of_their_own_and_come_back(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("names")
    docs = annotate(make_named(names), ExchangeReport())
    assert len({doc.doc_id for doc in docs}) == len(names)
    for name in OF_DOCUMENTS:
        report, output = ExchangeReport("skip"), folder / name
        read, write = ways(name)
        write(docs, output, report)
        # A file system may take capitals for small letters.
        files = [path.name.lower() for path in folder.glob(f"{name}/*")]
        assert len(set(files)) == len(files)
        back = list(read(output, ExchangeReport()))
        n_refused = count_kinds(report).get("malformed", 0)
        assert len(back) == len(names) - n_refused and (name == "pubtator" or not n_refused)
        assert len({doc.doc_id for doc in back}) == len({doc.text for doc in back}) == len(back)
        assert {doc.text for doc in back} <= {doc.text for doc in docs}
    lines = [json.dumps({"text": "a", "doc_id": name}) + "\n" for name in names]
    (folder / "a.jsonl").write_text("".join(lines), encoding="utf8")
    assert len({doc.doc_id for doc in read_texts("prodigy", folder / "a.jsonl", ExchangeReport())}) == len(names)


def test_texts_above_the_limit_of_spacy_are_refused_or_counted(tmp_path):
    records = [{"text": "a cold", "spans": []}, {"text": "x" * (nlp.max_length + 1), "doc_id": "long"}, {"text": "b"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf8")
    fault = "a.jsonl, document long: 1,000,001 characters.*at most 1,000,000"
    check_refused(lambda report: import_docs("prodigy", tmp_path / "a.jsonl", tmp_path / "a.spacy", report), fault)
    assert [doc.text for doc in read_docs(tmp_path / "a.spacy")] == ["a cold", "b"]


def test_help_lists_all_formats():
    assert list(FORMATS) == [*WRITTEN, *READ_ONLY]
    assert [name for name in FORMATS if FORMATS[name].dump] == [*WRITTEN]
    for command, names in (("to", WRITTEN), ("from", FORMATS)):
        shown = CliRunner().invoke(app, [command, "--help"], terminal_width=200).output
        assert all(name in shown for name in names)
        assert ("doccano" in shown) == (command == "from")


def test_control_characters_of_a_file_do_not_reach_the_terminal(capsys):
    report = ExchangeReport()
    report.leave_out("mentions", "document \x1b[31mred\x9b")
    show_exchange(Path("out"), {"counts": {}, "left_out": report.left_out, "odd": {}})
    assert r"document \x1b[31mred\x9b" in capsys.readouterr().out
