"""The script `said` of the project open_terminology: which phrases are packed, and which of them are doubtful."""

import lzma

import pytest
import spacy
from conftest import build_terminology
from project_scripts import import_scripts

from spacy_sapbert.lexicon.said import Phrases

with import_scripts("open_terminology"):
    import said

ROWS = """\
chucking up	vomiting	lay
Chucking up	Vomiting	lay
emesis at night	vomiting	clin
SOB	dyspnea	clin
can't catch my breath	dyspnea	verb
Wilson	hepatolenticular degeneration	clin
HR 140	tachycardia	clin
is his heart fast?	tachycardia	verb
heart fast, pounding	tachycardia	verb
one two three four five six seven eight nine ten	tachycardia	desc
Vomiting	nausea	lay
odd thing	something unheard of	desc
"""


@pytest.fixture
def tables(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text(ROWS, encoding="utf8")
    return str(path)


@pytest.fixture
def pipelines(tmp_path):
    """Two pipelines, which know other names of the concepts."""
    names = {"1": ["Vomiting", "Emesis"], "2": ["Dyspnea"]}, {"A": ["Breathlessness", "dyspnea"], "B": ["Dizziness"]}
    for number, of_terminology in enumerate(names):
        nlp = spacy.blank("en")
        nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(of_terminology), phrases=[])
        nlp.to_disk(tmp_path / f"nlp{number}")
    return f"{tmp_path / 'nlp0'},{tmp_path / 'nlp1'}"


def test_phrases_are_packed_with_the_names_of_their_concepts(tables, pipelines, tmp_path, monkeypatch):
    output = tmp_path / "said.tsv.xz"
    said.pack(tables, pipelines, output)
    rows = [line.split("\t") for line in lzma.decompress(output.read_bytes()).decode().splitlines()]
    assert rows == [
        ["can't catch my breath", "dyspnea|Breathlessness", "v"],
        ["odd thing", "something unheard of", "d"],
        ["chucking up|emesis at night", "vomiting", "lc"],
    ]
    monkeypatch.setattr(said, "FILE", output)
    said.unpack(tmp_path / "list.tsv")
    assert (tmp_path / "list.tsv").read_text(encoding="utf8").splitlines()[:2] == [
        "phrase\tname\tkind\tlist",
        "can't catch my breath\tdyspnea\tverb\tpackage",
    ]
    assert Phrases.read([output]).names[0] == ["dyspnea", "Breathlessness"]


def test_phrases_that_are_nearer_to_another_concept_are_listed(pipelines, tmp_path):
    table = tmp_path / "rows.tsv"
    table.write_text("emesis all night\tdyspnea\tclin\nemesis all day\tvomiting\tclin\n", encoding="utf8")
    said.check(str(table), pipelines.partition(",")[0], tmp_path / "doubtful.tsv")
    assert (tmp_path / "doubtful.tsv").read_text(encoding="utf8") == "emesis all night\tdyspnea\tVomiting\n"
