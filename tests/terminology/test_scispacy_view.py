"""A terminology seen as scispaCy's knowledge base, and looked up with a default."""

import pytest

from spacy_sapbert.terminology.knowledge_base import KnowledgeBase


def test_entities_have_the_attributes_of_scispacy(terminology):
    kb = KnowledgeBase(terminology)
    entity = kb.cui_to_entity["C0027051"]
    assert entity.concept_id == "C0027051" and entity.canonical_name == "Myocardial Infarction"
    assert entity.aliases == ["myocardial infarction", "heart attack"]
    assert entity.types == ["T047"] and entity.definition is None
    assert len(kb.cui_to_entity) == len(list(kb.cui_to_entity)) == len(terminology)
    assert terminology.get("C0027051") == terminology["C0027051"] and terminology.get("C0000000", 1) == 1
    assert "C0000000" not in kb.cui_to_entity and kb.cui_to_entity.get("C0000000") is None


def test_aliases_lead_to_all_concepts_with_the_name(terminology):
    aliases = KnowledgeBase(terminology).alias_to_cuis
    assert aliases["cold"] == {"C0009443", "C0009264"} and "Cold" not in aliases
    assert set(aliases) == set(terminology.names["name"]) and len(aliases) == len(set(aliases))
    with pytest.raises(KeyError):
        aliases["no such name"]


def test_the_linker_has_the_view_and_names_its_own_settings(make_nlp):
    linker = make_nlp().get_pipe("sapbert_linker")
    assert linker.kb.cui_to_entity["C0009443"].canonical_name == "Common Cold"
    with pytest.raises(AttributeError, match="Did you mean abbreviations"):
        linker.resolve_abbreviations = True
