"""Merging terminologies: which concepts become one, which do not, and what is left of each."""

import functools
import itertools

import pytest
from case_tables import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.terminology import Concept, Terminology, TerminologyBuilder, merge
from spacy_sapbert.terminology.codes import is_cui, make_key
from spacy_sapbert.terminology.edits import add_terminology


def make(source: str, concepts: dict[str, list[str]], **names: str) -> Terminology:
    """Make a terminology of one source from ids and their codes."""
    builder = TerminologyBuilder()
    for concept_id, codes in concepts.items():
        builder.add_concept(concept_id, codes=codes)
        builder.add_name(concept_id, names.get(concept_id, f"{source} {concept_id}"), source=source)
    return builder.build()


def ids(terminology: Terminology) -> list[str]:
    return terminology.concepts["id"].to_list()


def test_joined_concepts_have_what_all_of_them_had():
    first, second = TerminologyBuilder(), TerminologyBuilder()
    first.add_concept("MONDO:1", types=["T1"], codes=["MESH:D1", "DOID:1"], parents=["MONDO:2"], canonical_name="A")
    first.add_name("MONDO:1", "a", source="MONDO", term_type="name")
    first.add_name("MONDO:1", "b", source="MONDO", preferred=True)
    first.add_name("MONDO:2", "root", source="MONDO")
    second.add_concept(
        "DOID:1", types=["T2", "T1"], codes=["MESH:D1", "ICD10:X"], parents=["DOID:2"], definition="Second."
    )
    second.add_name("DOID:1", "c", source="DOID")
    second.add_name("DOID:1", "a", source="DOID", preferred=True, term_type="other")
    second.add_name("DOID:2", "root", source="DOID")
    second.add_concept("DOID:2", codes=["MONDO:2"])
    merged = merge([first.build(), second.build()])
    assert ids(merged) == ["MONDO:1", "MONDO:2"]
    assert merged["MONDO:1"] == Concept(
        id="MONDO:1",
        canonical_name="A",
        names=("a", "b", "c"),
        types=("T1", "T2"),
        definition="Second.",
        codes=("DOID:1", "MESH:D1", "ICD10:X"),
        parents=("MONDO:2",),
    )
    assert merged.names_of(0).select("source", "term_type", "preferred").rows() == [
        ("MONDO|DOID", "name", True),
        ("MONDO", "", True),
        ("DOID", "", False),
    ]
    report = merged.report
    assert [part["concepts"] for part in report["merged_from"]] == [2, 2]
    assert report["links"] == {"used": 2, "used_by_name": 0, "refused": {}, "refused_examples": {}}
    assert report["kept"] == {"concepts": 2, "names": 4}
    assert report["dropped"] == {"self_parents": 0, "duplicate_names": 2}


@pytest.mark.parametrize(
    "given, kept",
    [
        (["RELATED", "EXACT"], "EXACT"),
        (["NARROW", "RELATED layperson"], "NARROW"),
        (["BROAD", "", "EXACT"], ""),
        (["SY", "RELATED"], "SY"),
        (["RELATEDNESS", "EXACT"], "RELATEDNESS"),
    ],
)
def test_a_name_has_the_first_term_type_that_is_no_lesser_scope(given, kept):
    def build(*term_types):
        builder = TerminologyBuilder()
        for term_type in term_types:
            builder.add_name("C1", "one", term_type=term_type)
        return builder.build()

    first, *others = map(build, given)
    added = functools.reduce(lambda terminology, other: add_terminology(terminology, other).terminology, others, first)
    for terminology in (build(*given), merge([first, *others]), added):
        assert terminology.names["term_type"].to_list() == [kept]


