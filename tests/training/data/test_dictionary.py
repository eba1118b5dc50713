"""Terminologies made of the dictionaries of corpora."""

import json

import pytest
from command_line import run_command
from pair_rows import build, make_names

from spacy_sapbert.terminology import Terminology, read_table
from training.data.dictionary import make_dictionary_terminology, remove_share

DICTIONARY = "D1|77\tSore toes\nD1|77\tToe, sore\nD2\tBlue beak\nD3\tGreen beak\n77|D2\tOther\n"


def test_the_dictionary_has_one_id_for_each_concept_and_its_first_name_is_canonical(tmp_path):
    path = tmp_path / "dictionary.tsv"
    path.write_text(DICTIONARY)
    facts = {"types": ["Sign"], "codes": ["MSH:D1", "X:D3"], "parents": ["C2", "C9"], "definition": "sore"}
    described_by = build({"C1": ["toes"], "C2": ["beaks"]}, C1=facts, C2={"codes": ["MSH:D3"]})
    made = make_dictionary_terminology(path, described_by=described_by, sources=["MSH"])
    assert made.concepts["id"].to_list() == ["77", "D1", "D2", "D3"]
    concept = made.concept(made.row("D1"))
    assert (concept.canonical_name, concept.definition, concept.types) == ("Sore toes", "sore", ("Sign",))
    assert concept.parents == ("D3",) and concept.codes == ("OTHER:77",)
    # The names are those of the published table.
    published = read_table(path, header=["id", "name"], delimiter="\t")
    assert sorted(made.names["name"].to_list()) == sorted(published.names["name"].to_list())
    with pytest.raises(ValueError, match="has no name"):
        (tmp_path / "none.tsv").write_text("\n")
        make_dictionary_terminology(tmp_path / "none.tsv")


def test_a_share_of_the_concepts_is_taken_out_by_the_seed():
    whole = build(make_names(range(50), "name {}"))
    less, removed = remove_share(whole, 0.2, seed=1)
    assert len(removed) == 10 and len(less) == 40 and not any(id_ in less for id_ in removed)
    assert remove_share(whole, 0.2, seed=1)[1] == removed != remove_share(whole, 0.2, seed=2)[1]
    assert remove_share(whole, 0.0) == (whole, [])
    for share in (1.0, -0.1):
        with pytest.raises(ValueError, match="share of concepts to take out"):
            remove_share(whole, share)


def test_the_command_writes_a_terminology_without_what_it_takes_out(tmp_path):
    (tmp_path / "dictionary.tsv").write_text(DICTIONARY.replace("77|D2\tOther\n", ""))
    run_command("preprocess", tmp_path / "dictionary.tsv", tmp_path / "names", "--remove", "0.34")
    (removed,) = json.loads((tmp_path / "names" / "removed.json").read_text())["ids"]
    assert removed not in Terminology.from_disk(tmp_path / "names")
