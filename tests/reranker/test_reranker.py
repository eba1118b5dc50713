"""The component: it starts as the linker, learns, decides, and writes decisions, probabilities and NIL."""

import pickle

import numpy as np
import pytest
import spacy
from conftest import DEFINITIONS
from reranking import add_reranker, make_examples, train
from spacy.tokens import Doc, Span

from spacy_sapbert.retrieval.retriever import Retriever

TEXT = "The cold , hypertension , insomnia and trouble sleeping after a heart attack with xyzzy and dmd"
# What the first of them learns serves all tests.
LEARNED = []


@pytest.fixture
def trained(make_nlp):
    nlp = make_nlp()
    if LEARNED:
        add_reranker(nlp).from_bytes(LEARNED[0])
        return nlp
    reranker = add_reranker(nlp, make_examples(nlp))
    train(nlp, make_examples(nlp), steps=40)
    LEARNED.append(reranker.to_bytes())
    return nlp


def get_reranker(nlp):
    return nlp.get_pipe("sapbert_reranker")


def links(doc):
    return [(ent.text, ent.kb_id_) for ent in doc.ents]


def probabilities(doc):
    return [candidate["probability"] for ent in doc.ents for candidate in ent._.kb_candidates]


def orders(doc):
    return [[candidate["id"] for candidate in ent._.kb_candidates] for ent in doc.ents]


def test_a_network_starts_with_the_order_that_is_decided_without_it(make_nlp):
    nlp = make_nlp()
    reranker = add_reranker(nlp, priors=False)
    alone = nlp(TEXT)
    # Without the document that has a mention of no concept.
    examples = [eg for eg in make_examples(nlp) if "xyzzy" not in eg.text]
    reranker.initialize(lambda: examples, nlp=nlp)
    reranked = nlp(TEXT)
    assert orders(reranked) == orders(alone) and len(alone.ents) == 7 and reranker.is_trained
    for ent in reranked.ents:
        first, *_ = candidates = ent._.kb_candidates
        found = [candidate["probability"] for candidate in candidates]
        assert found == sorted(found, reverse=True)
        assert sum(found) <= 1 + 1e-6 and all(isinstance(probability, float) for probability in found)
        # Equal names count as one.
        alike = [one["probability"] for one in candidates if one["score"] == first["score"]]
        assert len(alike) == (2 if ent.text == "cold" else 1) and ent._.kb_probability == pytest.approx(sum(alike))


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
    assert scores["nel_nil_f"] == scores["nel_auroc"] == 1.0 and scores["nel_coverage_at_95"] > 0.5


def test_copies_decide_the_same_and_a_disabled_linker_proposes_too(trained, make_nlp, tmp_path):
    expected = trained(TEXT)
    trained.to_disk(tmp_path / "pipeline")
    twin, sourced = make_nlp(), make_nlp()
    add_reranker(twin).from_bytes(get_reranker(trained).to_bytes())
    sourced.add_pipe("sapbert_reranker", source=trained)
    for other in (spacy.load(tmp_path / "pipeline"), twin, sourced, pickle.loads(pickle.dumps(trained))):
        doc = other(TEXT)
        assert links(doc) == links(expected) and orders(doc) == orders(expected)
        # Vectors depend on their batch by rounding.
        assert np.allclose(probabilities(doc), probabilities(expected), atol=1e-4)
    doc = trained.make_doc("a cold")
    assert get_reranker(trained)(doc) is doc
    with trained.select_pipes(disable=["sapbert_linker"]):
        assert links(trained(TEXT)) == links(expected)


def test_nil_is_decided_by_the_threshold(trained):
    reranker = get_reranker(trained)
    ent = trained("insomnia").ents[0]
    best = ent._.kb_candidates[0]["probability"]
    assert ent.kb_id_ == "C0917801" and ent._.kb_probability == best
    reranker.min_probability = min(best * 1.001, 1.0)
    ent = trained("insomnia").ents[0]
    # The candidates stay, and NIL has the probability.
    assert ent.kb_id_ == "" and ent._.kb_probability < 0.5 and ent._.kb_candidates[0]["probability"] == best
    reranker.set_nil = True
    assert trained("insomnia").ents[0].kb_id_ == "NIL"
    reranker.min_probability = 0.0
    assert trained("xyzzy").ents[0].kb_id_.startswith("C")