def test_ids_that_are_equal_are_one_concept_and_a_cui_is_the_id():
    mondo = make("mondo", {"MONDO:1": ["UMLS:C0000001"], "C0000002": ["MONDO:2"], "MONDO:3": ["MESH:D3"]})
    doid = make("doid", {"DOID:1": ["MONDO:1"], "C0000002": ["DOID:2", "UMLS:C0000009"], "DOID:3": []})
    mesh = make("MSH", {"C0000001": [], "C0000003": ["MSH:D3"]})
    merged = merge([mondo, doid, mesh])
    assert ids(merged) == ["C0000001", "C0000002", "C0000003", "DOID:3"]
    assert merged["C0000001"].codes == ("MONDO:1", "DOID:1"), "not the code of its own CUI"
    assert merged["C0000002"].codes == ("MONDO:2", "DOID:2", "UMLS:C0000009")
    assert merged["C0000003"].codes == ("MONDO:3", "MESH:D3", "MSH:D3")
    assert merged.report["concepts_with_equal_ids"] == 1 and merged.report["links"]["used"] == 3
    assert merge([mondo, doid, mesh], cross_references=False).report["links"]["used"] == 0
    assert len(merge([mondo, doid, mesh], cross_references=False)) == 7


@cases("links_refused")
def test_links_that_are_not_one_to_one_are_refused(one, other, reason):
    merged = merge([make("A", one), make("B", other)])
    if reason is None:
        assert len(merged) < len(one) + len(other) and merged.report["links"]["refused"] == {}
        return
    assert ids(merged) == sorted({**one, **other})
    assert merged.report["links"]["used"] == 0
    examples = merged.report["links"]["refused_examples"][reason]
    assert merged.report["links"]["refused"] == {reason: len(examples)}
    assert len(examples) == sum(map(len, one.values())) if reason == "pointed_to_by_several" else 1
    assert all(part in examples[0] for part in (min(one), min(other)))


def test_chains_do_not_bring_two_ids_of_a_source_together():
    a = make("A", {"A:1": ["B:1"], "A:2": ["C:1"]})
    b = make("B", {"B:1": ["C:1"]})
    c = make("C", {"C:1": []})
    merged = merge([a, b, c])
    assert ids(merged) == ["A:1", "A:2"], "links of the first terminologies come first"
    assert merged["A:1"].codes == ("B:1", "C:1") and merged["A:2"].codes == ("C:1",)
    assert merged.report["links"]["used"] == 2
    assert merged.report["links"]["refused_examples"] == {"would_join_two_ids_of_a_source": ["B:1 - C:1"]}
    assert ids(merge([make("A", {"A:1": ["B:1", "C:1"]}), b, c])) == ["A:1"], "links may go around"


def make_named(source: str, concepts: dict[str, tuple[str, list[str]]]) -> Terminology:
    return make(source, {i: codes for i, (_, codes) in concepts.items()}, **{i: n for i, (n, _) in concepts.items()})


SEIZURE = {"HP:1": ("seizures", ["UMLS:C0014544", "UMLS:C0036572"])}
EPILEPSY, SEIZURES = {"C0014544": ("Epilepsy", [])}, {"C0036572": ("Seizures", [])}


def make_terms(other: str) -> dict[str, tuple[str, list[str]]]:
    return {"HP:1": ("Hypospadias", ["UMLS:C1691215"]), "HP:2": (other, ["UMLS:C1691215"])}


@pytest.mark.parametrize(
    "terms, umls, joined, alone, refused",
    [
        (SEIZURE, EPILEPSY | SEIZURES, {"C0036572": "HP:1"}, ["C0014544"], {}),
        (SEIZURE, SEIZURES, {"C0036572": "HP:1"}, [], {}),
        # That the others are missing is no reason.
        (SEIZURE, EPILEPSY, {}, ["C0014544", "HP:1"], {"one_of_several_cuis": 1}),
        (
            *(make_terms("Penile hypospadias"), {"C1691215": ("penile hypospadias", [])}),
            *({"C1691215": "HP:2"}, ["HP:1"], {"pointed_to_by_several": 1}),
        ),
        # Both have its name.
        (
            *(make_terms("hypospadias"), {"C1691215": ("Hypospadias", [])}),
            *({}, ["C1691215", "HP:1", "HP:2"], {"pointed_to_by_several": 2}),
        ),
    ],
)
def test_of_several_references_by_cui_the_one_with_the_same_name_counts(terms, umls, joined, alone, refused):
    merged = merge([make_named("HP", terms), make_named("UMLS", umls)])
    assert ids(merged) == sorted([*joined, *alone])
    assert {id_: merged[id_].codes[0] for id_ in joined} == joined
    links = merged.report["links"]
    assert links["used"] == links["used_by_name"] == len(joined) and links["refused"] == refused


