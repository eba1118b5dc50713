"""Phrases that the encoder for ten languages learns: the list, and whose names they become."""

import lzma
from pathlib import Path

import polars as pl
import pytest
from project_scripts import import_scripts

from spacy_sapbert import Terminology, TerminologyBuilder

with import_scripts("multilingual_encoder"):
    import phrases as project

STORED = Path(project.__file__).parents[1] / "phrases.tsv.xz"
HEADER = "\t".join(project.COLUMNS)


def write(path, *lines):
    path.write_bytes(lzma.compress("".join(f"{line}\n" for line in lines).encode()))
    return path


def list_names(terminology):
    rows = terminology.names.to_polars().filter(pl.col("source").cast(pl.String) == project.SOURCE)
    ids = terminology.concepts.to_polars("id")["id"].gather(rows["concept"])
    return set(zip(ids, rows["language"].cast(pl.String), rows["name"], strict=True))


def test_phrases_become_names_of_the_only_concept_with_their_english_name(tmp_path):
    builder = TerminologyBuilder()
    names = [("A", "Headache"), ("B", "Cold"), ("C", "Cold"), ("D", "Dyspnea")]
    for concept, name in names:
        builder.add_name(concept, name)
    builder.add_name("B", "dysphagia", language="GER")
    builder.build().to_disk(tmp_path / "split" / "terminology")
    (tmp_path / "split" / "held_out_GER.json").write_text("{}")
    lines = [
        "de\tKopfweh\tKopfschmerzen\theadache\tlay",
        "fr\tmal à la tête\tcéphalée\tHEADACHE\tlay",
        # Two concepts, none, and one with this name in another language only.
        "de\tSchnupfen\tErkältung\tcold\tlay",
        "de\tGicht\tGicht\tgout\tname",
        "de\tSchluckbeschwerden\tDysphagie\tdysphagia\tlay",
    ]
    project.main(tmp_path / "split", write(tmp_path / "phrases.xz", HEADER, *lines), tmp_path / "made")
    assert (tmp_path / "made" / "held_out_GER.json").read_text() == "{}"
    made = list_names(Terminology.from_disk(tmp_path / "made" / "terminology"))
    foreign = {("A", "GER", "Kopfweh"), ("A", "GER", "Kopfschmerzen"), ("A", "FRE", "mal à la tête")}
    assert {row for row in made if row[1] != "ENG"} == {*foreign, ("A", "FRE", "céphalée")}
    # Those of the package.
    assert ("D", "ENG", "short of breath") in made and {row[0] for row in made} == {"A", "D"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1 is ''"),
        (["de\tKopfweh\tKopfschmerzen\theadache\tlay"], "line 1"),
        ([HEADER, "xx\ta\tb\tc\td"], "line 2"),
        ([HEADER, "de\ta\tb\tc"], "line 2"),
        ([HEADER, "de\ta\t \tc\td"], "line 2"),
        ([HEADER, HEADER], "line 2"),
    ],
)
def test_other_lines_are_refused(tmp_path, lines, message):
    with pytest.raises(ValueError, match=message):
        project.read_phrases(write(tmp_path / "phrases.xz", *lines))


def test_other_files_are_refused(tmp_path):
    (tmp_path / "phrases.tsv").write_text(HEADER)
    with pytest.raises(ValueError, match="can't be read.*packed by xz"):
        project.read_phrases(tmp_path / "phrases.tsv")


def test_the_stored_phrases_are_sorted_and_there_once():
    phrases = project.read_phrases(STORED)
    assert sum(map(len, phrases.values())) == 2 * 150_907 and set(phrases) == set(project.LANGUAGES.values())
    lines = lzma.decompress(STORED.read_bytes()).decode("utf8").splitlines()[1:]
    assert lines == sorted(set(lines), key=lambda line: line.split("\t"))
    assert not any(text != " ".join(text.split()) for line in lines for text in line.split("\t"))
