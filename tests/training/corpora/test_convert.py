"""The command that converts corpora, its refusals, and how a reader of another form is added."""

import gzip

import pytest
from case_tables import cases
from command_line import run_command
from corpus_originals import PUBTATOR, convert, pairs, write
from thinc.api import Config

from spacy_sapbert.exchange.documents import ExchangeReport
from spacy_sapbert.exchange.fields import split_ids
from training.corpora.convert import FORMATS, Format
from training.corpora.reading import CorpusParts, Originals, locate, open_input
from training.data.mentions import Mention


def test_a_reader_of_another_form_is_a_function_and_a_line_in_formats(tmp_path, monkeypatch):
    """Lines of a text, its start and end of a mention, and ids, with semicolons between them."""

    def read_semicolons(originals: Originals) -> CorpusParts:
        corpus = CorpusParts()
        for part, file in originals.find_parts(r"(?P<part>.+)\.semi").items():
            for number, row in enumerate(file.rows("text;start;end;ids", (4,), separator=";"), 1):
                text, start, end, ids = row.fields
                if not (start.isdecimal() and end.isdecimal()):
                    row.refuse(f"{start} and {end} are not both numbers")
                    continue
                mention = Mention("", split_ids(ids), f"d{number}", place=row.place)
                corpus.add(part, f"d{number}", text, [locate(mention, text, (int(start), int(end)))])
        return corpus

    monkeypatch.setitem(FORMATS, "semicolons", Format(read_semicolons, "a file .semi for each part"))
    files = {"test.semi": "my sore toe;3;11;C1|C2\nsalt;0;4;C3\n", "readme.txt": "x"}
    data = convert(tmp_path, "semicolons", files)
    assert pairs(tmp_path, "test") == [("sore toe", ["C1", "C2"]), ("salt", ["C3"])]
    assert data["parts"]["test"]["documents"] == 2 and data["odd"]["stray files, not read"]["count"] == 1
    with pytest.raises(ValueError, match="line 1: x and y are not both numbers. The form is text;start;end;ids"):
        convert(tmp_path, "semicolons", {"test.semi": "toe;x;y;C1\n"})


def test_folders_are_listed_without_litter(tmp_path):
    write(tmp_path, {"b.txt.gz": "", "a/x.txt": "", ".DS_Store": "", "__MACOSX/a.txt": "", "._b.txt": ""})
    assert [file.name for file in open_input(tmp_path, ExchangeReport()).files] == ["a/x.txt", "b.txt"]


def test_counts_are_shown_and_the_same_input_gives_the_same_bytes(tmp_path):
    path = write(tmp_path / "in", {"test.txt": PUBTATOR}) / "test.txt"
    shown = run_command("convert", "pubtator", path, tmp_path / "out")
    assert "test: 5 mentions, 2 documents" in shown and "Left out: 1 relations; the first: " in shown
    assert "counts are in pubtator.json" in shown
    before = (tmp_path / "out" / "test.jsonl.gz").read_bytes()
    shown = run_command("convert", "auto", path, tmp_path / "out", "--keep-nil")
    assert "pubtator.json" in shown and len(pairs(tmp_path, "test")) == 6
    run_command("convert", "auto", path, tmp_path / "out")
    assert (tmp_path / "out" / "test.jsonl.gz").read_bytes() == before


ORIGINALS = {
    "mine": {"format": "pubtator", "input": "pubtator", "output": "mine"},
    "names": {"format": "medic", "input": "medic.txt", "output": "mine"},
    "other": {"format": "pubtator", "input": "nowhere", "output": "other"},
}


def test_all_corpora_that_are_there_are_converted_and_missing_ones_are_named(tmp_path, monkeypatch):
    write(tmp_path / "in", {"pubtator/test.txt": PUBTATOR, "medic.txt": "D1||toes\n"})
    Config({"originals": ORIGINALS}).to_disk(tmp_path / "originals.cfg")
    monkeypatch.setattr("training.cli.convert.ORIGINALS", tmp_path / "originals.cfg")
    (tmp_path / "in" / "nowhere").mkdir()
    shown = run_command("convert", "all", tmp_path / "in", tmp_path / "out")
    assert "mine: 5 mentions, 0 names, 2 left out; see" in shown and "names: 0 mentions, 1 names" in shown
    assert "other: not there" in shown and "2 of 3 corpora and dictionaries" in shown
    written = {path.name for path in (tmp_path / "out" / "mine").iterdir()}
    assert written == {"test.jsonl.gz", "pubtator.json", "dictionary.tsv.gz", "medic.json"}
    # Those with whole texts, as documents.
    shown = run_command("convert", "all", tmp_path / "in", tmp_path / "documents", "--documents")
    assert "mine: 6 mentions" in shown and "1 of 2 corpora" in shown and "medic" not in shown
    written = {path.name for path in (tmp_path / "documents" / "mine").iterdir()}
    assert written == {"test.spacy", "documents.json"}


@cases("convert_refusals")
def test_refusals_write_nothing(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    cut = gzip.compress(PUBTATOR.encode())[:-9]
    files = {"empty.txt": b"\n\n", "cut.txt.gz": cut, "cut.zip": b"PK\x03\x04", "cut.tar.gz": b"\x1f\x8b"}
    write(tmp_path, {**files, "in/test.txt": PUBTATOR, "names/dictionary.tsv": "D1\ttoes\n"})
    name, path, *options = arguments
    with pytest.raises((ValueError, OSError), match=f"(?s){message}"):
        run_command("convert", name, path, "out", *options)
    assert not (tmp_path / "out").exists()
