import pytest
from case_tables import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.scorer import Scorer
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from spacy_sapbert.annotations import register_extensions
from spacy_sapbert.scorer import linker_score

VOCAB = Vocab()
MICRO = ("nel_micro_p", "nel_micro_r", "nel_micro_f")
KEYS = {*MICRO, "nel_acc_at_1", "nel_acc_at_5", "nel_coverage"}


@pytest.fixture(autouse=True)
def _extensions():
    register_extensions()


def make_doc(links, label="DISEASE"):
    """Make a document of one-word entities; None is a word outside of entities."""
    doc = Doc(VOCAB, words=[f"w{i}" for i in range(len(links))])
    doc.ents = [Span(doc, i, i + 1, label=label, kb_id=link) for i, link in enumerate(links) if link is not None]
    return doc


def make_example(gold, predicted, candidates=None):
    doc = make_doc(predicted, label="OTHER")
    for i, ids in (candidates or {}).items():
        doc[i : i + 1]._.kb_candidates = [{"id": id_, "score": 1.0} for id_ in ids]
    return Example(doc, make_doc(gold))


@cases("scores")
def test_micro(gold, predicted, tp, fp, fn):
    p, r = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
    scores = linker_score([make_example(gold, predicted)])
    assert [scores[key] for key in MICRO] == pytest.approx([p, r, 2 * p * r / max(p + r, 1e-100)])


def test_custom_negative_labels():
    examples = [make_example(["D1", "none"], ["D1", "CUI-less"])]
    assert linker_score(examples)["nel_micro_p"] == 0.5
    assert linker_score(examples, negative_labels=["none", "CUI-less"])["nel_micro_p"] == 1.0
    # An id that is not set is never a link.
    examples = [make_example(["D1", "none", ""], ["D1", "", "none"])]
    assert linker_score(examples, negative_labels=["none"])["nel_micro_p"] == 1.0


def test_other_tokens_are_compared():
    gold = Doc(VOCAB, words=["IL", "-", "2"], spaces=[False, False, False])
    gold.ents = [Span(gold, 0, 3, label="X", kb_id="D1")]
    predicted = Doc(VOCAB, words=["IL-2"], spaces=[False])
    predicted.ents = [Span(predicted, 0, 1, label="Y", kb_id="D1")]
    assert linker_score([Example(predicted, gold)])["nel_micro_f"] == pytest.approx(1.0)


def test_accuracy_at_k():
    gold = ["D1"] * 5 + [None, "", "D1"]
    predicted = ["D1"] * 5 + ["D1", "D1", None]
    candidates = {
        0: ["D1", "D2"],
        1: ["D2", "D3", "D4", "D5", "D1"],
        2: ["D2", "D3", "D4", "D5", "D6", "D1"],
        # Ranks are those of distinct concepts.
        3: ["D2", "D2", "D3", "D3", "D4", "D4", "D1"],
        4: [],
        5: ["D1"],
        6: ["D1"],
    }
    scores = linker_score([make_example(gold, predicted, candidates)])
    assert [scores[key] for key in ("nel_acc_at_1", "nel_acc_at_5", "nel_coverage")] == [1 / 5, 3 / 5, 5 / 6]


@pytest.mark.parametrize("known", [None, dict(zip(*[("D1", "D2", "D1|D2")] * 2, strict=True)).get])
@pytest.mark.parametrize(
    "gold, predicted, right", [("D1|D2", "D1|D2", True), ("D1|D2", "D1", None), ("D1", "D1|D2", False)]
)
def test_an_id_with_a_pipe_is_one_id_where_it_is_known_as_one(known, gold, predicted, right):
    scores = linker_score([make_example([gold], [predicted], {0: [predicted]})], find_id=known)
    # Nothing but the terminology tells "D1 or D2 is right" from one concept with this id.
    right = known is None if right is None else right
    assert scores["nel_micro_f"] == scores["nel_acc_at_1"] == pytest.approx(float(right))


def test_without_candidates():
    examples = [make_example(["D1"], ["D1"])]
    assert linker_score(examples)["nel_acc_at_5"] == 0.0
    Span.remove_extension("kb_candidates")
    assert linker_score(examples)["nel_acc_at_5"] == 0.0
    assert linker_score(examples)["nel_micro_f"] == pytest.approx(1.0)


def test_without_gold_links_there_are_no_scores():
    unannotated = Doc(VOCAB, words=["w0"])
    assert not unannotated.has_annotation("ENT_IOB")
    good, bad = make_example(["D1"], ["D1"]), Example(make_doc(["D2"]), unannotated)
    for examples in ([], [make_example(["", "NIL", None], ["D1", "", "D2"])], [bad]):
        assert linker_score(examples) == dict.fromkeys(KEYS)
    assert linker_score([good, bad]) == linker_score([good])


IDS = st.sampled_from([None, "", "NIL", "D1", "D2"])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=6), min_size=1, max_size=4))
def test_agrees_with_spacy(docs):
    examples = [make_example([gold for gold, _ in doc], [pred for _, pred in doc]) for doc in docs]
    scores = linker_score(examples)
    if all(gold in (None, "", "NIL") for doc in docs for gold, _ in doc):
        assert set(scores.values()) == {None}
        return
    expected = Scorer.score_links(examples, negative_labels=["", "NIL"])
    assert [scores[key] for key in MICRO] == pytest.approx([expected[key] for key in MICRO])
