"""The candidates of two linkers, spans of a group, filters, codes, and explanations."""

from reranking import add_reranker, make_examples, train
from spacy.tokens import Span


def add_static(nlp, static_folder, **settings):
    linker = nlp.add_pipe(
        "sapbert_linker",
        name="static",
        after="sapbert_linker",
        config={"attribute": "static_candidates", "set_kb_id": False, **settings},
    )
    linker.initialize(terminology=nlp.get_pipe("sapbert_linker").terminology, encoder=str(static_folder))
    return linker


def ids(candidates):
    return [candidate["id"] for candidate in candidates]


def test_candidates_of_two_linkers_are_joined(make_nlp, static_folder):
    nlp = make_nlp(k=2)
    add_static(nlp, static_folder, k=2)
    add_reranker(nlp, make_examples(nlp), linkers=["sapbert_linker", "static"], n_candidates=2, priors=False, k=9)
    joined = False
    for text in ("xyzzy", "dmd", "insomnia", "hypertension", "cold"):
        (ent,) = nlp(text).ents
        first, second = (nlp.get_pipe(name).get_candidates(ent) for name in ("sapbert_linker", "static"))
        found = ent._.kb_candidates
        assert sorted(ids(found)) == sorted({*ids(first), *ids(second)})
        # The order starts as the first linker's.
        assert ids(found)[: len(first)] == ids(first)
        joined |= len(found) > len(first)
        assert ids(ent._.static_candidates) == ids(second)
    assert joined
    train(nlp, make_examples(nlp), steps=60)
    assert nlp("a cold").ents[0].kb_id_ == "C0009443"


def test_linkers_of_different_terminologies_are_refused(make_nlp, static_folder):
    import pytest

    nlp = make_nlp()
    add_static(nlp, static_folder).remove_concepts(["C0013264"])
    with pytest.raises(ValueError, match=r"E451.*different terminologies"):
        add_reranker(nlp, make_examples(nlp), linkers=["sapbert_linker", "static"])


def test_spans_of_the_linkers_group_are_decided_too(make_nlp):
    nlp = make_nlp(spans_key="sc")
    add_reranker(nlp, make_examples(nlp))
    train(nlp, make_examples(nlp), steps=40)
    doc = nlp.make_doc("a cold and insomnia")
    doc.spans["sc"] = [Span(doc, 1, 2, label="OTHER"), Span(doc, 3, 4, label="OTHER")]
    doc = nlp(doc)
    assert [span.kb_id_ for span in doc.spans["sc"]] == ["C0009443", "C0917801"]
    assert all(span._.kb_probability > 0.5 for span in doc.spans["sc"])


def test_filters_and_codes_of_the_linker_hold(make_nlp):
    nlp = make_nlp(types=["T047"], output_source="MSH")
    texts = [("a cold", {"cold": "D003139"}), ("heart attack", {"heart attack": "D009203"})]
    add_reranker(nlp, make_examples(nlp, texts))
    doc = nlp("a cold , insomnia")
    assert doc.ents[0].kb_id_ == "D003139"
    assert {type_ for ent in doc.ents for candidate in ent._.kb_candidates for type_ in candidate["types"]} == {"T047"}


def test_concepts_of_similar_annotated_mentions_become_candidates_unless_a_filter_forbids(make_nlp):
    texts = [("the xyzzy", {"xyzzy": "C0013264"}), ("some xyzzy", {"xyzzy": "C0013264"})]
    for settings, found in ({"types": ["T047"]}, True), ({"types": ["T184"]}, False):
        nlp = make_nlp(**settings)
        add_reranker(nlp, make_examples(nlp, texts), n_candidates=1)
        assert ("C0013264" in ids(nlp("a xyzzy").ents[0]._.kb_candidates)) is found


def test_explanations_are_given_only_if_asked_for(make_nlp):
    nlp = make_nlp()
    reranker = add_reranker(nlp, make_examples(nlp))
    train(nlp, make_examples(nlp), steps=40)
    assert "reason" not in nlp("a cold").ents[0]._.kb_candidates[0]
    reranker.explain = True
    candidates = nlp("a cold").ents[0]._.kb_candidates
    assert all(candidate["definition"] == "" and isinstance(candidate["reason"], str) for candidate in candidates)
    assert "annotated" in candidates[0]["reason"] and len(candidates[0]["reason"].split("; ")) <= 3
    assert reranker.find(["cold"], nlp=nlp)[0][0]["reason"] == candidates[0]["reason"]
