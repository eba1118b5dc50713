"""The reader of obographs JSON: what real files have in them, and files that are damaged or of another kind."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ontology_files import OIO, OWL, Term, make_graph, to_iri, write_obographs

from spacy_sapbert.terminology import read_obographs

TERMS = [Term("T:1", "foot", parents=["T:2"]), Term("T:2", "limb"), Term("T:3", "toe", parents=["T:1"])]


def write(path, *graphs):
    path.write_text(json.dumps({"graphs": graphs}))
    return path


def read_changed(folder, *, errors="raise", node=None, **changes):
    """Read three terms, of which the second has other values, or is another node."""
    graph = make_graph(TERMS)
    if node is not None:
        graph["nodes"][1] = node
    meta = changes.pop("meta", {})
    if changes or meta:
        graph["nodes"][1] |= changes
        graph["nodes"][1]["meta"] |= meta
    return read_obographs(write(folder / "toy.json", graph), errors=errors)


@pytest.mark.filterwarnings("error")
def test_what_is_no_term_is_counted_and_no_name_is_needed(tmp_path):
    graph = make_graph([*TERMS, Term("T:4")])
    graph["nodes"] += [
        {"id": to_iri("T:5"), "lbl": "Left foot of Ann", "type": "INDIVIDUAL"},
        {"id": f"{OWL}Thing", "type": "CLASS"},
        {"id": "T:6", "lbl": " a term without a type, by its short id "},
    ]
    graph["edges"].append({"sub": "T:6", "pred": "is_a", "obj": f"{OWL}Thing"})
    graph["edges"].append({"sub": to_iri("T:5"), "pred": "type", "obj": to_iri("T:1")})
    terminology = read_obographs(write(tmp_path / "toy.json", graph))
    assert terminology.concepts["id"].to_list() == ["T:1", "T:2", "T:3", "T:6"]
    assert terminology["T:6"].names == ("a term without a type, by its short id",) and terminology["T:6"].parents == ()
    assert terminology.report["read"] == {"terms": 5, "other_entities": 2}
    assert terminology.report["dropped"]["terms_without_a_name"] == 1


@pytest.mark.filterwarnings("error")
def test_terms_of_several_graphs_are_as_the_first_names_them(tmp_path):
    first, second = (
        make_graph([Term("T:1", "foot"), Term("T:2")]),
        make_graph([Term("T:1", "base"), Term("T:2", "leg")]),
    )
    second |= {"id": "http://purl.obolibrary.org/obo/uberon.owl", "meta": {"version": "other"}}
    second["edges"] = [{"sub": to_iri("T:1"), "pred": "is_a", "obj": to_iri("T:2")}]
    terminology = read_obographs(write(tmp_path / "toy.json", first, second, {"nodes": [{"id": "X:3", "lbl": "arm"}]}))
    assert terminology["T:1"].names == ("foot",) and terminology["T:1"].parents == ("T:2",)
    assert terminology["T:2"].names == ("leg",)
    assert terminology.names["source"].to_list() == ["toy", "uberon", "X"]
    assert terminology.report["dropped"]["repeated_terms"] == 1
    assert terminology.report["source_version"] == "toy/releases/2025-01-16"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "meta",
    [
        {"deprecated": True, "basicPropertyValues": [{"pred": f"{OIO}replacedBy", "val": "T:1"}]},
        {
            "basicPropertyValues": [
                {"pred": f"{OWL}deprecated", "val": "true"},
                {"pred": "http://purl.obolibrary.org/obo/IAO_0100001", "val": to_iri("T:1")},
            ]
        },
    ],
)
def test_a_term_may_be_deprecated_in_other_ways(tmp_path, meta):
    terminology = read_changed(tmp_path, meta=meta)
    assert terminology["T:2"].id == "T:1" and terminology.report["dropped"]["obsolete_terms"] == 1


# What a graph says of a term, the tag, and the reason why it is left out.
CLAUSES = [
    ({"synonyms": [{"pred": "hasExactSynonym"}]}, "synonyms", "val: Field required"),
    ({"synonyms": [{"pred": "hasExactSynonym", "val": 1}]}, "synonyms", "val: Input should be a valid string, not 1"),
    ({"synonyms": [{"pred": "hasCloseSynonym", "val": "arm"}]}, "synonyms", "'hasCloseSynonym' is not the scope"),
    ({"synonyms": ["arm"]}, "synonyms", "not 'arm'"),
    ({"synonyms": {"pred": "hasExactSynonym", "val": "arm"}}, "synonyms", "a list is needed"),
    ({"definition": "An arm."}, "definition", "not 'An arm.'"),
    ({"definition": {"val": None}}, "definition", "val: Input should be a valid string, not None"),
    ({"xrefs": [{"xrefs": ["MESH:D1"]}]}, "xrefs", "val: Field required"),
    ({"basicPropertyValues": [{"pred": f"{OIO}hasAlternativeId", "val": ["T:8"]}]}, "basicPropertyValues", "val: "),
]


@pytest.mark.parametrize("meta, tag, reason", CLAUSES)
def test_a_value_of_the_wrong_type_is_counted_and_nothing_else_is_lost(tmp_path, meta, tag, reason):
    good = [{"pred": "hasExactSynonym", "val": "Membrum"}]
    meta = (
        {"synonyms": good} | meta
        if isinstance(meta.get("synonyms", []), dict) or "synonyms" not in meta
        else {"synonyms": meta["synonyms"] + good}
    )
    with pytest.warns(
        UserWarning, match=rf"1 values are not valid.*{tag} \(1\).*toy.json:graphs\[0\].nodes\[1\]: {tag}"
    ):
        terminology = read_changed(tmp_path, meta=meta)
    assert terminology.concepts["id"].to_list() == ["T:1", "T:2", "T:3"] and terminology["T:1"].parents == ("T:2",)
    assert terminology["T:2"].names == ("limb", *(["Membrum"] if isinstance(meta["synonyms"], list) else []))
    (example,) = terminology.report["clause_examples"]
    assert reason in example and terminology.report["malformed_clauses"] == {tag: 1}


NODES = [
    ({"lbl": "limb"}, "id: Field required"),
    ({"id": 2, "lbl": "limb"}, "id: Input should be a valid string, not 2"),
    ({"id": "T:2", "lbl": ["limb"]}, "lbl: Input should be a valid string"),
    ({"id": "T:2", "lbl": "limb", "meta": "x"}, "meta: Input should be a valid dictionary"),
    ({"id": "T:2", "lbl": "limb", "type": 1}, "type: Input should be a valid string"),
    (
        {"id": "T:2", "lbl": "limb", "meta": {"deprecated": "true"}},
        "meta.deprecated: true or false is needed, not 'true'",
    ),
    ({"id": "T 2", "lbl": "limb"}, "as the id of a concept"),
    ({"id": "", "lbl": "limb"}, "as the id of a concept"),
    ({"id": "T:1", "lbl": "again"}, r"the term 'T:1' is defined at graphs[0].nodes[0] already"),
    ("T:2", "Input should be"),
]


@pytest.mark.parametrize("node, reason", NODES)
def test_malformed_terms_are_refused_with_their_place_or_counted(tmp_path, node, reason):
    with pytest.raises(ValueError, match=r"toy.json, graphs\[0\].nodes\[1\]: .*Correct it, or set errors") as caught:
        read_changed(tmp_path, node=node)
    assert reason in str(caught.value)
    with pytest.warns(UserWarning, match="1 malformed records"):
        terminology = read_changed(tmp_path, node=node, errors="skip")
    assert terminology.concepts["id"].to_list() == ["T:1", "T:3"]
    (example,) = terminology.report["malformed_examples"]
    assert example.startswith("toy.json:graphs[0].nodes[1]: ") and reason in example


WHOLE = write_obographs(TERMS)


@pytest.mark.parametrize(
    "text, message",
    [
        (WHOLE[: len(WHOLE) // 2], r"is not valid JSON \(EOF while parsing .* at line \d+ column \d+\).*cut short"),
        (WHOLE + "}", "is not valid JSON .trailing characters at line"),
        ('{"graphs": ' + "[" * 100_000, r"is not valid JSON \(recursion limit exceeded at line 1"),
        ("", "is not valid JSON"),
        ("not found", "is not valid JSON"),
        (b'{"graphs": [{"id": "\xff"}]}', "is not valid JSON .invalid unicode code point at line 1"),
        ("[]", "is JSON, but not an ontology in obographs JSON.*robot convert"),
        ('{"resourceType": "CodeSystem"}', "is JSON, but not an ontology in obographs JSON"),
        ('{"graphs": {"nodes": []}}', "is JSON, but not an ontology in obographs JSON"),
        ('{"graphs": ["hp"]}', "is JSON, but not an ontology in obographs JSON"),
        ('{"graphs": []}', "The terminology is empty: toy.json gave no concept"),
        ('{"graphs": [{"nodes": {"T:1": "foot"}}]}', r"toy.json, graphs\[0\].nodes: a list is needed"),
        ("<!DOCTYPE html><html><p>Not found</p>", "looks like a web page.*Download the ontology again"),
        ("<?xml version='1.0'?>\n<rdf:RDF/>", "looks like an ontology in OWL.*read it with `read_owl`"),
        ("Prefix(:=<http://x.y/>)", "looks like an ontology in OWL.*read it with `read_owl`"),
        ("format-version: 1.2\n", "looks like an ontology in OBO format.*read it with `read_obo`"),
        ("@prefix : <http://x.y/> .", "Turtle.*robot convert"),
    ],
)
def test_files_that_are_damaged_or_of_another_kind_are_refused(tmp_path, text, message):
    (path := tmp_path / "toy.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    for errors in ("raise", "skip"):
        with pytest.raises(ValueError, match=message):
            read_obographs(path, errors=errors)


def test_an_edge_that_is_not_valid_is_counted(tmp_path):
    graph = make_graph(TERMS)
    graph["edges"] += [{"sub": to_iri("T:1"), "pred": "is_a"}, 7]
    with pytest.warns(UserWarning, match=r"2 values are not valid.*edges \(2\).*graphs\[0\]: edges: \[5\] obj: "):
        assert read_obographs(write(tmp_path / "toy.json", graph))["T:1"].parents == ("T:2",)


# Any JSON, with the keys of a node among its keys.
KEYS = st.sampled_from("id lbl type meta definition val synonyms pred xrefs basicPropertyValues deprecated".split())
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(["T:1", "T:9", "", "CLASS", "hasExactSynonym"])
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@pytest.mark.filterwarnings("ignore:.*values are not valid", "ignore:.*malformed records")
@given(st.fixed_dictionaries({"id": st.just("T:2")}, optional={"lbl": ANYTHING, "meta": ANYTHING}) | ANYTHING)
def test_no_node_costs_another_term(tmp_path, node):
    terminology = read_changed(tmp_path, node=node, errors="skip")
    assert {"T:3"} <= set(terminology.concepts["id"]) and terminology["T:3"].names == ("toe",)
    assert terminology["T:1"].names == ("foot",)