def test_single_terminology_and_none():
    one = make("A", {"A:1": ["B:1"]})
    assert merge([one]) == one
    with pytest.raises(ValueError, match="nothing to merge"):
        merge([])
    for wrong, message in (
        ("ab", "item 0 is 'a'"),
        ([one, None], "item 1 is None"),
        (one, "Terminology"),
        (None, "None"),
    ):
        with pytest.raises(TypeError, match=message):
            merge(wrong)


@pytest.mark.parametrize(
    "key, codes",
    [
        (("MSH", "D1"), ["MESH:D1", "msh:D1"]),
        (("HP", "0000001"), ["HPO:HP:0000001", "HP:0000001"]),
        (("ORPHANET", "1"), ["Orphanet:1"]),
        (("UMLS", "C0000001"), ["UMLS_CUI:C0000001", "C0000001"]),
        (("GO", "X:1"), ["GO:X:1"]),
        (None, ["plain", ":1", "A:"]),
    ],
)
def test_equal_codes_have_equal_keys(key, codes):
    assert [make_key(code) for code in codes] == [key] * len(codes)


pairs = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(st.sets(pairs, max_size=6), st.sets(pairs, max_size=6))
def test_two_terminologies_are_joined_as_a_plain_loop_says(forth, back):
    def one_to_one(pointers):
        starts, ends = [a for a, _ in pointers], [b for _, b in pointers]
        return {(a, b) for a, b in pointers if starts.count(a) == 1 and ends.count(b) == 1}

    a = make("A", {f"A:{i}": [f"B:{k}" for j, k in sorted(forth) if j == i] for i in range(1, 5)})
    b = make("B", {f"B:{i}": [f"A:{k}" for j, k in sorted(back) if j == i] for i in range(1, 5)})
    links = one_to_one(forth), {(b, a) for a, b in one_to_one(back)}
    expected: set[tuple[int, int]] = set()
    for pair in [*sorted(links[0] & links[1]), *sorted(links[0] ^ links[1])]:
        if pair[0] not in dict(expected) and pair[1] not in {end for _, end in expected}:
            expected.add(pair)
    merged = merge([a, b])
    joined = [merged.concept(row).names for row in range(len(merged))]
    assert {(int(x[-1]), int(y[-1])) for x, y in (names for names in joined if len(names) == 2)} == expected
    assert merged.report["links"]["used"] == len(expected)


small_ids = st.integers(1, 4)
tables = st.lists(
    st.dictionaries(
        small_ids.map(lambda n: f"#:{n}") | small_ids.map(lambda n: f"C000000{n}"),
        st.lists(st.tuples(st.sampled_from("ABC"), small_ids).map(lambda pair: f"{pair[0]}:{pair[1]}"), max_size=2)
        | st.lists(small_ids.map(lambda n: f"UMLS:C000000{n}"), max_size=1),
        min_size=1,
        max_size=5,
    ),
    min_size=3,
    max_size=3,
)


@settings(max_examples=15)
@given(tables, st.randoms(use_true_random=False))
def test_whatever_the_links_no_source_loses_an_id_to_another(tables, random):
    named = [{i.replace("#", s): codes for i, codes in t.items()} for s, t in zip("ABC", tables, strict=True)]
    inputs = [make(source, table) for source, table in zip("ABC", named, strict=True)]
    merged = merge(inputs)
    assert set(ids(merged)) <= set(itertools.chain(*named))
    for concept in map(merged.concept, range(len(merged))):
        # Each input named its concepts by their ids, so names tell which concepts came together.
        members = [name.split(" ") for name in concept.names]
        assert len({source for source, _ in members}) == len(members), "two concepts of one terminology"
        assert len({i for _, i in members if is_cui(i)}) <= 1, "two CUIs"
        assert is_cui(concept.id) or not any(is_cui(i) for _, i in members)
        assert {i for _, i in members} - {concept.id} <= set(concept.codes)
    assert merged.n_names == sum(map(len, named)), "nothing is lost"
    shuffled = [dict(random.sample(sorted(table.items()), len(table))) for table in named]
    assert merge([make(source, table) for source, table in zip("ABC", shuffled, strict=True)]) == merged
