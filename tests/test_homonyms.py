"""Names of candidates that a reader can tell apart."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.homonyms import tell_apart


def candidate(id_, name, canonical_name):
    return {
        **{"id": id_, "concept_id": id_, "score": 1.0, "name": name, "canonical_name": canonical_name},
        **{"types": [], "mention": "m"},
    }


def test_shared_names_get_the_canonical_name_of_their_concept():
    candidates = [
        candidate("C1", "Cold", "Common Cold"),
        candidate("C2", "cold", "Cold"),
        candidate("C3", "COLD", "Obstructive Lung Disease"),
        candidate("C4", "chill", "Chills"),
    ]
    before = copy.deepcopy(candidates)
    assert tell_apart(candidates) == ["Cold (Common Cold)", "cold", "COLD (Obstructive Lung Disease)", "chill"]
    assert candidates == before


def test_names_that_stay_the_same_get_ids():
    candidates = [candidate("C1", "Cold", "Cold"), candidate("C2", "cold", "cold"), candidate("C3", "cold", "Chill")]
    assert tell_apart(candidates) == ["Cold [C1]", "cold [C2]", "cold (Chill)"]


def test_names_that_differ_stay_as_they_are():
    assert tell_apart([]) == []
    assert tell_apart([candidate("C1", "cold", "Common Cold")]) == ["cold"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("abc")), max_size=8))
def test_all_names_are_different_and_begin_as_before(pairs):
    candidates = [candidate(f"C{place}", *pair) for place, pair in enumerate(pairs)]
    names = tell_apart(candidates)
    assert len(set(names)) == len(candidates)
    assert all(name.startswith(c["name"]) for name, c in zip(names, candidates, strict=True))
