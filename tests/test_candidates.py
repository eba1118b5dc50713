"""Candidates as plain data, and the merging of two lists of them."""

import json

import numpy as np
import pytest
import srsly
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.candidates import CandidateMaker, merge_candidates
from spacy_sapbert.index import Index
from spacy_sapbert.retrieval.hits import Hit
from spacy_sapbert.retrieval.retriever import Retriever


def candidate(id_, score, mention="m"):
    return {
        "id": id_,
        "concept_id": id_,
        "score": score,
        "name": "n",
        "canonical_name": "N",
        "types": [],
        "mention": mention,
    }


def ids(candidates):
    return [candidate["id"] for candidate in candidates]


candidate_lists = st.lists(
    st.tuples(st.sampled_from("ABCDEF"), st.sampled_from([-0.5, 0.0, 0.3, 0.30000001, 0.9, 1.0])),
    unique_by=lambda pair: pair[0],
    max_size=6,
).map(lambda pairs: sorted((candidate(*pair) for pair in pairs), key=lambda c: -c["score"]))


def test_merging_keeps_the_better_score_of_a_concept():
    merged = merge_candidates([candidate("A", 0.9), candidate("B", 0.2)], [candidate("B", 0.8), candidate("A", 0.1)], 5)
    assert [(c["id"], c["score"]) for c in merged] == [("A", 0.9), ("B", 0.8)]


def test_merging_prefers_the_first_form_where_scores_are_equal():
    merged = merge_candidates([candidate("A", 1.0, "long")], [candidate("A", 1.0, "short")], 5)
    assert [c["mention"] for c in merged] == ["long"]
    assert ids(merge_candidates([candidate("B", 0.9999999)], [candidate("A", 1.0)], 5)) == ["B", "A"]


def test_a_short_form_alone_stays_behind_what_the_document_says():
    long = [candidate("A", 0.7, "myotonic dystrophy"), candidate("B", 0.5, "myotonic dystrophy")]
    short = [candidate("C", 1.0, "DM"), candidate("D", 0.9, "DM"), candidate("B", 0.85, "DM")]
    merged = merge_candidates(long, short, 5)
    assert ids(merged) == ["A", "C", "D", "B"]
    assert [c["score"] for c in merged] == pytest.approx([0.7, 0.699, 0.599, 0.549])
    assert [c["score"] for c in short] == [1.0, 0.9, 0.85]
    # Scores that are lower anyway stay, and without the other form there is nothing to stay behind.
    assert merge_candidates(long, [candidate("C", 0.6, "DM")], 5)[1]["score"] == 0.6
    assert merge_candidates([], short, 5) == short and merge_candidates(long, [], 5) == long


def test_a_mention_with_other_words_than_the_short_form_may_win():
    long = [candidate("A", 0.76, "diminished galactosylceramidase activity")]
    assert ids(merge_candidates(long, [candidate("B", 1.0, "diminished GALC activity")], 5)) == ["B", "A"]


def test_merging_cuts_at_k_but_not_between_equal_scores():
    assert ids(merge_candidates([candidate("A", 0.9), candidate("B", 0.8)], [candidate("C", 0.85)], 2)) == ["A", "C"]
    assert ids(merge_candidates([candidate("A", 0.9), candidate("B", 0.8)], [candidate("C", 0.8)], 2)) == [*"ABC"]


def test_merging_nothing_gives_nothing():
    assert merge_candidates([], [], 3) == []


@given(candidate_lists, candidate_lists, st.integers(1, 7))
def test_merging_gives_the_best_concepts_once_each_in_order(first, second, k):
    merged = merge_candidates(first, second, k)
    every = {c["id"] for c in (*first, *second)}
    scores = [round(c["score"], 6) for c in merged]
    assert len(set(ids(merged))) == len(merged) >= min(k, len(every))
    assert scores == sorted(scores, reverse=True)
    for c in merged:
        assert round(c["score"], 6) == max(round(o["score"], 6) for o in (*first, *second) if o["id"] == c["id"])
    left_out = [o for o in (*first, *second) if o["id"] not in ids(merged)]
    assert all(round(o["score"], 6) < scores[-1] for o in left_out)


def test_hits_become_plain_data(terminology):
    rows = {terminology.concepts["id"][row]: row for row in range(len(terminology))}
    names = {name: row for row, name in enumerate(terminology.names["name"].to_list())}
    retriever = Retriever(terminology, Index(), *np.empty((3, 0), dtype=np.int64))
    maker = CandidateMaker(retriever, None)
    made = maker.make("b", Hit(rows["C0027051"], names["heart attack"], 0.5))
    assert made == {
        "id": "C0027051",
        "concept_id": "C0027051",
        "score": 0.5,
        "name": "heart attack",
        "canonical_name": "Myocardial Infarction",
        "types": ["T047"],
        "mention": "b",
    }
    made["types"].append("changed")
    again = maker.make("c", Hit(rows["C0027051"], -1, 1.0000001))
    assert (again["name"], again["score"], again["types"]) == ("Myocardial Infarction", 1.0, ["T047"])


def test_candidates_are_plain_data_for_every_serialiser(make_nlp):
    candidates = make_nlp()("heart attack").ents[0]._.kb_candidates
    assert json.loads(json.dumps(candidates)) == candidates
    assert srsly.msgpack_loads(srsly.msgpack_dumps(candidates)) == candidates
    for found in candidates:
        assert type(found["score"]) is float and not isinstance(found["score"], np.generic)
        assert set(found) == {"id", "concept_id", "score", "name", "canonical_name", "types", "mention"}


@pytest.mark.parametrize("k", [1, 3])
def test_a_long_tie_at_the_end_is_never_cut(make_nlp, k):
    tied = [candidate(id_, 0.7) for id_ in "ABCDE"]
    assert ids(merge_candidates([], tied, k)) == [*"ABCDE"]
