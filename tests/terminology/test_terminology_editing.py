"""Edited terminologies against one builder that got all the records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.tables.checking import check_labels
from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from spacy_sapbert.terminology.edits import add_terminology, collect_names, remove_concepts
from spacy_sapbert.terminology.merging import merge

TEXTS = st.sampled_from(["a", "b", "ä", "x y", "long enough for a buffer of its own", "😷"])
IDS = st.sampled_from(["C1", "C2", "C3", "D1", "Ä1", "😷1"])
CONCEPTS = st.fixed_dictionaries(
    {},
    optional={
        "types": st.lists(TEXTS, max_size=3),
        "definition": TEXTS,
        "codes": st.lists(TEXTS, max_size=2),
        "parents": st.lists(IDS, max_size=2),
    },
)
NAMES = st.fixed_dictionaries(
    {},
    optional={
        "language": st.sampled_from(["ENG", "GER"]),
        "source": st.sampled_from(["", "A", "B", "C"]),
        "term_type": TEXTS,
        "preferred": st.booleans(),
    },
)
RECORDS = st.lists(st.tuples(IDS, TEXTS, CONCEPTS, NAMES), min_size=1, max_size=12)


def build(records):
    builder = TerminologyBuilder()
    # What cannot be told from a terminology is whether the canonical name was given: it is, always.
    for concept_id, name, concept, labels in records:
        builder.add_concept(concept_id, canonical_name=f"The {name}", **concept)
        builder.add_name(concept_id, name, **labels)
    return builder.build()


def assert_same(terminology, expected):
    assert terminology == expected
    assert terminology.fingerprint == expected.fingerprint
    assert terminology.report["kept"] == expected.report["kept"]
    assert terminology.report["dangling_parents"] == expected.report["dangling_parents"]
    assert Terminology.from_bytes(terminology.to_bytes()) == expected


def name_keys(terminology):
    ids = terminology.concepts["id"]
    rows = zip(*(terminology.names[column].to_list() for column in ("concept", "name", "language")), strict=True)
    return [(ids[concept], name, language) for concept, name, language in rows]


@given(RECORDS, RECORDS)
def test_adding_gives_what_one_builder_gives(first, second):
    old, added = build(first), build(second)
    edit = add_terminology(old, added)
    assert_same(edit.terminology, build(first + second))
    keys = name_keys(edit.terminology)
    assert [keys[row] for row in edit.name_rows.tolist()] == name_keys(old)
    assert edit.terminology.report["edits"]["names_added"] == edit.terminology.n_names - old.n_names
    assert (old, added) == (build(first), build(second))


@given(RECORDS, st.data())
def test_removing_gives_what_was_built_without(records, data):
    ids = data.draw(st.sets(st.sampled_from(sorted({record[0] for record in records}))))
    kept = [record for record in records if record[0] not in ids]
    old = build(records)
    if not kept:
        with pytest.raises(ValueError, match=r"Can't remove these"):
            remove_concepts(old, ids)
        return
    edit = remove_concepts(old, iter(ids))
    assert_same(edit.terminology, build(kept))
    keys = name_keys(edit.terminology)
    for key, row in zip(name_keys(old), edit.name_rows.tolist(), strict=True):
        assert row == -1 if key[0] in ids else keys[row] == key


def test_edits_add_up_in_the_report():
    terminology = build([("C1", "a", {}, {}), ("C2", "b", {}, {})])
    for names in ([("C1", "x"), ("C1", "a")], [("C3", "x"), ["C3", "x"], ("C3", " ")]):
        added = collect_names(names, language="GER", source="S", term_type="PT")
        assert set(added.names.select("language", "source", "term_type").rows()) == {("GER", "S", "PT")}
        terminology = add_terminology(terminology, added).terminology
    terminology = remove_concepts(terminology, ["C1"]).terminology
    terminology = remove_concepts(Terminology.from_bytes(terminology.to_bytes()), ["C2"]).terminology
    added = {"concepts_added": 1, "names_added": 3, "duplicate_names": 1, "empty_names": 1, "normalized_names": 0}
    assert terminology.report["edits"] == {**added, "concepts_removed": 2, "names_removed": 4}


def test_an_id_that_a_concept_has_again_is_no_longer_retired():
    first, second = TerminologyBuilder(), TerminologyBuilder()
    first.add_name("C1", "a")
    first.add_retired("C2", consider=["C1"])
    first.add_retired("C3", replaced_by=["C1"])
    second.add_name("C2", "b")
    both = add_terminology(first.build(), second.build()).terminology
    for terminology in (both, merge([first.build(), second.build()])):
        assert terminology.retired["id"].to_list() == ["C3"]
        assert [row.id_status for row in check_labels(terminology, [("C2", "b")])] == ["current"]
