"""Acronyms are no nearest names of ordinary words."""

import numpy as np
import pytest
import spacy
from case_tables import cases
from conftest import build_terminology

from spacy_sapbert.lexicon.initialisms import find_acronyms

NAMES = {
    "K": ["NKS", "Niikawa-Kuroki syndrome", "Kabuki make-up"],
    "C": ["cold"],
    "D": ["COLD", "Chronic obstructive lung disease"],
}


@cases("acronyms")
def test_the_table_of_acronyms(name, others, expected):
    terminology = build_terminology({"C1": [*dict.fromkeys([name, *others])]})
    rows = find_acronyms(terminology, np.arange(1)).tolist()
    assert (terminology.names["name"].to_list().index(name) in rows) is expected


@pytest.fixture
def linker(static_folder):
    nlp = spacy.blank("de")
    nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(NAMES), encoder=static_folder)
    return nlp.get_pipe("sapbert_linker")


def list_names(linker, text):
    return {candidate["name"] for candidate in linker.find([text])[0]}


@pytest.mark.parametrize("text", ["Denken", "thinking", "Störungen des Denkens", "chronic disease", "colds"])
def test_ordinary_words_reach_no_acronym_but_the_other_names_of_its_concept(linker, text):
    names = list_names(linker, text)
    assert names.isdisjoint({"NKS", "COLD"})
    assert len(linker.find([text])[0]) == len(NAMES)


@pytest.mark.parametrize(
    ("text", "name"), [("NKS", "NKS"), ("NKSs", "NKS"), ("head COLD", "COLD"), ("severe nks", "NKS"), ("NKA", "NKS")]
)
def test_the_same_letters_and_other_short_forms_reach_it(linker, text, name):
    retriever = linker.retriever
    rows = np.arange(len(retriever.names))
    may_mean = retriever._may_mean([text], rows, np.zeros_like(rows))
    assert may_mean[retriever.names.to_list().index(name)]


def test_edits_find_new_acronyms_and_keep_others(linker):
    linker.add_names([("N", "GERD"), ("N", "gastroesophageal reflux disease"), ("K", "KMU syndrome")])
    linker.remove_names([("K", "KMU syndrome")])
    linker.remove_concepts(["D"])
    whole = find_acronyms(linker.terminology, np.arange(len(linker.terminology)))
    assert np.flatnonzero(linker.retriever.lexicon.is_acronym).tolist() == whole.tolist()
    assert [linker.terminology.names["name"][row] for row in whole.tolist()] == ["NKS", "GERD"]
