"""Relations between concepts: read if a reader is asked for them, kept by what changes a terminology."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rrf_files import atom, rrf_line, write_release

from spacy_sapbert.terminology import Terminology, TerminologyBuilder, merge, read_rrf
from spacy_sapbert.terminology.edits import add_terminology, collect_names, remove_concepts
from spacy_sapbert.terminology.frames import RELATION_SCHEMA
from spacy_sapbert.terminology.names import sort_relations
from spacy_sapbert.terminology.rows import Table, make_table
from spacy_sapbert.terminology.schemas import RELATIONS

IDS = ("C1", "C2", "C3", "C4")
triples = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["has_part", "form_of"]), st.integers(0, 3)))


def build(rows, ids=IDS):
    builder = TerminologyBuilder()
    for id_ in ids:
        builder.add_name(id_, f"name of {id_}")
    plain = builder.build()
    relations = sort_relations(pl.DataFrame(rows, RELATION_SCHEMA, orient="row"))
    tables = {"retired": plain.retired, "relations": Table.from_polars(relations, RELATIONS)}
    return Terminology(plain.concepts, plain.names, **tables)


def list_triples(terminology):
    ids = terminology.concepts["id"]
    return [(ids[head], label, ids[tail]) for head, label, tail in terminology.relations.rows()]


def by_id(rows):
    return sorted({(IDS[head], label, IDS[tail]) for head, label, tail in rows if head != tail})


RELEASE = {
    "MRCONSO": [atom(id_, f"name of {id_}") for id_ in IDS],
    "MRREL": [
        rrf_line("MRREL", CUI1="C1", CUI2="C2", RELA="tradename_of"),
        rrf_line("MRREL", CUI1="C2", CUI2="C1", RELA="has_tradename"),
        rrf_line("MRREL", CUI1="C3", CUI2="C4", RELA="form_of"),
        rrf_line("MRREL", CUI1="C3", CUI2="C4", RELA="form_of"),
        rrf_line("MRREL", CUI1="C3", CUI2="C3", RELA="form_of"),
    ],
}


def test_a_release_is_read_with_the_relations_asked_for(tmp_path):
    folder = write_release(tmp_path / "release", **RELEASE)
    plain = read_rrf(folder)
    read = read_rrf(folder, relations=["tradename_of", "form_of"])
    assert not plain.relations.height
    assert list_triples(read) == [("C2", "tradename_of", "C1"), ("C4", "form_of", "C3")]
    # All else is the same.
    assert read.names.equals(plain.names) and read.concepts.equals(plain.concepts)
    assert read.fingerprint != plain.fingerprint and read != plain


def test_a_relation_that_a_release_lacks_is_refused(tmp_path):
    folder = write_release(tmp_path, **RELEASE)
    with pytest.raises(ValueError, match=r"names no RELA 'form'\. Those it has are: form_of, has_tradename, tradename"):
        read_rrf(folder, relations=["form"])
    with pytest.warns(UserWarning, match="The rest is read without them"):
        read_rrf(folder, relations=["form", "form_of"])


def test_a_terminology_without_relations_has_no_file_of_them(tmp_path):
    build([(0, "has_part", 1)]).to_disk(tmp_path)
    assert (tmp_path / "relations.bin").is_file()
    plain = build([])
    plain.to_disk(tmp_path)
    assert not (tmp_path / "relations.bin").exists()
    assert Terminology.from_disk(tmp_path) == plain


@settings(max_examples=20)
@given(triples)
def test_saving_keeps_relations(tmp_path, rows):
    terminology = build(rows)
    terminology.to_disk(tmp_path / "saved")
    for other in (Terminology.from_disk(tmp_path / "saved"), Terminology.from_bytes(terminology.to_bytes())):
        assert other == terminology and other.fingerprint == terminology.fingerprint
        assert other.relations.equals(terminology.relations)


def test_relations_of_concepts_that_are_not_there_are_refused():
    plain = build([])
    for rows in ([(0, "a", 4)], [(4, "a", 0)], [(1, "a", 0), (0, "a", 1)]):
        columns = dict(zip(RELATIONS, zip(*rows, strict=True), strict=True))
        relations = make_table(RELATIONS, columns)
        with pytest.raises(ValueError, match="relations are not sorted by the row of the head, or a concept is"):
            Terminology(plain.concepts, plain.names, relations=relations)


@settings(max_examples=30)
@given(triples, triples)
def test_merging_and_editing_keep_relations(rows, others):
    one, other = build(rows), build(others)
    assert list_triples(merge([one, other])) == by_id(rows + others)
    assert list_triples(add_terminology(one, other).terminology) == by_id(rows + others)
    # Rows change with a concept before all others.
    added = add_terminology(one, collect_names([("A1", "a name")])).terminology
    assert list_triples(added) == by_id(rows)
    left = remove_concepts(added, ["C2"]).terminology
    assert list_triples(left) == [row for row in by_id(rows) if "C2" not in row]
