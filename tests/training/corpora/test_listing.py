"""The list of corpora: which files, folds and names it finds, and the tasks that they make."""

import gzip
from dataclasses import replace

import pytest
from pair_rows import build
from thinc.api import Config

from training.cli.convert import ORIGINALS
from training.corpora.listing import Corpus, read_corpora, read_task

CONFIG = ORIGINALS.with_name("corpora.cfg")
TABLE = "C1|OMIM1\theart\topen\nC3\tcold\topen\nC3\tcold\topen\nC4\tfever\tdev\nC5\tpain\topen\nC5\tache\topen\n"


@pytest.fixture
def folder(tmp_path):
    """Write a corpus of two folds, one of them compressed."""
    lines = '{"mention": "heart", "ids": ["C1"]}\n\n{"mention": "Cold", "ids": ["C9", "C3"]}\n'
    (tmp_path / "0.jsonl").write_text(lines)
    (tmp_path / "1.jsonl.gz").write_bytes(gzip.compress(b'{"mention": "liver", "ids": ["C8"]}\r\n'))
    (tmp_path / "names.tsv").write_text(TABLE)
    return tmp_path


def read(folder, section, **given):
    """Read a list of one corpus: the corpus, if it is there, and what is missing otherwise."""
    text = f'[corpora]\n\n[corpora.a]\ndictionary = "names.tsv"\n{section}\n'
    (folder / "corpora.cfg").write_text(text)
    found, missing = read_corpora(folder / "corpora.cfg", folder, **given)
    return found.get("a"), missing["a"][1] if missing else ""


def test_a_corpus_is_read_with_its_counts(folder):
    corpus = Corpus([folder / "0.jsonl", folder / "1.jsonl.gz"], folder / "names.tsv")
    task = read_task(corpus)
    assert task.queries == ["heart", "Cold", "liver"] and task.gold == [["C1"], ["C9", "C3"], ["C8"]]
    assert task.folds == [0, 0, 1]
    rows = [("C1|OMIM1", "heart"), ("C3", "cold"), ("C4", "fever"), ("C5", "pain"), ("C5", "ache")]
    assert list(zip(task.ids, task.names, strict=True)) == rows
    assert task.report == {"mentions": 3, "unanswerable": 1, "names": 5, "names_of_dictionary": 5, "left_out": 0}
    assert read_task(replace(corpus, sources=["open"])).names == ["heart", "cold", "pain", "ache"]


def test_corpora_to_choose_settings_on_are_not_those_to_report_on():
    for name, section in Config().from_disk(CONFIG.with_name("corpora_dev.cfg"))["corpora"].items():
        assert section["mentions"] != Config().from_disk(CONFIG)["corpora"][name]["mentions"]


def test_names_of_a_terminology_can_be_the_dictionary(folder):
    names = {"C0000001": {"MSH": ["heart"]}, "CL1": {"MSH": ["liver"]}, "C0000003": {"HPO": ["cold"]}}
    build(names).to_disk(folder / "terminology")
    listed = 'mentions = "0.jsonl"\nsources = ["MSH"]\npublished = "strict"'

    def choose(*sources):
        given = {"terminology": folder / "terminology", "sources": sources}
        text = f'[corpora]\n\n[corpora.a]\ndictionary = "terminology"\n{listed}\n'
        text += '\n[corpora.b]\ndictionary = "names.tsv"\nmentions = "0.jsonl"\n'
        (folder / "corpora.cfg").write_text(text)
        return read_corpora(folder / "corpora.cfg", folder, **given)[0]

    corpus = choose()["a"]
    assert read_task(corpus).names == ["heart", "liver"] and corpus.has_published_names
    assert read_task(replace(corpus, ids=r"C\d{7}")).names == ["heart"]
    for refused, message in (({"languages": ["GER"]}, "sources MSH"), ({"sources": ["ICD"]}, "sources ICD")):
        with pytest.raises(ValueError, match=f"no names of the {message}"):
            read_task(replace(corpus, **refused))
    # Other sources in place of those that are listed. The published figures search other names.
    chosen = choose("HPO", "MONDO")
    assert read_task(chosen["a"]).names == ["cold"] and not chosen["a"].has_published_names
    assert chosen["a"].names_from == "the names of HPO, MONDO in the terminology"
    assert read_task(chosen["a"]).level == read_task(corpus).level and chosen["b"] == choose()["b"]
    assert sorted(read_task(choose("all")["a"]).names) == ["cold", "heart", "liver"]


