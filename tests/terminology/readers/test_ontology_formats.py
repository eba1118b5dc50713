"""One ontology in OBO, obographs JSON, RDF/XML and functional syntax is one terminology."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ontology_files import WRITERS, Term

from spacy_sapbert.terminology import read_obo, read_obographs, read_owl
from spacy_sapbert.terminology.readers.obographs import make_obographs_reader
from spacy_sapbert.terminology.readers.owl import make_owl_reader
from spacy_sapbert.terminology.readers.terms import name_ontology, name_version, to_curie

READERS = {"obo": read_obo, "json": read_obographs, "ofn": read_owl, "owl": read_owl}
TERMS = [
    Term(
        "T:1",
        "foot",
        'The "end" of a leg <or arm> & more.',
        synonyms=[("Pes", "EXACT", None), ("paw", "RELATED", "layperson"), ("Extremity", "BROAD", None)],
        xrefs=["UMLS:C0016504", "MESH:D005528"],
        alt_ids=["T:7", "T:5"],
        parents=["T:3", "T:9"],
    ),
    Term("T:2", "toe", parents=["T:1", "T:8"], xrefs=["UMLS:C0040357"]),
    Term("T:3", "limb (whole)", synonyms=[("Membrum", "EXACT", "latin"), ("arm", "NARROW", None)]),
    Term("T:4", "obsolete claw", obsolete=True, replaced_by=["T:2"]),
    Term("T:6", obsolete=True, consider=["T:2", "T:1"]),
    # A term without a name is nobody's parent.
    Term("T:8", parents=["T:1"]),
]


def read_all(folder, terms, **settings):
    """Read an ontology in each of its forms."""
    read = {}
    for suffix, write in WRITERS.items():
        (path := folder / f"toy.{suffix}").write_text(write(terms), encoding="utf8")
        if READERS[suffix] is read_owl:
            pytest.importorskip("pyhornedowl")
        read[suffix] = READERS[suffix](path, **settings)
    return read


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("id_prefix", [None, "UMLS"])
def test_an_ontology_in_any_form_is_the_same_terminology(tmp_path, id_prefix):
    scopes = ["EXACT", "BROAD", "RELATED"]
    read = read_all(tmp_path, TERMS, id_prefix=id_prefix, synonym_scopes=scopes)
    obo = read["obo"]
    foot = obo["C0016504" if id_prefix else "T:1"]
    assert foot.names == ("foot", "Extremity", "paw", "Pes") and foot.parents == ("T:3", "T:9")
    for terminology in read.values():
        assert terminology == obo
        report = terminology.report
        assert report["source_version"] == "toy/releases/2025-01-16"
        assert report["dropped"] == obo.report["dropped"] and report.get("ids") == obo.report.get("ids")
        assert report["read"]["terms"] == 6 and report["dangling_parents"] == 1
        assert terminology["T:4"].id == terminology["T:2" if not id_prefix else "C0040357"].id
        assert set(terminology.names["source"]) == {"toy"}
    assert read["json"].report["read"] == read["ofn"].report["read"] == {"terms": 6, "other_entities": 1}


IDS = [f"T:{number}" for number in range(1, 7)]
# Without what OBO would need escapes for, outside of quotes.
NAMES = st.text("abXY 09()-,.;:<>&'/é", min_size=1, max_size=8).map(lambda text: f"a{text.strip()}")
TEXTS = st.text("abXY 09()[]-,.;:<>&'/é\"\\{}", min_size=1, max_size=8).map(lambda text: f"a{text.strip()}z")
SYNONYMS = st.tuples(
    TEXTS, st.sampled_from(["EXACT", "BROAD", "NARROW", "RELATED"]), st.sampled_from([None, "plural", "lay_person"])
)
LISTS = {"parents": IDS, "alt_ids": ["T:11", "T:12"], "replaced_by": IDS, "consider": IDS}
CODES = ["UMLS:C0000001", "UMLS:C0000002", "MESH:D1", "x:y", "https://x.y/a_1#b"]


@st.composite
def ontologies(draw):
    terms = []
    for id_ in draw(st.lists(st.sampled_from(IDS), min_size=1, unique=True)):
        lists = {kind: draw(st.lists(st.sampled_from(ids), max_size=2, unique=True)) for kind, ids in LISTS.items()}
        term = Term(id_, draw(NAMES | st.just("")), draw(TEXTS | st.just("")), **lists)
        # One statement a text: in RDF/XML, two annotations of equal statements are those of both.
        term.synonyms = draw(st.lists(SYNONYMS, max_size=3, unique_by=lambda synonym: synonym[0].lower()))
        term.xrefs = draw(st.lists(st.sampled_from(CODES), max_size=3, unique=True))
        term.obsolete = draw(st.booleans())
        terms.append(term)
    # In the order of OBO files. One at least is a concept.
    return [*sorted(terms, key=lambda term: term.id), Term("T:90", "last", xrefs=["UMLS:C0000009"])]


@given(ontologies(), st.sampled_from([None, "UMLS"]))
def test_any_ontology_is_the_same_terminology_in_any_form(tmp_path, terms, id_prefix):
    obo, *others = read_all(tmp_path, terms, id_prefix=id_prefix).values()
    for terminology in others:
        assert terminology == obo and terminology.report["dropped"] == obo.report["dropped"]


@pytest.mark.parametrize("suffix", ["json", "ofn", "owl"])
def test_files_may_be_gzipped_and_begin_with_a_byte_order_mark(tmp_path, suffix):
    if suffix != "json":
        pytest.importorskip("pyhornedowl")
    data = WRITERS[suffix](TERMS).encode()
    for name, content in (("a", data), ("b", gzip.compress(data)), ("c", b"\xef\xbb\xbf" + data)):
        (path := tmp_path / f"{name}.{suffix}").write_bytes(content)
        assert READERS[suffix](path)["T:1"].canonical_name == "foot"


def test_readers_are_made_in_configs(tmp_path):
    (path := tmp_path / "toy.json").write_text(WRITERS["json"](TERMS))
    assert len(make_obographs_reader(str(path), language="GER")()) == 3
    with pytest.raises(ValueError, match="'CLOSE'"):
        make_obographs_reader("toy.json", synonym_scopes=["CLOSE"])
    with pytest.raises(ValueError, match="There is no such setting. Did you mean source"):
        make_owl_reader("toy.owl", sourc="HPO")


@pytest.mark.parametrize(
    "iri, curie",
    [
        ("http://purl.obolibrary.org/obo/HP_0001250", "HP:0001250"),
        ("http://purl.obolibrary.org/obo/NCBITaxon_Union_0000030", "NCBITaxon_Union:0000030"),
        ("http://purl.obolibrary.org/obo/hp#layperson", "layperson"),
        ("http://purl.obolibrary.org/obo/ubprop#_upper_level", "ubprop:upper_level"),
        ("http://www.ebi.ac.uk/efo/EFO_0000001", "EFO:0000001"),
        ("http://purl.obolibrary.org/obo/X_a%20b", "X:a b"),
        ("http://www.w3.org/2002/07/owl#Thing", "owl:Thing"),
        ("http://identifiers.org/hgnc/10001", "http://identifiers.org/hgnc/10001"),
        ("http://x.y/valid_for_gocam", "http://x.y/valid_for_gocam"),
        ("http://x.y/", "http://x.y/"),
        ("http://x.y/a#", "http://x.y/a#"),
        ("HP:0001250", "HP:0001250"),
        ("A_B:C_1", "A_B:C_1"),
    ],
)
def test_iris_are_written_as_in_obo(iri, curie):
    assert to_curie(iri) == curie


def test_ontologies_and_versions_are_named_as_in_obo():
    for iri, name in (("hp.owl", "hp"), ("hp/hp-base.json", "hp/hp-base"), ("hp.obo.owl", "hp")):
        assert name_ontology(f"http://purl.obolibrary.org/obo/{iri}") == name
    assert name_ontology("http://www.ebi.ac.uk/efo/efo.owl") == "http://www.ebi.ac.uk/efo/efo.owl"
    assert name_version("http://purl.obolibrary.org/obo/hp/releases/2025-01-16/hp.json") == "hp/releases/2025-01-16"
    assert name_version("2025") == "2025" and name_version("") is name_version(None) is None
