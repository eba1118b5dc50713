"""Which concepts will be confused: each name is left out and looked up among the others."""

import pytest
import spacy
from command_line import run_command
from pair_rows import build

from spacy_sapbert.lexicon.bridge import make_keys
from training.evaluation.expected import COLUMNS, expect, list_branches

CONCEPTS = {
    "R": ("Disease", "Illness"),
    "H": ("Fast heart rate", "Tachycardia", "Rapid heart rate"),
    "L": ("Slow heart rate", "Bradycardia"),
    "C": ("Breast cancer", "Breast carcinoma", "Cancer of the breast", "BC"),
    "N": ("Breast nodule",),
    "B": ("Basal carcinoma", "BC"),
}
PARENTS = {"H": ["S"], "L": ["S"], "C": ["T"], "B": ["T"], "N": ["T"], "S": ["R"], "T": ["R"]}


@pytest.fixture(scope="module")
def nlp():
    names = {**CONCEPTS, "S": ["Heart rhythm"], "T": ["Lump"]}
    terminology = build(names, **{id_: {"parents": parents} for id_, parents in PARENTS.items()})
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
    return nlp


def test_each_name_is_looked_up_among_the_others(nlp):
    linker = nlp.get_pipe("sapbert_linker")
    found = dict(zip(linker.terminology.concepts["id"], expect(linker), strict=True))
    # A loop over all pairs of names.
    names, concept = linker.terminology.names["name"].to_list(), linker.terminology.name_concept
    distinct = sorted({*names}, key=names.index)
    owners = {name: {int(of) for text, of in zip(names, concept, strict=True) if text == name} for name in distinct}
    words = {name: key for name, key in zip(distinct, make_keys(distinct).tolist(), strict=True)}
    vectors = linker.encoder.encode(distinct)
    scores = vectors @ vectors.T
    nearest = {}
    for name, row in zip(distinct, scores, strict=True):
        others = [(score, other) for score, other in zip(row, distinct, strict=True) if words[other] != words[name]]
        nearest[name] = owners[max(others)[1]]
    for row, id_ in enumerate(linker.terminology.concepts["id"]):
        own = [name for name in distinct if row in owners[name]]
        assert found[id_].n_names == len(own)
        assert found[id_].n_right == sum(row in nearest[name] for name in own)
        assert found[id_].n_left_out == (len(own) if len({words[name] for name in own}) > 1 else 0)
        assert sum(found[id_].taken_for.values()) == len(own) - found[id_].n_right
    assert found["C"].n_homonyms == found["B"].n_homonyms == 1 and found["N"].share is None
    assert found["L"].n_opposites + found["H"].n_opposites >= 1


def test_branches_are_below_what_has_most_concepts(nlp):
    linker = nlp.get_pipe("sapbert_linker")
    ids = linker.terminology.concepts["id"].to_list()
    branches = {ids[top]: {ids[row] for row in rows} for top, rows in list_branches(linker).items()}
    assert branches == {"S": {"S", "H", "L"}, "T": {"T", "C", "B", "N"}}


def test_one_command_writes_a_table_and_a_report(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    shown = run_command("expect", tmp_path / "pipeline", tmp_path / "out")
    lines = (tmp_path / "out" / "concepts.tsv").read_text().splitlines()
    assert lines[0].split("\t") == [*COLUMNS] and len(lines) == 9
    report = (tmp_path / "out" / "report.md").read_text()
    assert "| Lump | 4 | 2 |" in report and "## Homonyms" in report and "## Near opposites" in report
    assert "per cent of the names" in shown
