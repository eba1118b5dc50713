"""The component: it starts as the linker, learns, and writes decisions."""

import pickle

import numpy as np
import pytest
import spacy
from reranking import add_reranker, make_examples, train

from spacy_sapbert.terminology import TerminologyBuilder

TEXT = "The cold , hypertension , insomnia and trouble sleeping after a heart attack with xyzzy and dmd"


def links(doc):
    return [(ent.text, ent.kb_id_) for ent in doc.ents]


def probabilities(doc):
    return [candidate["probability"] for ent in doc.ents for candidate in ent._.kb_candidates]


def orders(doc):
    return [[candidate["id"] for candidate in ent._.kb_candidates] for ent in doc.ents]


def test_before_training_the_order_is_the_linkers(make_nlp):
    nlp = make_nlp()
    alone = nlp(TEXT)
    # Without the document that has a mention of no concept.
    add_reranker(nlp, [eg for eg in make_examples(nlp) if "xyzzy" not in eg.text], priors=False)
    reranked = nlp(TEXT)
    assert links(reranked) == links(alone) and len(alone.ents) == 7
    assert orders(reranked) == orders(alone)
    for ent in reranked.ents:
        found = [candidate["probability"] for candidate in ent._.kb_candidates]
        assert found == sorted(found, reverse=True) and ent._.kb_probability == found[0]
        assert sum(found) <= 1 + 1e-6 and all(isinstance(probability, float) for probability in found)


def test_it_learns_what_the_linker_gets_wrong(make_nlp):
    nlp = make_nlp()
    assert nlp("the cold").ents[0].kb_id_ == "C0009264"
    add_reranker(nlp, make_examples(nlp), set_nil=True)
    first = train(nlp, make_examples(nlp), steps=1)["sapbert_reranker"]
    last = train(nlp, make_examples(nlp), steps=60)["sapbert_reranker"]
    assert last < first / 2
    doc = nlp("a cold , insomnia and xyzzy")
    assert links(doc) == [("cold", "C0009443"), ("insomnia", "C0917801"), ("xyzzy", "NIL")]
    assert all(ent._.kb_probability > 0.5 for ent in doc.ents)
    # The linker's own candidates are still there.
    assert nlp.get_pipe("sapbert_linker").get_candidates(doc.ents[0])[0]["id"] == "C0009264"
    scores = nlp.evaluate(make_examples(nlp))
    assert scores["nel_micro_f"] == 1.0 and scores["nel_acc_at_1"] == 1.0


def test_saved_pipelines_decide_the_same(make_nlp, tmp_path):
    nlp = make_nlp()
    add_reranker(nlp, make_examples(nlp))
    train(nlp, make_examples(nlp), steps=20)
    expected = nlp(TEXT)
    nlp.to_disk(tmp_path / "pipeline")
    twin = make_nlp()
    add_reranker(twin).from_bytes(nlp.get_pipe("sapbert_reranker").to_bytes())
    sourced = make_nlp()
    sourced.add_pipe("sapbert_reranker", source=nlp)
    for other in (spacy.load(tmp_path / "pipeline"), twin, sourced, pickle.loads(pickle.dumps(nlp))):
        doc = other(TEXT)
        assert links(doc) == links(expected) and orders(doc) == orders(expected)
        # Vectors depend on their batch by rounding.
        assert np.allclose(probabilities(doc), probabilities(expected), atol=1e-4)


def test_a_disabled_linker_proposes_too(make_nlp):
    nlp = make_nlp()
    reranker = add_reranker(nlp, make_examples(nlp))
    doc = nlp.make_doc("a cold")
    assert reranker(doc) is doc
    expected = links(nlp("a cold"))
    with nlp.select_pipes(disable=["sapbert_linker"]):
        assert links(nlp("a cold")) == expected


@pytest.mark.filterwarnings("ignore:.*trained with another terminology")
def test_a_reranker_from_another_pipeline_decides_on_what_the_linker_beside_it_proposes(make_nlp):
    first, second = make_nlp(), make_nlp()
    add_reranker(first, make_examples(first))
    builder = TerminologyBuilder()
    builder.add_name("C9", "zebra")
    linker = second.get_pipe("sapbert_linker")
    linker.add_names(builder.build())
    second.get_pipe("entity_ruler").add_patterns([{"label": "DISORDER", "pattern": "zebra"}])
    second.add_pipe("sapbert_reranker", source=first)
    (ent,) = second("A zebra").ents
    assert "C9" in [candidate["id"] for candidate in ent._.kb_candidates]
    (ent,) = first("A cold").ents
    assert "C9" not in [candidate["id"] for candidate in ent._.kb_candidates]
