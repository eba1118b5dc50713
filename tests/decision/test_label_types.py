"""Semantic types by label: what is counted, what is left out, and what a reranker makes of it."""

import random
from math import log

import numpy as np
import pytest
from reranking import add_reranker, make_examples, train
from spacy.tokens import Span

from spacy_sapbert.decision.features.labels import LABELS
from spacy_sapbert.decision.label_types import SMOOTHING, LabelledConcept, LabelTypes

LABEL_NAMES, TYPES = ["DRUG", "DISEASE"], ["T1", "T2", "T3"]
N_BY_TYPE = {"T1": 10, "T2": 30, "T3": 1, "T4": 59}
KNOWN = [*LABEL_NAMES, "", "NEW"], [None, 7, 8, 9, 99], [*TYPES, "T4", "?"]


def draw(seed):
    rng = random.Random(seed)
    return [
        LabelledConcept(
            rng.choice(LABEL_NAMES), frozenset(rng.sample(TYPES, rng.choice([0, 1, 1, 2]))), rng.choice([7, 8, 9])
        )
        for _ in range(rng.choice([1, 5, 60]))
    ]


def compare_naively(found, label, left_out, types):
    counted = [of for of in found if label in (of.label, "") and of.document != left_out and of.types]
    if not types or not counted:
        return 0.0

    def lift(type_):
        n = sum(type_ in of.types for of in counted)
        return log((n * 100 / N_BY_TYPE.get(type_, 1) + SMOOTHING) / (len(counted) + SMOOTHING))

    return max(map(lift, types))


@pytest.mark.parametrize("seed", range(8))
def test_the_arrays_say_what_naive_loops_do(seed):
    found, rng = draw(seed), random.Random(seed + 100)
    counts = LabelTypes.collect(found, N_BY_TYPE)
    if counts is None:
        assert not any(of.types for of in found)
        return
    shuffled = LabelTypes.collect(rng.sample(found, len(found)), N_BY_TYPE)
    assert shuffled is not None and np.array_equal(shuffled.rows, counts.rows)
    loaded = LabelTypes(counts.labels, counts.types, counts.shares, counts.rows, counts.documents)
    labels, left_out = [[rng.choice(values) for _ in range(20)] for values in KNOWN[:2]]
    types = [tuple(rng.sample(KNOWN[2], n)) for n in (0, 1, 1, 2, 3)]
    mentions, concepts = (
        np.array([rng.randrange(20) for _ in range(70)]),
        np.array([rng.randrange(5) for _ in range(70)]),
    )
    expected = [
        compare_naively(found, labels[m], left_out[m], types[c]) for m, c in zip(mentions, concepts, strict=True)
    ]
    for of in (counts, loaded):
        assert of.compare(labels, left_out, types, mentions, concepts) == pytest.approx(expected)


def test_nothing_is_counted_without_types_and_nothing_compared_without_mentions():
    assert LabelTypes.collect([LabelledConcept("DRUG", frozenset(), 7)], N_BY_TYPE) is None
    counts = LabelTypes.collect([LabelledConcept("DRUG", frozenset(["T1"]), 7)], N_BY_TYPE)
    assert counts is not None
    assert len(counts.compare([], [], [], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))) == 0


def label_all(nlp, label):
    """Return examples of "cold" in documents that differ, with the label and its concept."""
    gold = {"DISEASE": "C0009443", "CLIMATE": "C0009264"}[label]
    words = ["old", "long", "same", "new", "bad", "dry", "wet", "odd"]
    examples = make_examples(nlp, [(f"a {word} cold {label}", {"cold": gold}) for word in words])
    for example in examples:
        (ent,) = example.reference.ents
        example.reference.ents = [Span(example.reference, ent.start, ent.end, label=label, kb_id=ent.kb_id)]
    return examples


def test_a_reranker_tells_homonyms_apart_by_their_label(make_nlp, tmp_path):
    nlp = make_nlp()
    examples = [*label_all(nlp, "DISEASE"), *label_all(nlp, "CLIMATE")]
    # Without priors the string says nothing.
    add_reranker(nlp, examples, priors=False, label_types=True, pull=0.0)
    train(nlp, examples, steps=60)
    nlp.to_disk(tmp_path / "pipeline")
    other = make_nlp()
    twin = add_reranker(other).from_disk(tmp_path / "pipeline" / "sapbert_reranker")
    assert set(LABELS.features) <= set(twin.learned.features)
    for pipeline in (nlp, other):
        found = {}
        for label in ("DISEASE", "CLIMATE", "NEW"):
            doc = pipeline.make_doc("a cold")
            doc.ents = [Span(doc, 1, 2, label=label)]
            with pipeline.select_pipes(disable=["entity_ruler"]):
                found[label] = pipeline(doc).ents[0].kb_id_
        assert found["DISEASE"] == "C0009443" and found["CLIMATE"] == "C0009264" and found["NEW"].startswith("C")


def test_a_reranker_without_types_is_loaded_as_it_was_trained(make_nlp, tmp_path):
    nlp = make_nlp()
    reranker = add_reranker(nlp, make_examples(nlp))
    assert not set(LABELS.features) & set(reranker.learned.features)
    train(nlp, make_examples(nlp), steps=10)
    reranker.to_disk(tmp_path / "reranker")
    other = make_nlp()
    # The setting says what the next training learns.
    twin = add_reranker(other, label_types=True).from_disk(tmp_path / "reranker")
    assert twin.learned.features == reranker.learned.features and twin.learned.label_types is None
    docs = [pipeline("a cold and insomnia") for pipeline in (nlp, other)]
    assert [ent.kb_id_ for ent in docs[0].ents] == [ent.kb_id_ for ent in docs[1].ents]
    # Vectors depend on their batch by rounding.
    first, second = ([ent._.kb_probability for ent in doc.ents] for doc in docs)
    assert first == pytest.approx(second, abs=1e-4)
    examples = make_examples(other)
    twin.initialize(lambda: examples, nlp=other)
    assert set(LABELS.features) <= set(twin.learned.features)


def test_strings_without_a_label_are_compared_with_all_labels(make_nlp):
    nlp = make_nlp()
    reranker = add_reranker(nlp, make_examples(nlp), label_types=True)
    train(nlp, make_examples(nlp), steps=10)
    # As in a document with the only label that there is.
    found = reranker.find(["insomnia"], nlp=nlp)[0][0]["probability"]
    assert nlp("insomnia").ents[0]._.kb_candidates[0]["probability"] == pytest.approx(found)


def test_types_are_found_by_codes_too(make_nlp):
    nlp = make_nlp(output_source="MSH")
    texts = [("a cold", {"cold": "D003139"}), ("heart attack", {"heart attack": "D009203"})]
    counts = add_reranker(nlp, make_examples(nlp, texts), label_types=True).learned.label_types
    assert counts is not None and counts.labels == ["DISORDER"] and counts.types == ["T047"]
    assert counts.rows[:, 3].sum() == 4  # a type and a mention in each of two documents
