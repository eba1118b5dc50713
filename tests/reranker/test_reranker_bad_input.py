"""What does not fit is refused with what to do, or has a documented result."""

import json

import numpy as np
import pytest
from reranking import TEXTS, add_reranker, make_examples, train

from spacy_sapbert.reranker import component


@pytest.fixture
def nlp(make_nlp):
    """One with a reranker that has not been updated."""
    nlp = make_nlp()
    add_reranker(nlp, make_examples(nlp))
    return nlp


def mark(nlp, text, *words, label="DISORDER"):
    doc = nlp.make_doc(text)
    doc.ents = [doc.char_span(text.index(word), text.index(word) + len(word), label=label) for word in words]
    return doc


def test_gold_ids_that_the_terminology_lacks_are_counted_and_named_once(make_nlp):
    nlp = make_nlp()
    texts = [("a cold", {"cold": "D1"}), ("the cold", {"cold": "D1|D2"}), ("insomnia", {"insomnia": "C0917801|D3"})]
    with pytest.warns(UserWarning, match=r"2 of 3.*D1 \(1\), D1\|D2 \(1\)") as caught:
        add_reranker(nlp, make_examples(nlp, texts))
    assert (
        len([warning for warning in caught if "annotated mentions have gold ids that the" in str(warning.message)]) == 1
    )
    # They are learned as NIL.
    train(nlp, make_examples(nlp, texts), steps=60)
    assert [nlp(text).ents[0].kb_id_ for text in ("a cold", "insomnia")] == ["", "C0917801"]


def test_documents_without_annotations_teach_nothing(make_nlp):
    nlp = make_nlp()
    reranker = add_reranker(nlp)
    plain = make_examples(nlp, [("nothing here", {}), ("a cold", {"cold": ""})])
    reranker.initialize(lambda: plain, nlp=nlp)
    reranker.initialize(nlp=nlp)
    assert not reranker.is_trained and train(nlp, plain, steps=1) == {"sapbert_reranker": 0.0}
    with pytest.raises(
        ValueError,
        match="The reranker .* has not been initialized.*if its section has `factory = .*leaves what is sourced",
    ):
        reranker.update(make_examples(nlp))
    reranker.initialize(lambda: make_examples(nlp))
    before = reranker.model.to_bytes()
    assert train(nlp, plain, steps=1) == {"sapbert_reranker": 0.0}
    assert reranker.model.to_bytes() == before
    with pytest.raises(ValueError, match="none of the 2 documents has entities with `kb_id_`"):
        reranker.calibrate(plain, nlp=nlp)
    # What has been learned stays.
    learned = reranker.learned
    reranker.initialize(lambda: plain, nlp=nlp)
    assert reranker.learned is learned


@pytest.mark.filterwarnings("ignore:The reranker .* was calibrated on only")
def test_mentions_that_cannot_be_names_are_nil_and_labels_may_be_new_or_not_linked(make_nlp):
    nlp = make_nlp(skip_labels=["SKIPPED"])
    reranker = add_reranker(nlp, make_examples(nlp), set_nil=True)
    with nlp.select_pipes(disable=["entity_ruler"]):
        assert nlp(mark(nlp, "a cold", "cold", label="NEW")).ents[0].kb_id_.startswith("C")
        (skipped,) = nlp(mark(nlp, "a cold", "cold", label="SKIPPED")).ents
        (ent,) = nlp(mark(nlp, "a ? here", "?")).ents
    assert skipped.kb_id_ == "" and skipped._.kb_probability is None and skipped._.kb_candidates == []
    assert (ent.kb_id_, ent._.kb_candidates) == ("NIL", []) and 0 <= ent._.kb_probability <= 1
    # Neither do they hurt while it learns and is scored.
    texts = [*TEXTS, ("a ? here", {"?": "NIL"}), ("a ! here", {"!": "C0009443"})]
    assert np.isfinite(train(nlp, make_examples(nlp, texts), steps=3)["sapbert_reranker"])
    assert reranker.calibrate(make_examples(nlp, texts), nlp=nlp).n_mentions == 10
    assert nlp.evaluate(make_examples(nlp, texts))["nel_nil_r"] is not None


def test_a_linker_with_another_encoder_is_refused(nlp, static_folder):
    reranker = nlp.get_pipe("sapbert_reranker")
    nlp("a cold")
    nlp.get_pipe("sapbert_linker").initialize(encoder=str(static_folder))
    with pytest.raises(ValueError, match=r"The reranker.*encoder"):
        nlp("a cold")
    reranker.initialize(lambda: make_examples(nlp), nlp=nlp)
    assert nlp("a cold").ents[0]._.kb_probability is not None