@pytest.mark.parametrize(
    "line, reason",
    [
        ('spelling = "ncbi_disease"', "spelling"),
        ('level = "rows"', "level"),
        ('documents = "("', "documents"),
        ('protocols = ["strictest"]', "strictest"),
        ('colour = "red"', "colour"),
        ('protocols = ["refined"]', "give `seen`"),
        ('seen = ["0.jsonl"]', "several folds: 0.jsonl"),
        ("folds = [0, 1]", "numbers of folds, and {fold}"),
        ('seen_by_fold = ["0.jsonl"]', "numbers of folds, and {fold}"),
    ],
)
def test_malformed_sections_are_refused(line, reason, folder):
    with pytest.raises(ValueError, match=rf"(?s)section \[corpora\.a\].*{reason}"):
        read(folder, f'mentions = "*.jsonl*"\n{line}')


def test_half_of_the_training_parts_is_none(folder):
    (folder / "train.jsonl").write_text('{"mention": "heart", "ids": ["C1"]}\n')
    section = 'mentions = "0.jsonl"\nseen = ["train.jsonl*", ["dev.jsonl*", "dev2.jsonl*"]]\nprotocols = ["%s"]'
    assert read(folder, section % "strict")[0].seen == []
    assert read(folder, section % "published") == (None, "no dev.jsonl* or dev2.jsonl*")
    (folder / "dev2.jsonl").write_text('{"mention": "cold", "ids": ["C3"]}\n')
    assert len(read(folder, section % "published")[0].seen) == 2


def test_stray_files_are_no_folds(folder):
    section = 'mentions = "?.jsonl*"'
    (folder / "0.jsonl.bak").write_text("")
    assert [path.name for path in read(folder, section)[0].mentions] == ["0.jsonl", "1.jsonl.gz"]
    (folder / "2.jsonl").write_text("\n")
    with pytest.raises(ValueError, match=r"2\.jsonl has no mentions"):
        read_task(read(folder, section)[0])
    (folder / "1.jsonl").write_text("")
    with pytest.raises(ValueError, match="(?s)twice: .*1.jsonl, 1.jsonl.gz"):
        read(folder, section)


def test_missing_corpora_are_named(tmp_path):
    (tmp_path / "psytar").mkdir()
    for fold in range(1, 6):
        (tmp_path / "psytar" / f"fold{fold}.test.jsonl").write_text('{"mention": "flat", "ids": ["1"]}\n')
    (tmp_path / "psytar" / "dictionary.tsv.gz").write_bytes(gzip.compress(b"1\tFlat affect\n"))
    found, missing = read_corpora(CONFIG, tmp_path)
    assert list(found) == ["psytar"] and len(found["psytar"].mentions) == 5
    lacking = {name: reason for name, (_, reason) in missing.items()}
    assert lacking["askapatient"] == "no askapatient/fold{fold}.test.jsonl*, no askapatient/dictionary.tsv.gz"
    assert lacking["medmentions"].endswith("dictionary_3col.tsv.gz or medmentions/dictionary.tsv.gz")
    assert lacking["ncbi_disease"].endswith("no ncbi_disease/dev.jsonl*") and "no terminology" in lacking["xlbel_de"]
    assert "zenodo" in missing["askapatient"][0].obtain
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        read_corpora(tmp_path / "no.cfg", tmp_path)
