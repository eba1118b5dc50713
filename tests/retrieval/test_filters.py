"""Filters against a loop over all names."""

import pytest
from found_rows import list_above
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.retrieval.filters import FilterTable
from spacy_sapbert.terminology import Terminology, TerminologyBuilder

TYPES = ["T1", "T2", "T3"]
SOURCES = ["A", "B", "AB", "A|B", "B|AB", ""]
LANGUAGES = ["ENG", "FRE"]
CODES = ["A:1", "A:2", "B:A:1", "AB:x", "C:"]

concepts = st.tuples(
    st.lists(st.sampled_from(TYPES), max_size=3),
    st.lists(st.sampled_from(CODES), max_size=3),
    st.lists(st.tuples(st.sampled_from(SOURCES), st.sampled_from(LANGUAGES)), min_size=1, max_size=4),
    st.sets(st.sampled_from(["C0", "C1", "C2", "C3", "C4", "GONE"]), max_size=2),
)
wanted = {
    "types": st.none() | st.sets(st.sampled_from(TYPES)),
    "label_types": st.none() | st.sets(st.sampled_from(TYPES)),
    "sources": st.none() | st.sets(st.sampled_from(["A", "B", "AB"])),
    "languages": st.none() | st.sets(st.sampled_from(LANGUAGES)),
    "ids": st.none() | st.sets(st.sampled_from(["C0", "C1", "C2"])),
    "below": st.none() | st.sets(st.sampled_from(["C0", "C1", "C2"])),
    "not_below": st.none() | st.sets(st.sampled_from(["C0", "C1", "C2"])),
    "coded_in": st.none() | st.sampled_from(["A", "B", "AB"]),
}


def build(rows):
    builder = TerminologyBuilder()
    for i, (types, codes, names, *parents) in enumerate(rows):
        parents = sorted(set().union(*parents) - {f"C{i}"})
        builder.add_concept(f"C{i}", types=types, codes=codes, parents=parents)
        for j, (source, language) in enumerate(names):
            builder.add_name(f"C{i}", f"name {i} {j}", source=source, language=language)
    return builder.build()


# Holds each value somewhere, so that no filter asks for what is unknown.
EVERYTHING = (TYPES, CODES, [(source, language) for source in SOURCES for language in LANGUAGES], {"C0", "C1"})


def naive_match(terminology: Terminology, allowed: ConceptFilter):
    matched = []
    for name in terminology.names.to_polars().iter_rows(named=True):
        concept = terminology.concept(name["concept"])
        has_code = any(code.split(":", 1)[0] == allowed.coded_in and code.split(":", 1)[1] for code in concept.codes)
        matched.append(
            (allowed.types is None or any(kind in allowed.types for kind in concept.types))
            and (allowed.label_types is None or any(kind in allowed.label_types for kind in concept.types))
            and (allowed.ids is None or concept.id in allowed.ids)
            and (allowed.below is None or not allowed.below.isdisjoint(list_above(terminology, concept.id)))
            and (allowed.not_below is None or allowed.not_below.isdisjoint(list_above(terminology, concept.id)))
            and (allowed.coded_in is None or has_code)
            and (allowed.sources is None or any(source in allowed.sources for source in name["source"].split("|")))
            and (allowed.languages is None or name["language"] in allowed.languages)
        )
    return matched


@settings(max_examples=60)
@given(st.lists(concepts, min_size=2, max_size=6), st.fixed_dictionaries(wanted))
def test_matching_equals_a_loop_over_all_names(rows, fields):
    terminology = build([EVERYTHING, *rows])
    allowed = ConceptFilter(**fields)
    found = FilterTable(terminology).match(allowed)
    assert found.dtype == bool and found.tolist() == naive_match(terminology, allowed)


def test_equal_filters_are_one_key_whatever_order_and_kind_of_list():
    assert len({ConceptFilter(types=["A", "B"]), ConceptFilter(types=("B", "A")), ConceptFilter(types={"A", "B"})}) == 1
    assert ConceptFilter(types=["A"]) != ConceptFilter(sources=["A"]) != ConceptFilter()
    assert ConceptFilter().is_open and not ConceptFilter(ids=[]).is_open


def test_of_many_values_only_some_are_named():
    for n_types, message in ((40, r"40 types: 'T00', .*'T09', \.\.\.\.$"), (0, r"0 types: none\.")):
        terminology = build([([f"T{i:02d}" for i in range(n_types)], [], [("A", "ENG")])])
        with pytest.raises(ValueError, match=message):
            FilterTable(terminology).match(ConceptFilter(types=["X"]))


def test_codes_of_one_source_come_without_it_and_those_of_all_as_stored():
    codes = ["MSH:D003920", "HPO:HP:0000001", "MSH:D9", "MSHX:1", "MSH:", "bare"]
    terminology = build([([], codes, [("A", "ENG")]), ([], [], [("A", "ENG")])])
    assert terminology.codes("C0") == tuple(codes) and terminology.codes("C1") == ()
    assert terminology.codes("C0", "MSH") == ("D003920", "D9")
    assert terminology.codes("C0", "HPO") == ("HP:0000001",)
    for source in ("msh", "HPO:HP", "", "bare", "ICD10"):
        assert terminology.codes("C0", source) == ()
    with pytest.raises(KeyError, match="No concept with the id"):
        terminology.codes("C9", "MSH")


@pytest.mark.parametrize("key", ["ids", "types", "sources", "languages", "label_types", "not_below"])
def test_filters_take_lists_of_strings_only(key):
    for value in ([None], ["C1", 5], "C1", [b"C1"]):
        with pytest.raises(ValueError, match=rf"{key}.*a list of strings"):
            ConceptFilter(**{key: value})
