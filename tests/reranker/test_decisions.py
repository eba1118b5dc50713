"""Probabilities, thresholds and NIL of a reranker in its pipeline."""

import numpy as np
import pytest
from reranking import add_reranker, make_examples, train


@pytest.fixture
def trained(make_nlp):
    nlp = make_nlp()
    add_reranker(nlp, make_examples(nlp))
    train(nlp, make_examples(nlp), steps=40)
    return nlp


def get_reranker(nlp):
    return nlp.get_pipe("sapbert_reranker")


def test_nil_is_decided_by_the_threshold(trained):
    reranker = get_reranker(trained)
    ent = trained("insomnia").ents[0]
    best = ent._.kb_candidates[0]["probability"]
    assert ent.kb_id_ == "C0917801" and ent._.kb_probability == best
    reranker.nil_threshold = min(best * 1.001, 1.0)
    ent = trained("insomnia").ents[0]
    # The candidates stay, and the probability is that of NIL.
    assert ent.kb_id_ == "" and ent._.kb_probability < 0.5 and ent._.kb_candidates[0]["probability"] == best
    reranker.set_nil = True
    assert trained("insomnia").ents[0].kb_id_ == "NIL"
    reranker.nil_threshold = 0.0
    assert trained("xyzzy").ents[0].kb_id_.startswith("C")


def test_calibrating_keeps_links_and_changes_probabilities(trained):
    reranker = get_reranker(trained)
    text = "a cold , insomnia , heart attack"
    before = [(ent.kb_id_, ent._.kb_probability) for ent in trained(text).ents]
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
    reranker.nil_threshold = 0.0
    assert trained("xyzzy").ents[0].kb_id_.startswith("C")


def test_a_precision_that_cannot_be_kept_is_said(trained):
    examples = make_examples(trained, [("He had a cold", {"cold": "C0013264"})])
    with pytest.warns(UserWarning, match="W453"):
        chosen = get_reranker(trained).choose_threshold(examples, nlp=trained)
    assert chosen.precision == 0


def test_strings_are_found_without_documents(trained):
    reranker = get_reranker(trained)
    found = reranker.find(["cold", "insomnia", "?"], nlp=trained)
    assert [candidates[0]["id"] for candidates in found[:2]] == ["C0009443", "C0917801"] and found[2] == []
    assert len(found[0]) == 5 and all("probability" in candidate for candidate in found[0])
    (kept,) = reranker.find(["insomnia"], nlp=trained, threshold=0.5)
    assert [candidate["id"] for candidate in kept] == ["C0917801"]
    with pytest.raises(ValueError, match="E432"):
        reranker.find("insomnia", nlp=trained)
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
    reranker.overwrite = False
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


def test_probabilities_survive_saved_documents(trained):
    from spacy.tokens import Doc

    doc = trained("a cold")
    loaded = Doc(trained.vocab).from_bytes(doc.to_bytes())
    assert loaded.ents[0]._.kb_probability == doc.ents[0]._.kb_probability
    assert loaded.ents[0]._.kb_candidates == doc.ents[0]._.kb_candidates
    assert trained.make_doc("a cold")[1:2]._.kb_probability is None


def test_documents_are_decided_alike_in_batches_and_processes(trained):
    texts = ["a cold and insomnia", "hypertension", "nothing", "heart attack and cold"]
    alone = [[(ent.kb_id_, round(ent._.kb_probability, 4)) for ent in trained(text).ents] for text in texts]
    for options in ({"batch_size": 2}, {"n_process": 2, "batch_size": 2}):
        found = [
            [(ent.kb_id_, round(ent._.kb_probability, 4)) for ent in doc.ents] for doc in trained.pipe(texts, **options)
        ]
        assert found == alone


def test_documents_on_which_all_is_right_cannot_calibrate_and_that_is_said(trained):
    reranker = get_reranker(trained)
    before = reranker.learned.concept
    examples = make_examples(trained, [("He had insomnia", {"insomnia": "C0917801"})])
    with pytest.warns(UserWarning, match=r"W454.*All 1 decisions.*'sapbert_reranker'.*are right"):
        reranker.calibrate(examples, nlp=trained)
    assert all((old == new).all() for old, new in zip(before, reranker.learned.concept, strict=True))


def test_a_damaged_network_is_refused(trained):
    reranker = get_reranker(trained)
    reranker.model.set_param("weight", np.array([np.nan], dtype=np.float32))
    with pytest.raises(ValueError, match=r"E452.*'sapbert_reranker'.*not finite"):
        trained("insomnia")
    with pytest.raises(ValueError, match="E452"):
        reranker.find(["insomnia"], nlp=trained)


def test_a_reranker_decides_on_what_the_linker_has_left_without_an_id(trained):
    trained.get_pipe("sapbert_linker").threshold = 1.0
    for set_nil, overwrite in ((False, True), (True, True), (True, False)):
        trained.get_pipe("sapbert_linker").set_nil = set_nil
        get_reranker(trained).overwrite = overwrite
        get_reranker(trained).nil_threshold = 0.0
        assert trained("xyzzy").ents[0].kb_id_.startswith("C")
