"""Semantic types by identifier and by name."""

import pytest

from spacy_sapbert.semantic_types import IDS, NAMES, find_types, name_type


def test_there_are_as_many_types_as_the_semantic_network_has():
    assert len(NAMES) == len(IDS) == 127
    assert name_type("T047") == "Disease or Syndrome" and name_type("phenotype") == "phenotype"


def test_types_are_found_in_the_form_that_the_terminology_has():
    assert find_types(["Disease or Syndrome", "T184"], {"T047", "T184"}) == {"T047", "T184"}
    assert find_types(["T047", "other"], {"Disease or Syndrome"}) == {"Disease or Syndrome", "other"}
    # A terminology may use such a name in its own sense.
    assert find_types(["Food"], {"Food", "T168"}) == {"Food"}


def test_filters_take_names_of_types(make_nlp):
    linker = make_nlp().get_pipe("sapbert_linker")
    by_name = linker.find(["cold"], types=["Disease or Syndrome"])
    assert by_name == linker.find(["cold"], types=["T047"]) and by_name[0]
    with pytest.raises(ValueError, match="The filter.*'Plant'"):
        linker.find(["cold"], types=["Plant"])
    labelled = make_nlp(label_types={"DISORDER": ["Sign or Symptom"]})
    assert [ent.kb_id_ for ent in labelled("insomnia").ents] == ["C0917801"]
