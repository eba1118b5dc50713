"""Scores from `nlp.evaluate` and from `spacy evaluate`."""

import pytest
import spacy
import srsly
from spacy.cli.evaluate import evaluate
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from spacy_sapbert.terminology import TerminologyBuilder

KEYS = {"nel_micro_p", "nel_micro_r", "nel_micro_f", "nel_acc_at_1", "nel_acc_at_5", "nel_coverage"}


def gold_doc(vocab, words, *ents):
    """Make a gold document with entities from (start, end, kb_id)."""
    doc = Doc(vocab, words=words)
    doc.ents = [Span(doc, start, end, label="DISORDER", kb_id=kb_id) for start, end, kb_id in ents]
    return doc


def examples_for(nlp, *golds):
    return [Example(nlp.make_doc(gold.text), gold) for gold in golds]


@pytest.fixture
def without_ner(make_nlp):
    """Return a function that makes a pipeline of nothing but the linker."""

    def make(**settings):
        nlp = make_nlp(**settings)
        for name in ("entity_ruler", "schwartz_hearst"):
            nlp.remove_pipe(name)
        return nlp

    return make


def right(vocab):
    return gold_doc(vocab, ["heart", "attack", "and", "hypertension"], (0, 2, "C0027051"), (3, 4, "C0020538"))


def wrong(vocab):
    return gold_doc(vocab, ["heart", "attack", "and", "hypertension"], (0, 2, "WRONG"), (3, 4, "WORSE"))


def test_without_gold_entities_only_those_found_are_scored(make_nlp):
    nlp = make_nlp(use_gold_ents=False)
    gold = gold_doc(nlp.vocab, ["heart", "attack", "or", "flu"], (0, 2, "C0027051"), (3, 4, "C0021400"))
    scores = nlp.evaluate(examples_for(nlp, gold))
    assert scores["nel_coverage"] == 0.5 and scores["nel_acc_at_1"] == scores["nel_micro_p"] == 1.0


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("use_gold_ents", [True, False])
def test_gold_ids_never_become_predictions(make_nlp, overwrite, use_gold_ents):
    nlp = make_nlp(overwrite=overwrite, use_gold_ents=use_gold_ents)
    scores = nlp.evaluate(examples_for(nlp, wrong(nlp.vocab)))
    assert {key: scores[key] for key in KEYS - {"nel_coverage"}} == dict.fromkeys(KEYS - {"nel_coverage"}, 0.0)
    assert scores["nel_coverage"] == 1.0


def test_scoring_leaves_predicted_and_gold_documents_as_they_are(make_nlp):
    nlp = make_nlp()
    gold = gold_doc(nlp.vocab, ["heart", "attack", "or", "flu"], (3, 4, "C0021400"))
    (example,) = examples_for(nlp, gold)
    example.predicted = nlp(example.predicted)
    before = (example.predicted.to_bytes(), example.reference.to_bytes())
    scores = nlp.get_pipe("sapbert_linker").score([example])
    assert set(scores) == KEYS
    assert (example.predicted.to_bytes(), example.reference.to_bytes()) == before
    assert [ent.text for ent in example.predicted.ents] == ["heart attack"]


def test_a_linker_without_scorer_gives_no_scores(without_ner):
    nlp = without_ner(scorer=None)
    assert nlp.get_pipe("sapbert_linker").score(examples_for(nlp, right(nlp.vocab))) == {}


@pytest.mark.parametrize("with_ner", [True, False])
def test_spacy_evaluate_writes_the_scores_to_its_output(make_nlp, without_ner, tmp_path, with_ner):
    nlp = make_nlp() if with_ner else without_ner()
    nlp.to_disk(tmp_path / "model")
    docs = [right(nlp.vocab), gold_doc(nlp.vocab, ["heart", "attack"], (0, 2, "WRONG"))]
    DocBin(docs=docs).to_disk(tmp_path / "data.spacy")
    evaluate(str(tmp_path / "model"), tmp_path / "data.spacy", output=tmp_path / "m.json", silent=True)
    scores = srsly.read_json(tmp_path / "m.json")
    assert KEYS <= set(scores)
    assert scores["nel_micro_p"] == scores["nel_acc_at_1"] == pytest.approx(2 / 3)
    loaded = spacy.load(tmp_path / "model")
    assert loaded.evaluate(examples_for(loaded, *docs))["nel_micro_f"] == pytest.approx(scores["nel_micro_f"])


@pytest.mark.parametrize("use_gold_ents", [True, False])
def test_candidates_of_a_span_with_the_same_boundaries_do_not_count_for_the_entity(make_nlp, use_gold_ents):
    labels = {"DISORDER": ["T047"], "WEATHER": ["T070"]}
    nlp = make_nlp(use_gold_ents=use_gold_ents, spans_key="sc", label_types=labels)
    gold = gold_doc(nlp.vocab, ["cold"], (0, 1, "C0009443"))
    predicted = nlp.make_doc("cold")
    predicted.spans["sc"] = [Span(predicted, 0, 1, label="WEATHER")]
    scores = nlp.evaluate([Example(predicted, gold)])
    assert scores["nel_micro_f"] == scores["nel_acc_at_1"] == 1.0


def test_ids_with_a_pipe_are_scored_as_one_id(make_nlp):
    builder = TerminologyBuilder()
    for concept in ("D1", "D1|D2"):
        builder.add_name(concept, "cold" if concept == "D1" else "heart attack")
    nlp = make_nlp()
    nlp.get_pipe("sapbert_linker").initialize(terminology=builder.build())
    for words, expected in ((["cold"], 0.0), (["heart", "attack"], 1.0)):
        scores = nlp.evaluate(examples_for(nlp, gold_doc(nlp.vocab, words, (0, len(words), "D1|D2"))))
        assert scores["nel_micro_f"] == scores["nel_acc_at_1"] == expected
