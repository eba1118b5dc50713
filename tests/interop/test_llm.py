"""Candidates for the entity linker of spacy-llm, with a made-up model that takes the first one."""

import re
from typing import Iterable  # noqa: UP035, spacy-llm compares with this one

import pytest
import spacy
from spacy_llm.registry import registry
from spacy_llm.tasks.entity_linker.ty import CandidateSelector as Protocol

from spacy_sapbert.interop.llm import NO_DESCRIPTION, make_candidate_selector


@pytest.fixture
def pipeline_path(make_nlp, tmp_path):
    make_nlp().to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


def test_candidates_are_described_for_a_prompt(pipeline_path):
    selector = make_candidate_selector(str(pipeline_path), top_n=2)
    assert isinstance(selector, Protocol)
    doc = spacy.blank("en")("heart attack or !")
    found, none = selector([doc[0:2], doc[3:4]])
    assert found[0].id == "C0027051" and len(found) >= 2
    assert found[0].description == (
        "Myocardial Infarction (also: myocardial infarction; heart attack). Disease or Syndrome"
    )
    assert [entity.id for entity in none] == ["NIL"]
    assert selector.get_entity_description("unknown") == NO_DESCRIPTION


@registry.llm_models("spacy-sapbert.test.FirstCandidate")
def make_model():
    """A model that answers each prompt with its first candidate."""

    def answer(prompts: Iterable[Iterable[str]]) -> Iterable[Iterable[str]]:
        for batch in prompts:
            yield [f"*mention* ::: <{re.search('(C[0-9]{7})', prompt)[1]}>" for prompt in batch]

    return answer


def test_spacy_llm_links_with_it(pipeline_path):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    nlp.add_pipe(
        "llm",
        config={
            "task": {"@llm_tasks": "spacy.EntityLinker.v1"},
            "model": {"@llm_models": "spacy-sapbert.test.FirstCandidate"},
        },
    )
    selector = {"@llm_misc": "spacy-sapbert.CandidateSelector.v1", "path": str(pipeline_path)}
    nlp.config["initialize"]["components"]["llm"] = {"candidate_selector": selector}
    nlp.initialize()
    # `initialize` empties the ruler.
    ruler.add_patterns([{"label": "DISORDER", "pattern": "heart attack"}])
    doc = nlp("He had a heart attack.")
    assert [ent.kb_id_ for ent in doc.ents] == ["C0027051"]