@pytest.mark.filterwarnings("ignore:The reranker .* was calibrated on only")
def test_calibrating_keeps_links_and_changes_probabilities(trained):
    reranker = get_reranker(trained)
    text = "a cold , insomnia , heart attack"
    before = [(ent.kb_id_, ent._.kb_probability) for ent in trained(text).ents]
    old = reranker.learned.concept
    # Decisions that are all right teach nothing.
    with pytest.warns(UserWarning, match=r"All 1 decisions.*'sapbert_reranker'.*are right"):
        reranker.calibrate(make_examples(trained, [("He had insomnia", {"insomnia": "C0917801"})]), nlp=trained)
    assert all((one == other).all() for one, other in zip(old, reranker.learned.concept, strict=True))
    found = reranker.calibrate(make_examples(trained), nlp=trained)
    after = [(ent.kb_id_, ent._.kb_probability) for ent in trained(text).ents]
    assert found.n_mentions == 10 and 0 <= found.error_after < 0.3
    assert [id_ for id_, _ in before] == [id_ for id_, _ in after] and before != after


def test_a_chosen_threshold_is_saved_with_the_pipeline(trained, make_nlp):
    reranker = get_reranker(trained)
    chosen = reranker.choose_threshold(make_examples(trained), precision=1.0, nlp=trained)
    assert chosen.precision == 1.0 and 0.8 < chosen.coverage < 1
    assert trained("xyzzy").ents[0].kb_id_ == ""
    twin = make_nlp()
    assert add_reranker(twin).from_bytes(reranker.to_bytes()).learned.threshold == chosen.threshold
    # An explicit setting comes before it.
    reranker.min_probability = 0.0
    assert trained("xyzzy").ents[0].kb_id_.startswith("C")
    with pytest.warns(UserWarning, match="No threshold of the reranker"):
        chosen = reranker.choose_threshold(
            make_examples(trained, [("He had a cold", {"cold": "C0013264"})]), nlp=trained
        )
    assert chosen.precision == 0


def test_strings_are_found_without_documents(trained):
    reranker = get_reranker(trained)
    found = reranker.find(["cold", "insomnia", "?"])
    assert [candidates[0]["id"] for candidates in found[:2]] == ["C0009443", "C0917801"] and found[2] == []
    assert len(found[0]) == 5 and all("probability" in candidate for candidate in found[0])
    (kept,) = reranker.find(["insomnia"], threshold=0.5)
    assert [candidate["id"] for candidate in kept] == ["C0917801"]
    with pytest.raises(ValueError, match="takes a list of strings"):
        reranker.find("insomnia")
    # As in a document with nothing else in it.
    assert trained("insomnia").ents[0]._.kb_candidates[0]["probability"] == pytest.approx(found[1][0]["probability"])


def test_it_keeps_its_own_k_and_searches_deeper_than_the_linker(make_nlp):
    nlp = make_nlp(k=1)
    reranker = add_reranker(nlp, make_examples(nlp), k=3, n_candidates=4, priors=False)
    assert len(nlp("insomnia").ents[0]._.kb_candidates) == 3
    reranker.k = 10
    assert len(nlp("insomnia").ents[0]._.kb_candidates) == 4
    assert len(nlp.get_pipe("sapbert_linker").get_candidates(nlp("insomnia").ents[0])) == 1


def test_ids_of_others_stay_without_overwrite_and_no_id_is_set_without_set_kb_id(trained):
    reranker = get_reranker(trained)
    doc = trained.make_doc("a cold and insomnia")
    for name, part in trained.pipeline:
        if name == "sapbert_linker":
            doc.ents[0][0].ent_kb_id_ = "MINE"
            part.overwrite = False
        doc = part(doc)
    # The linker's id gives way, the one that was there before does not.
    assert [ent.kb_id_ for ent in doc.ents] == ["MINE", "C0917801"]
    assert doc.ents[0]._.kb_probability is not None
    trained.get_pipe("sapbert_linker").overwrite = True
    reranker.set_kb_id = False
    doc = trained("a cold")
    assert doc.ents[0].kb_id_ == "C0009264"
    assert reranker.name and doc.ents[0]._.kb_probability > 0.5


def test_a_reranker_decides_on_what_the_linker_has_left_without_an_id(trained):
    trained.get_pipe("sapbert_linker").threshold = 1.0
    for set_nil, overwrite in ((False, True), (True, True), (True, False)):
        trained.get_pipe("sapbert_linker").set_nil = set_nil
        trained.get_pipe("sapbert_linker").overwrite = overwrite
        get_reranker(trained).min_probability = 0.0
        assert trained("xyzzy").ents[0].kb_id_.startswith("C")


