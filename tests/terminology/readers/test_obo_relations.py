"""Relations of an ontology: which lines are read, and how they stand in MRREL."""

import pytest
from rrf_files import rrf_line

from spacy_sapbert.terminology import TerminologyBuilder, read_obo, read_obo_relations, read_rrf
from training.data.triples import read_triples, write_triples
from training.release.rrf import Relation, write_rrf

ONTOLOGY = """\
format-version: 1.2
ontology: toy

[Term]
id: T:1
name: toe
relationship: part_of T:2 {source="x"} ! foot
relationship: RO:0002202 T:3
is_a: T:3

[Term]
id: T:2
name: foot
relationship: part_of U:9

[Term]
id: T:4
name: gone
relationship: part_of T:2
is_obsolete: true

[Term]
id: T:5
relationship: part_of T:2

[Typedef]
id: part_of
name: part of

[Term]
id: T:3
name: part
"""


@pytest.mark.filterwarnings("ignore:.*malformed records were skipped")
def test_relations_are_read(tmp_path):
    (tmp_path / "toy.obo").write_text(ONTOLOGY)
    assert list(read_obo_relations(tmp_path / "toy.obo")) == [
        ("T:1", "part_of", "T:2"),
        ("T:1", "RO:0002202", "T:3"),
        ("T:2", "part_of", "U:9"),
    ]
    # Those of terms that `read_obo` leaves out are left out.
    kept = read_obo(tmp_path / "toy.obo", errors="skip").concepts["id"].to_list()
    assert {relation.head for relation in read_obo_relations(tmp_path / "toy.obo")} <= set(kept)


def test_ids_are_those_of_the_terminology(tmp_path):
    path = tmp_path / "toy.obo"
    lines = ["format-version: 1.2", ""]
    for number, more in ((1, "\nrelationship: part_of T:2"), (2, ""), (2, "\nrelationship: part_of T:1"), (3, "")):
        lines.append(f"[Term]\nid: T:{number}\nname: n {number}\nxref: UMLS:C000000{number}{more}\n")
    path.write_text("\n".join(lines))
    with pytest.warns(UserWarning, match="malformed records were skipped"):
        concepts = read_obo(path, id_prefix="UMLS", errors="skip").concepts["id"].to_list()
    relations = read_obo_relations(path, id_prefix="UMLS")
    # The second definition of a term counts no more than in `read_obo`.
    assert relations == [("C0000001", "part_of", "C0000002")] and {"C0000001", "C0000002"} <= set(concepts)
    path.write_text('<?xml version="1.0"?>\n<rdf:RDF>\n')
    with pytest.raises(ValueError, match="is not in OBO format"):
        read_obo_relations(path)


def build():
    builder = TerminologyBuilder()
    for id_, parents in (("C1", ["C3"]), ("C2", []), ("C3", [])):
        builder.add_name(id_, f"name of {id_}", source="TOY", language="ENG")
        builder.add_concept(id_, parents=parents)
    return builder.build()


@pytest.mark.filterwarnings("ignore:.*about concepts that MRCONSO does not have")
def test_relations_become_triples(tmp_path):
    relations = [
        Relation("C1", "part_of", "C2", "TOY"),
        Relation("C1", "part_of", "C2", "TOY"),
        Relation("C2", "part_of", "C2", "TOY"),
        Relation("C2", "part_of", "C9", "TOY"),
        Relation("C9", "part_of", "C1", "TOY"),
    ]
    report = write_rrf(build(), tmp_path / "rrf", relations=iter(relations))
    assert report["dangling_relations"] == 2 and report["rows"]["MRREL"] == 3
    lines = (tmp_path / "rrf" / "MRREL.RRF").read_text().splitlines()
    fields = {"CUI1": "C2", "STYPE1": "CUI", "REL": "RO", "CUI2": "C1", "STYPE2": "CUI", "RELA": "part_of"}
    assert lines[2] == rrf_line("MRREL", **fields, RUI="R00000003", SAB="TOY", SL="TOY")
    terminology = read_rrf(tmp_path / "rrf", tradenames="off")
    assert terminology["C1"].parents == ("C3",)
    write_triples(tmp_path / "rrf", terminology, tmp_path / "triples")
    assert ("C1", "RO part_of", "C2") in read_triples(tmp_path / "triples").decode().rows()


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
