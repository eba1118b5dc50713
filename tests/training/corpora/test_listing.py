"""The list of corpora: which files, folds and names it finds, and the tasks that they make."""

import gzip
import json
from dataclasses import replace

import pytest
from thinc.api import Config

from spacy_sapbert.terminology import TerminologyBuilder
from training.cli.convert import ORIGINALS
from training.corpora.listing import Corpus, read_corpora, read_task

CONFIG = ORIGINALS.with_name("corpora.cfg")


@pytest.fixture
def corpus(tmp_path):
    """Write a corpus of two folds, one of them compressed."""
    (tmp_path / "0.jsonl").write_text(
        '{"mention": "heart", "ids": ["C1"]}\n\n{"mention": "Cold", "ids": ["C9", "C3"]}\n'
    )
    with gzip.open(tmp_path / "1.jsonl.gz", "wt") as file:
        file.write('{"mention": "liver", "ids": ["C8"]}\r\n')
    table = "C1|OMIM1\theart\topen\nC3\tcold\topen\nC3\tcold\topen\nC4\tfever\tdev\nC5\tpain\topen\nC5\tache\topen\n"
    (tmp_path / "names.tsv").write_text(table)
    return Corpus([tmp_path / "0.jsonl", tmp_path / "1.jsonl.gz"], tmp_path / "names.tsv", [])


def test_a_corpus_is_read_with_its_counts(corpus):
    task = read_task(corpus)
    assert task.queries == ["heart", "Cold", "liver"] and task.gold == [["C1"], ["C9", "C3"], ["C8"]]
    assert task.folds == [0, 0, 1]
    assert list(zip(task.ids, task.names, strict=True)) == [
        ("C1|OMIM1", "heart"),
        ("C3", "cold"),
        ("C4", "fever"),
        ("C5", "pain"),
        ("C5", "ache"),
    ]
    assert task.report == {"mentions": 3, "unanswerable": 1, "names": 5, "names_of_dictionary": 5, "left_out": 0}
    only = read_task(Corpus(corpus.mentions, corpus.dictionary, ["open"]))
    assert "fever" not in only.names and len(only.names) == 4


@pytest.mark.parametrize(
    "name, line", [("0.jsonl", '{"mention": null, "ids": ["C1"]}'), ("0.jsonl", "[1]"), ("names.tsv", "C1\t ")]
)
def test_malformed_lines_are_refused(name, line, corpus):
    path = corpus.dictionary.parent / name
    path.write_text(path.read_text().split("\n")[0] + "\n" + line + "\n")
    with pytest.raises(ValueError, match="line 2"):
        read_task(corpus)


def test_corpora_to_choose_settings_on_are_not_those_to_report_on():
    for name, section in Config().from_disk(CONFIG.with_name("corpora_dev.cfg"))["corpora"].items():
        assert section["mentions"] != Config().from_disk(CONFIG)["corpora"][name]["mentions"]


def test_names_of_a_terminology_can_be_the_dictionary(corpus, tmp_path):
    builder = TerminologyBuilder()
    for concept, name, source in [("C0000001", "heart", "MSH"), ("CL1", "liver", "MSH"), ("C0000003", "cold", "HPO")]:
        builder.add_name(concept, name, source=source, language="ENG")
    builder.build().to_disk(tmp_path / "terminology")
    whole = replace(corpus, dictionary=tmp_path / "terminology")
    assert sorted(read_task(whole).names) == ["cold", "heart", "liver"]
    assert read_task(replace(whole, sources=["MSH"])).names == ["heart", "liver"]
    assert read_task(replace(whole, sources=["MSH"], ids=r"C\d{7}")).names == ["heart"]
    for refused, message in (({"languages": ["GER"]}, "sources all"), ({"sources": ["ICD"]}, "sources ICD")):
        with pytest.raises(ValueError, match=f"no names of the {message}"):
            read_task(replace(whole, **refused))


def test_sources_in_place_of_those_that_are_listed(corpus, tmp_path):
    builder = TerminologyBuilder()
    for concept, name, source in [("C1", "heart", "MSH"), ("C2", "liver", "HPO"), ("C3", "cold", "MONDO")]:
        builder.add_name(concept, name, source=source, language="ENG")
    builder.build().to_disk(tmp_path / "terminology")
    config = """[corpora]

[corpora.a]
mentions = "0.jsonl"
dictionary = "terminology"
sources = ["MSH"]
published = "strict"

[corpora.b]
mentions = "0.jsonl"
dictionary = "names.tsv"
"""
    (tmp_path / "corpora.cfg").write_text(config)

    def read(*sources):
        return read_corpora(tmp_path / "corpora.cfg", tmp_path, terminology=tmp_path / "terminology", sources=sources)[
            0
        ]

    assert read_task(read()["a"]).names == ["heart"] and read()["a"].has_published_names
    chosen = read("HPO", "MONDO")
    assert sorted(read_task(chosen["a"]).names) == ["cold", "liver"]
    # The published figures search other names.
    assert not chosen["a"].has_published_names and read_task(chosen["a"]).level == read_task(read()["a"]).level
    assert chosen["a"].names_from == "the names of HPO, MONDO in the terminology"
    assert sorted(read_task(read("all")["a"]).names) == ["cold", "heart", "liver"]
    assert chosen["b"] == read()["b"]