def test_documents_from_disk_are_reranked_without_a_second_look_by_the_linker(trained, monkeypatch):
    depths, search = [], Retriever.search
    monkeypatch.setattr(Retriever, "search", lambda *args: depths.append(args[3]) or search(*args))
    expected = trained("a cold and insomnia")
    # What the linker has found is not searched for again.
    assert depths == [30] and len(expected.ents[0]._.kb_candidates) == 5
    with trained.select_pipes(disable=["sapbert_reranker"]):
        linked = trained("a cold and insomnia")
    loaded = Doc(trained.vocab).from_bytes(linked.to_bytes())
    assert loaded.ents[0].kb_id_ == "C0009264" and loaded.ents[0]._.kb_probability is None
    get_reranker(trained)(loaded)
    loaded = Doc(trained.vocab).from_bytes(loaded.to_bytes())
    assert [ent.kb_id_ for ent in loaded.ents] == [ent.kb_id_ for ent in expected.ents] == ["C0009443", "C0917801"]
    for one, other in zip(loaded.ents, expected.ents, strict=True):
        assert one._.kb_probability == pytest.approx(other._.kb_probability, abs=1e-4)


def test_spans_of_the_linkers_group_are_decided_too(trained, make_nlp):
    nlp = make_nlp(spans_key="sc")
    add_reranker(nlp).from_bytes(get_reranker(trained).to_bytes())
    doc = nlp.make_doc("a cold and insomnia")
    doc.spans["sc"] = [Span(doc, 1, 2, label="OTHER"), Span(doc, 3, 4, label="OTHER")]
    doc = nlp(doc)
    assert [span.kb_id_ for span in doc.spans["sc"]] == ["C0009443", "C0917801"]
    assert all(span._.kb_probability > 0.5 for span in doc.spans["sc"])


def test_filters_and_codes_of_the_linker_hold(make_nlp):
    # Two concepts have this code.
    texts = [("hypertension", {"hypertension": "1"}), ("trouble sleeping", {"trouble sleeping": "1"})]
    for types, found in ((None, {"T047", "T184"}), (["T047"], {"T047"})):
        nlp = make_nlp(types=types, output_source="OMIM")
        # With annotated mentions in memory and without: a code does not say which of its concepts was meant.
        add_reranker(nlp, make_examples(nlp, texts if types is None else texts[:1]), priors=types is not None)
        train(nlp, make_examples(nlp, texts), steps=40)
        ents = nlp("hypertension and insomnia").ents
        assert ents[0].kb_id_ == "1" and (types or ents[1].kb_id_ == "1")
        listed = [[candidate["id"] for candidate in ent._.kb_candidates] for ent in ents]
        assert all(len(set(ids)) == len(ids) for ids in listed)
        assert {type_ for ent in ents for candidate in ent._.kb_candidates for type_ in candidate["types"]} == found


def test_concepts_of_similar_annotated_mentions_become_candidates_unless_a_filter_forbids(make_nlp):
    texts = [("the xyzzy", {"xyzzy": "C0013264"}), ("some xyzzy", {"xyzzy": "C0013264"})]
    for settings, found in ({"types": ["T047"]}, True), ({"types": ["T184"]}, False):
        nlp = make_nlp(**settings)
        add_reranker(nlp, make_examples(nlp, texts), n_candidates=1)
        ids = [candidate["id"] for candidate in nlp("a xyzzy").ents[0]._.kb_candidates]
        assert ("C0013264" in ids) is found


def test_explanations_are_given_only_if_asked_for(trained):
    reranker = get_reranker(trained)
    assert "reason" not in trained("a cold").ents[0]._.kb_candidates[0]
    reranker.explain = True
    candidates = trained("a cold").ents[0]._.kb_candidates
    assert all(candidate["definition"] == DEFINITIONS.get(candidate["id"], "") for candidate in candidates)
    assert all(isinstance(candidate["reason"], str) for candidate in candidates)
    assert "annotated" in candidates[0]["reason"] and len(candidates[0]["reason"].split("; ")) <= 3
    assert reranker.find(["cold"])[0][0]["reason"] == candidates[0]["reason"]


def test_what_is_remembered_changes_nothing(make_nlp):
    decisions = []
    for settings in ({}, {"cache_size": 0}, {"cache_size": 2}):
        nlp = make_nlp()
        add_reranker(nlp, make_examples(nlp), **settings)
        texts = ["a cold , insomnia and cold", "hypertension , cold and dmd", "a cold", "insomnia , dmd"] * 2
        decisions.append([(ent.kb_id_, ent._.kb_probability) for text in texts for ent in nlp(text).ents])
    for other in decisions[1:]:
        assert [kb_id for kb_id, _ in decisions[0]] == [kb_id for kb_id, _ in other]
        assert [p for _, p in decisions[0]] == pytest.approx([p for _, p in other], abs=1e-4)
