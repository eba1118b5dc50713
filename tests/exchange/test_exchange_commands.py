"""The commands of `python -m spacy_sapbert.exchange`: files appear whole, and their reports beside them."""

import json

import pytest
import spacy
from annotated_texts import load, run, save
from spacy.tokens import Doc, Span

from spacy_sapbert.exchange.__main__ import main
from spacy_sapbert.exchange.documents import DOC_ID, OVERLAPPING
from spacy_sapbert.exchange.formats import FORMATS

nlp = spacy.blank("en")
TEXT = "She had a head cold😀 and\nfever."


@pytest.fixture
def docs(tmp_path):
    first, second = nlp.make_doc(TEXT), nlp.make_doc("No fever")
    first.user_data[DOC_ID] = second.user_data[DOC_ID] = "note"
    first.ents = [first.char_span(10, 19, "DISEASE", kb_id="C0009443"), first.char_span(25, 30, "SIGN", kb_id="NIL")]
    first.spans["more"] = [Span(first, 3, 4, "PART", kb_id="C0000001|C0000002")]
    return save(tmp_path / "docs.spacy", first, second)


def test_what_the_user_can_mend_is_one_sentence(tmp_path, docs, capsys, monkeypatch):
    for arguments, code in (
        (["to", "xls", docs, "out"], "There is no format"),
        (["from", "brat", tmp_path / "no", "out"], "Can't find the file"),
    ):
        monkeypatch.setattr("sys.argv", ["exchange", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert ended.value.code == 1 and code in printed.out + printed.err and "Traceback" not in printed.err


def list_mentions(doc):
    spans = [*doc.ents, *doc.spans.get(OVERLAPPING, ())]
    return [(span.start_char, span.end_char, span.label_, span.kb_id_) for span in spans]


@pytest.mark.parametrize("name", [name for name, format_ in FORMATS.items() if format_.dump])
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
    assert list_mentions(found[0]) == [
        (10, 19, "DISEASE", "C0009443"),
        (25, 30, "SIGN", "NIL"),
        (10, 14, "PART", "C0000001|C0000002"),
    ]
    data = json.loads((tmp_path / "new" / "back.spacy.report.json").read_text(encoding="utf8"))
    assert data["counts"] == {
        "documents": 2,
        "mentions": 3,
        "mentions without an id": 0,
        "mentions in the span group 'overlapping'": 1,
    }
    assert not list(tmp_path.glob("**/*.part"))


def test_fhir_is_written_as_lines(tmp_path, docs):
    out = tmp_path / "out.jsonl"
    run("to-fhir", docs, out, "--source", "UMLS", "--source", "MSH", "--version", "UMLS=2025AB", "--spans-key", "more")
    rows = [json.loads(line) for line in out.read_text(encoding="utf8").splitlines()]
    assert [row["codeableConcept"].get("coding", [{}])[0].get("code") for row in rows] == ["C0009443", None, "C0000001"]
    report = json.loads((tmp_path / "out.jsonl.report.json").read_text(encoding="utf8"))
    assert report["left_out"]["concepts without a code in MSH"]["count"] == 3
    with pytest.raises(ValueError, match="--version is 'UMLS'.*SOURCE=VALUE"):
        run("to-fhir", docs, out, "--version", "UMLS")


def test_mentions_inside_of_tokens_are_counted_or_expanded(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("headcold", encoding="utf8")
    (tmp_path / "in" / "a.ann").write_text("T1\tD 4 8\tcold\nN1\tReference T1 X:1\tcold\n", encoding="utf8")
    out = tmp_path / "a.spacy"
    assert "mentions that begin or end inside of a token" in run("from", "brat", tmp_path / "in", out)
    assert [list(doc.ents) for doc in load(out)] == [[]]
    run("from", "brat", tmp_path / "in", out, "--inside-tokens", "expand")
    [doc] = load(out)
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("headcold", "X:1")]
    with pytest.raises(ValueError, match="inside_tokens.*leave_out or expand"):
        run("from", "brat", tmp_path / "in", out, "--inside-tokens", "shift")


def test_what_is_refused(tmp_path, docs):
    run("to", "brat", docs, tmp_path / "out")
    (tmp_path / "bad.spacy").write_bytes(b"no")
    for arguments, error, message in (
        (("to", "brat", docs, tmp_path / "out"), FileExistsError, "already, and not empty"),
        (("to", "word", docs, tmp_path / "other"), ValueError, "'word' to write.*brat"),
        (("from", "word", tmp_path / "out", tmp_path / "other"), ValueError, "'word' to read.*brat"),
        (("from", "brat", tmp_path / "nothing", tmp_path / "other"), FileNotFoundError, "Can't find the file"),
        (("to", "brat", tmp_path / "nothing.spacy", tmp_path / "other"), FileNotFoundError, "Can't find the file"),
        (("to", "brat", tmp_path / "bad.spacy", tmp_path / "other"), ValueError, "no documents of spaCy"),
    ):
        with pytest.raises(error, match=message):
            run(*arguments)


def test_a_document_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    doc = Doc(nlp.vocab, ["a"])
    doc.ents = [Span(doc, 0, 1, "two words", kb_id="C1")]
    save(tmp_path / "docs.spacy", doc)
    with pytest.raises(ValueError, match="two words"):
        run("to", "brat", tmp_path / "docs.spacy", tmp_path / "out")
    assert not list((tmp_path / "out").iterdir()) and not (tmp_path / "out.report.json").exists()