@pytest.mark.parametrize(
    "line, reason",
    [
        ('spelling = "ncbi_disease"', "spelling"),
        ('protocols = ["strictest"]', "strictest"),
        ('colour = "red"', "colour"),
        ('protocols = ["refined"]', "give `seen`"),
        ('seen = ["0.jsonl"]', "several folds: 0.jsonl"),
        ("folds = [0, 1]", "numbers of folds, and {fold}"),
        ('seen_by_fold = ["0.jsonl"]', "numbers of folds, and {fold}"),
    ],
)
def test_malformed_sections_are_refused(line, reason, corpus, tmp_path):
    (tmp_path / "corpora.cfg").write_text(
        f'[corpora]\n\n[corpora.a]\nmentions = "*.jsonl*"\ndictionary = "names.tsv"\n{line}\n'
    )
    with pytest.raises(ValueError, match=rf"(?s)section \[corpora\.a\].*{reason}"):
        read_corpora(tmp_path / "corpora.cfg", tmp_path)


@pytest.mark.parametrize("protocol", ["strict", "published"])
def test_half_of_the_training_parts_is_none(protocol, corpus, tmp_path):
    (tmp_path / "train.jsonl").write_text('{"mention": "heart", "ids": ["C1"]}\n')
    config = f"""[corpora]

[corpora.a]
mentions = "0.jsonl"
seen = ["train.jsonl*", ["dev.jsonl*", "dev2.jsonl*"]]
dictionary = "names.tsv"
protocols = ["{protocol}"]
"""
    (tmp_path / "corpora.cfg").write_text(config)
    found, missing = read_corpora(tmp_path / "corpora.cfg", tmp_path)
    if protocol == "strict":
        assert found["a"].seen == []
    else:
        assert missing["a"][1] == "no dev.jsonl* or dev2.jsonl*"
    (tmp_path / "dev2.jsonl").write_text('{"mention": "cold", "ids": ["C3"]}\n')
    assert len(read_corpora(tmp_path / "corpora.cfg", tmp_path)[0]["a"].seen) == 2


def test_stray_files_are_no_folds(corpus, tmp_path):
    section = '[corpora]\n\n[corpora.a]\nmentions = "?.jsonl*"\ndictionary = "names.tsv"\n'
    (tmp_path / "corpora.cfg").write_text(section)
    (tmp_path / "0.jsonl.bak").write_text("")
    found, _ = read_corpora(tmp_path / "corpora.cfg", tmp_path)
    assert [path.name for path in found["a"].mentions] == ["0.jsonl", "1.jsonl.gz"]
    (tmp_path / "2.jsonl").write_text("\n")
    with pytest.raises(ValueError, match=r"2\.jsonl has no mentions"):
        read_task(read_corpora(tmp_path / "corpora.cfg", tmp_path)[0]["a"])
    (tmp_path / "1.jsonl").write_text("")
    with pytest.raises(ValueError, match="(?s)twice: .*1.jsonl, 1.jsonl.gz"):
        read_corpora(tmp_path / "corpora.cfg", tmp_path)


def test_missing_corpora_are_named(tmp_path):
    (tmp_path / "psytar").mkdir()
    for fold in range(1, 6):
        with gzip.open(tmp_path / "psytar" / f"fold{fold}.test.jsonl.gz", "wt") as file:
            file.write(json.dumps({"mention": "flat", "ids": ["1"]}) + "\n")
    with gzip.open(tmp_path / "psytar" / "dictionary.tsv.gz", "wt") as file:
        file.write("1\tFlat affect\n")
    found, missing = read_corpora(CONFIG, tmp_path)
    assert list(found) == ["psytar"] and len(found["psytar"].mentions) == 5
    assert missing["askapatient"][1] == "no askapatient/fold{fold}.test.jsonl*, no askapatient/dictionary.tsv.gz"
    assert missing["medmentions"][1].endswith("dictionary_3col.tsv.gz or medmentions/dictionary.tsv.gz")
    assert (
        missing["ncbi_disease"][1].endswith("no ncbi_disease/dev.jsonl*") and "no terminology" in missing["xlbel_de"][1]
    )
    assert "zenodo" in missing["askapatient"][0].obtain
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        read_corpora(tmp_path / "no.cfg", tmp_path)