def test_another_terminology_is_refused_or_warned_of_by_its_annotated_concepts(nlp):
    reranker = nlp.get_pipe("sapbert_reranker")
    linker = nlp.get_pipe("sapbert_linker")
    linker.add_names([("C7", "influenza")])
    with pytest.warns(UserWarning, match=r"The reranker.*lacks 0 of the 4") as caught:
        assert nlp("a cold").ents[0]._.kb_probability is not None
        nlp("a cold")
    assert len(caught) == 1
    linker.remove_concepts(["C0009443", "C0020538", "C0917801"])
    with pytest.raises(ValueError, match=r"The reranker.*3 of the 4"):
        nlp("a cold")
    # Without priors nothing of the old terminology is left.
    reranker.initialize(lambda: make_examples(nlp, [("heart attack", {"heart attack": "C0027051"})]), nlp=nlp)
    assert nlp("heart attack").ents[0].kb_id_ == "C0027051"


def test_a_reranker_of_another_version_or_a_damaged_one_is_refused(nlp, tmp_path):
    reranker = nlp.get_pipe("sapbert_reranker")
    reranker.to_disk(tmp_path / "r")
    data = reranker.learned
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(component, "FEATURES", {"cosine": "near the mention"})
        with pytest.raises(ValueError, match=r"The reranker.*features"):
            reranker.from_disk(tmp_path / "r")
    assert reranker.learned is data
    manifest = json.loads((tmp_path / "r" / "reranker.json").read_text())
    assert manifest["features"][0] == "cosine"
    (tmp_path / "r" / "model").write_bytes(b"damaged")
    with pytest.raises(OSError, match="is not the file that was saved: it is"):
        reranker.from_disk(tmp_path / "r")


def test_arguments_without_meaning_are_refused_and_change_nothing(nlp):
    reranker = nlp.get_pipe("sapbert_reranker")
    before = reranker.learned
    of_none = make_examples(nlp, [("a ? here", {"?": "NIL"})])
    for value in (-0.1, 1.5, 95, float("nan"), "x"):
        with pytest.raises(ValueError, match=r"precision.*choose_threshold"):
            reranker.choose_threshold(make_examples(nlp), value, nlp=nlp)
        with pytest.raises(ValueError, match=r"threshold.*find"):
            reranker.find(["a cold"], threshold=value)
    for call, error, match in (
        (lambda: reranker.choose_threshold(make_examples(nlp), 0, nlp=nlp), ValueError, "precision.*choose_threshold"),
        (lambda: reranker.calibrate([nlp("a cold")], nlp=nlp), TypeError, r"SapbertReranker\.calibrate"),
        (lambda: reranker.calibrate(of_none, nlp=nlp), ValueError, "no annotated mention .* has candidates"),
        (lambda: reranker.choose_threshold(of_none, nlp=nlp), ValueError, "no annotated mention .* has candidates"),
        (lambda: setattr(reranker, "min_probability", 1.5), ValueError, "min_probability"),
        (lambda: setattr(reranker, "min_probabilty", 0.5), AttributeError, "min_probability"),
        (lambda: nlp.add_pipe("sapbert_reranker", "other", config={"pul": 1.0}), ValueError, "pul"),
        (lambda: reranker.from_bytes(b"damaged"), ValueError, "Can't unpack these bytes:"),
    ):
        with pytest.raises(error, match=match):
            call()
    assert reranker.learned is before
    nlp.get_pipe("sapbert_linker").skip_labels = ["DISORDER"]
    with pytest.raises(ValueError, match=r"The reranker.*links none of the labels"):
        reranker.initialize(lambda: make_examples(nlp), nlp=nlp)


def test_a_network_with_numbers_that_are_not_finite_is_refused(nlp):
    reranker = nlp.get_pipe("sapbert_reranker")
    reranker.model.get_param("weight")[0] = np.nan
    for call in (lambda: nlp("insomnia"), lambda: reranker.find(["insomnia"])):
        with pytest.raises(ValueError, match=r"The network of the reranker.*'sapbert_reranker'.*not finite"):
            call()
    with pytest.raises(ValueError, match=r"The loss of the reranker.*nan"):
        train(nlp, make_examples(nlp), steps=1)


def test_a_linker_that_is_missing_empty_or_behind_is_said(make_nlp):
    nlp = make_nlp()
    reranker = add_reranker(nlp, linker="other")
    with pytest.raises(ValueError, match="'sapbert_reranker' finds no linker 'other'"):
        reranker.initialize(lambda: make_examples(nlp), nlp=nlp)
    nlp.add_pipe("sapbert_linker", name="other")
    with pytest.raises(ValueError, match="stands in front of its linker 'other'.* behind"):
        reranker.initialize(lambda: make_examples(nlp), nlp=nlp)
    nlp.remove_pipe("other")
    nlp.add_pipe("sapbert_linker", name="other", before="sapbert_reranker")
    with pytest.raises(ValueError, match=r"has no concepts yet.*other"):
        reranker.initialize(lambda: make_examples(nlp), nlp=nlp)
    nlp.remove_pipe("other")
    reranker.linker = "sapbert_linker"
    reranker.initialize(lambda: make_examples(nlp), nlp=nlp)
    nlp.remove_pipe("sapbert_linker")
    with pytest.raises(ValueError, match="no linker 'sapbert_linker' in its pipeline, which has entity_ruler"):
        nlp("a cold")
