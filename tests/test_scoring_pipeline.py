"""Scores from `nlp.evaluate` and from `spacy evaluate`."""

import pytest
import srsly
from conftest import build_terminology
from linked import make_doc
from spacy.cli.evaluate import evaluate
from spacy.cli.find_threshold import find_threshold
from spacy.tokens import DocBin, Span
from spacy.training import Example

KEYS = {"nel_micro_p", "nel_micro_r", "nel_micro_f", "nel_acc_at_1", "nel_acc_at_5", "nel_coverage"}


def make_examples(nlp, *golds):
    """Make examples of texts, each with gold entities from (start, end, id)."""
    examples = []
    for text, *ents in golds:
        gold = make_doc(nlp.vocab, text, *((start, end, "DISORDER", kb_id) for start, end, kb_id in ents))
        examples.append(Example(nlp.make_doc(gold.text), gold))
    return examples


RIGHT = ("heart attack and hypertension", (0, 2, "C0027051"), (3, 4, "C0020538"))
WRONG = ("heart attack and hypertension", (0, 2, "WRONG"), (3, 4, "WORSE"))


def test_without_gold_entities_only_those_found_are_scored(make_nlp):
    nlp = make_nlp(use_gold_ents=False)
    scores = nlp.evaluate(make_examples(nlp, ("heart attack or flu", (0, 2, "C0027051"), (3, 4, "C0021400"))))
    assert scores["nel_coverage"] == 0.5 and scores["nel_acc_at_1"] == scores["nel_micro_p"] == 1.0


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("use_gold_ents", [True, False])
def test_gold_ids_never_become_predictions(make_nlp, overwrite, use_gold_ents):
    nlp = make_nlp(overwrite=overwrite, use_gold_ents=use_gold_ents)
    scores = nlp.evaluate(make_examples(nlp, WRONG))
    assert {key: scores[key] for key in KEYS} == {**dict.fromkeys(KEYS, 0.0), "nel_coverage": 1.0}


def test_scoring_leaves_predicted_and_gold_documents_as_they_are(make_nlp):
    nlp = make_nlp()
    (example,) = make_examples(nlp, ("heart attack or flu", (3, 4, "C0021400")))
    example.predicted = nlp(example.predicted)
    before = (example.predicted.to_bytes(), example.reference.to_bytes())
    assert set(nlp.get_pipe("sapbert_linker").score([example])) == KEYS
    assert (example.predicted.to_bytes(), example.reference.to_bytes()) == before
    assert [ent.text for ent in example.predicted.ents] == ["heart attack"]
    assert make_nlp(scorer=None).get_pipe("sapbert_linker").score([example]) == {}


@pytest.mark.parametrize("with_ner", [True, False])
def test_spacy_evaluate_writes_the_scores_to_its_output(make_nlp, tmp_path, with_ner):
    nlp = make_nlp()
    for name in () if with_ner else ("entity_ruler", "schwartz_hearst"):
        nlp.remove_pipe(name)
    nlp.to_disk(tmp_path / "model")
    examples = make_examples(nlp, RIGHT, ("heart attack", (0, 2, "WRONG")))
    DocBin(docs=[example.reference for example in examples]).to_disk(tmp_path / "data.spacy")
    evaluate(str(tmp_path / "model"), tmp_path / "data.spacy", output=tmp_path / "m.json", silent=True)
    scores = srsly.read_json(tmp_path / "m.json")
    assert KEYS <= set(scores)
    assert scores["nel_micro_p"] == scores["nel_acc_at_1"] == pytest.approx(2 / 3)
    assert nlp.evaluate(examples)["nel_micro_f"] == pytest.approx(scores["nel_micro_f"])


@pytest.mark.parametrize("use_gold_ents", [True, False])
def test_candidates_of_a_span_with_the_same_boundaries_do_not_count_for_the_entity(make_nlp, use_gold_ents):
    labels = {"DISORDER": ["T047"], "WEATHER": ["T070"]}
    nlp = make_nlp(use_gold_ents=use_gold_ents, spans_key="sc", label_types=labels)
    (example,) = make_examples(nlp, ("cold", (0, 1, "C0009443")))
    example.predicted.spans["sc"] = [Span(example.predicted, 0, 1, label="WEATHER")]
    scores = nlp.evaluate([example])
    assert scores["nel_micro_f"] == scores["nel_acc_at_1"] == 1.0


def test_ids_with_a_pipe_are_scored_as_one_id(make_nlp):
    nlp, names = make_nlp(), build_terminology([("D1", "cold"), ("D1|D2", "heart attack")])
    nlp.get_pipe("sapbert_linker").initialize(terminology=names)
    for gold, expected in ((("cold", (0, 1, "D1|D2")), 0.0), (("heart attack", (0, 2, "D1|D2")), 1.0)):
        scores = nlp.evaluate(make_examples(nlp, gold))
        assert scores["nel_micro_f"] == scores["nel_acc_at_1"] == expected


def test_a_linker_in_front_of_a_reranker_has_scores_of_its_own(make_nlp, tmp_path):
    nlp = make_nlp()
    nlp.add_pipe("sapbert_reranker")
    examples = make_examples(nlp, ("heart attack and hypertension xyzzy", (0, 2, "C0027051"), (4, 5, "NIL")))
    own = {key.replace("nel_", "nel_sapbert_linker_") for key in KEYS}
    scores = nlp.evaluate(examples)
    assert own < {*scores} and {*KEYS} < {*scores} and scores["nel_sapbert_linker_micro_f"] < scores["nel_micro_f"]
    with nlp.select_pipes(disable="sapbert_reranker"):
        alone = nlp.evaluate(examples)
    assert own.isdisjoint(alone)
    assert [alone[key] for key in sorted(KEYS)] == [scores[key] for key in sorted(own)]
    # So that spaCy finds its threshold.
    nlp.to_disk(tmp_path / "model")
    DocBin(docs=[example.reference for example in examples]).to_disk(tmp_path / "data.spacy")
    options = {"threshold_key": "threshold", "scores_key": "nel_sapbert_linker_micro_f", "n_trials": 3}
    _, best, found = find_threshold(tmp_path / "model", tmp_path / "data.spacy", "sapbert_linker", **options)
    assert best == 1.0 and len({*found.values()}) > 1
