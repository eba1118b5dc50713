"""What the builder keeps, merges, drops and refuses."""

import pytest

from spacy_sapbert.terminology import Concept, TerminologyBuilder
from spacy_sapbert.terminology.table import summarize


def test_concept_has_everything_that_was_added():
    builder = TerminologyBuilder()
    builder.add_concept("C1", types=["T047"], codes=["HP:1"], parents=["C2"], definition=" A disease. ")
    builder.add_concept("C1", types=["T046", "T047"], codes=["MSH:D1"], definition="Another.")
    builder.add_name("C1", " second  choice ", source="HPO", term_type="EXACT")
    builder.add_name("C1", "first choice", preferred=True, language="GER")
    terminology = builder.build()
    assert terminology["C1"] == Concept(
        id="C1",
        canonical_name="first choice",
        names=("second choice", "first choice"),
        types=("T047", "T046"),
        definition="A disease.",
        codes=("HP:1", "MSH:D1"),
        parents=("C2",),
    )
    rows = terminology.names_of(0).rows()
    assert rows[0] == ("second choice", 0, "ENG", "HPO", "EXACT", False)
    assert rows[1] == ("first choice", 0, "GER", "", "", True)


def test_canonical_name_is_explicit_or_preferred_or_first():
    builder = TerminologyBuilder()
    for concept_id in ("explicit", "preferred", "first"):
        builder.add_name(concept_id, "a")
        builder.add_name(concept_id, "b", preferred=concept_id != "first")
    builder.add_concept("explicit", canonical_name="c")
    builder.add_concept("explicit", canonical_name="d")
    terminology = builder.build()
    found = {i: terminology[i].canonical_name for i in ("explicit", "preferred", "first")}
    assert found == {"explicit": "c", "preferred": "b", "first": "a"}


def test_what_is_dropped_is_counted():
    builder = TerminologyBuilder()
    builder.add_name("C1", "a")
    builder.add_name("C1", "a", source="other", preferred=True)
    builder.add_name("C1", "a", language="GER")
    builder.add_name("C1", " \t")
    builder.add_name("C2", "")
    builder.add_concept("C3", types=["T1"])
    builder.add_concept("C1", parents=["C1", "C2", "C9"])
    terminology = builder.build({"read": {"rows": 7}, "dropped": {"obsolete": 4}})
    assert terminology.report == {
        "read": {"rows": 7},
        "dropped": {
            "obsolete": 4,
            "empty_names": 2,
            "duplicate_names": 1,
            "concepts_without_names": 2,
            "self_parents": 1,
        },
        "kept": {"concepts": 1, "names": 2},
        "normalized_names": 0,
        "dangling_parents": 2,
    }
    assert terminology["C1"].parents == ("C2", "C9")
    assert terminology.names["preferred"].to_list() == [True, False], "a source that prefers a name counts"


@pytest.mark.parametrize("concept_id", ["", "C 1", "C1\n", "C\u20281", "C\u00a01", "C\x001", "C\x851"])
def test_unusable_ids_are_refused(concept_id):
    builder = TerminologyBuilder()
    with pytest.raises(ValueError, match="as the id of a concept"):
        builder.add_name(concept_id, "a")
    with pytest.raises(ValueError, match="as the id of a concept"):
        builder.add_concept(concept_id)
    with pytest.raises(ValueError, match="The terminology is empty"):
        builder.build()


@pytest.mark.parametrize("wrong", [None, 5, 0.5, float("nan"), b"C1", ["C1"], "broken_\ud83d"])
def test_values_that_are_no_strings_are_refused(wrong):
    builder = TerminologyBuilder()
    concepts = [{"types": [wrong]}, {"codes": [wrong]}, {"parents": [wrong]}]
    concepts += [{"types": "T047"}, {"codes": "T047"}, {"parents": "T047"}]
    if wrong is not None:
        concepts += [{"canonical_name": wrong}, {"definition": wrong}]
    for fields in concepts:
        with pytest.raises(ValueError, match="as a text"):
            builder.add_concept("C1", **fields)
    for fields in ({"name": wrong}, *({"name": "a", label: wrong} for label in ("language", "source", "term_type"))):
        with pytest.raises(ValueError, match="as a text"):
            builder.add_name("C1", **fields)
    for add in (builder.add_concept, lambda concept_id: builder.add_name(concept_id, "a")):
        with pytest.raises(ValueError, match="as the id of a concept.*not a string|as a text"):
            add(wrong)
    assert "C1" not in builder, "a refused record leaves nothing behind"


def test_names_are_normalized_and_counted():
    builder = TerminologyBuilder()
    builder.add_concept("C1", canonical_name="hyper\u00adtension")
    for name in (" hypertension ", "hyper\u00adtension", "\u200bhypertension", "\u200b", "Erka\u0308ltung", "\x00"):
        builder.add_name("C1", name)
    terminology = builder.build()
    assert terminology["C1"].names == ("hypertension", "Erkältung")
    assert terminology["C1"].canonical_name == "hypertension"
    report = terminology.report
    assert report["normalized_names"] == 5
    assert report["dropped"]["empty_names"] == 2 and report["dropped"]["duplicate_names"] == 2
    assert "; 5 names normalized; dropped: 2 empty names, 2 duplicate names" in summarize(terminology)


def test_empty_terminology_is_an_error_that_names_the_files():
    builder = TerminologyBuilder()
    builder.add_concept("C1")
    with pytest.raises(ValueError, match=r"The terminology is empty: wrong\.tsv.*'concepts_without_names': 1"):
        builder.build({"files": [{"name": "wrong.tsv"}]})
