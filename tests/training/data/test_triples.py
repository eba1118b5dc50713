"""Triples: direction, labels, and what is left out."""

import numpy as np
import polars as pl
import pytest
from rrf_files import atom, rrf_line, write_release

from spacy_sapbert.files import write_manifest
from spacy_sapbert.terminology import read_rrf
from spacy_sapbert.terminology.edits import remove_concepts
from training.data import triples as module
from training.data.triples import (
    TRIPLES_FILE,
    TRIPLES_MANIFEST,
    TripleKeys,
    hash_triples,
    index_triples,
    list_triple_concepts,
    read_triples,
    save_triples,
    write_triples,
)

RELATIONS = [
    # Aspirin may treat headache: concept 2 has the relation to concept 1.
    {"CUI1": "C2", "REL": "RO", "RELA": "may_treat", "CUI2": "C1"},
    {"CUI1": "C1", "REL": "RO", "RELA": "may_be_treated_by", "CUI2": "C2"},
    {"CUI1": "C2", "REL": "RO", "RELA": "may_treat", "CUI2": "C1", "SAB": "NCI"},
    {"CUI1": "C2", "REL": "PAR", "CUI2": "C3"},
    {"CUI1": "C2", "REL": "SY", "CUI2": "C2"},
    {"CUI1": "C2", "REL": "PAR", "CUI2": "C9"},
]


@pytest.fixture
def release(tmp_path):
    names = {"C1": "aspirin", "C2": "headache", "C3": "pain"}
    return write_release(
        tmp_path / "rrf",
        MRCONSO=[atom(cui, name) for cui, name in names.items()],
        MRREL=[rrf_line("MRREL", **row) for row in RELATIONS],
    )


@pytest.fixture
def terminology(release):
    return read_rrf(release, tradenames="off")


@pytest.mark.filterwarnings("ignore:.*about concepts that MRCONSO does not have")
@pytest.mark.parametrize(
    "label, expected",
    [
        ("REL+RELA", {("C1", "RO may_treat", "C2"), ("C2", "RO may_be_treated_by", "C1"), ("C3", "PAR", "C2")}),
        ("REL", {("C1", "RO", "C2"), ("C2", "RO", "C1"), ("C3", "PAR", "C2")}),
        ("RELA", {("C1", "may_treat", "C2"), ("C2", "may_be_treated_by", "C1"), ("C3", "", "C2")}),
    ],
)
@pytest.mark.parametrize("rows_at_once", [1, 1000])
def test_triples(release, terminology, tmp_path, monkeypatch, label, expected, rows_at_once):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", rows_at_once)
    data = write_triples(release, terminology, tmp_path / "triples", label=label)
    assert set(read_triples(tmp_path / "triples").decode().iter_rows()) == expected
    assert data["counts"] == {"rows": 6, "triples": 3, "relations": len({t[1] for t in expected})}
    dropped = {reason: n for reason, n in data["dropped"].items() if n}
    assert dropped == {"self_loop": 1, "unnamed_concept": 1, "duplicate": 1}


@pytest.mark.filterwarnings("ignore:.*about concepts that MRCONSO does not have")
def test_sources_of_relations_can_be_chosen(release, terminology, tmp_path):
    data = write_triples(release, terminology, tmp_path / "triples", sources=["NCI"])
    assert read_triples(tmp_path / "triples").decode().rows() == [("C1", "RO may_treat", "C2")]
    assert data["dropped"]["source"] == 5


@pytest.mark.filterwarnings("ignore:.*about concepts that MRCONSO does not have")
def test_what_gives_no_triples_is_refused(release, terminology, tmp_path):
    with pytest.raises(ValueError, match="SAB 'X'.*MSH, NCI"):
        write_triples(release, terminology, tmp_path / "triples", sources=["X"])
    with pytest.raises(ValueError, match="6 rows"):
        write_triples(release, remove_concepts(terminology, ["C1", "C3"]).terminology, tmp_path / "triples")
    with pytest.raises(ValueError, match="label"):
        write_triples(release, terminology, tmp_path / "triples", label="rel")
    (release / "MRREL.RRF").unlink()
    with pytest.raises(FileNotFoundError, match=r"so there are no triples\. Copy it there from"):
        write_triples(release, terminology, tmp_path / "triples")
    assert not (tmp_path / "triples").exists()


def test_what_the_reader_leaves_out_gives_no_triples(tmp_path):
    folder = write_release(
        tmp_path / "rrf",
        MRCONSO=[atom("C1", "a"), atom("C2", "b")],
        MRREL=[
            rrf_line("MRREL", CUI1="C1", REL="PAR", CUI2="C2", SAB="SNOMEDCT_US"),
            rrf_line("MRREL", CUI1="C1", REL="RB", CUI2="C2", SUPPRESS="O"),
            rrf_line("MRREL", CUI1="C9", REL="RN", CUI2="C2"),
            rrf_line("MRREL", CUI1="C1", REL="SIB", CUI2="C2"),
        ],
        MRSAB=[
            rrf_line("MRSAB", RSAB=sab, SRL=level, CURVER="Y") for sab, level in (("MSH", "0"), ("SNOMEDCT_US", "9"))
        ],
        MRCUI=[rrf_line("MRCUI", CUI1="C9", REL="SY", CUI2="C1")],
    )

    def labels(**options):
        terminology = read_rrf(folder, tradenames="off", **options)
        write_triples(folder, terminology, tmp_path / "triples")
        return set(read_triples(tmp_path / "triples").decode()["relation"])

    assert labels() == {"PAR", "RB", "SIB"}
    assert labels(max_restriction_level=0) == {"RB", "SIB"}
    assert labels(sources=["MSH"]) == {"RB", "SIB"}
    assert labels(suppressed="drop") == {"PAR", "SIB"}
    assert labels(remap_retired=True) == {"PAR", "RB", "SIB", "RN"}


def test_triples_are_numbers_of_sorted_tables(tmp_path):
    rows = [("C3", "b", "C1"), ("C1", "a", "C3"), ("C3", "b", "C2")]
    triples = index_triples(rows)
    assert triples.concepts.to_list() == ["C1", "C2", "C3"] and triples.labels.to_list() == ["a", "b"]
    assert triples.decode().rows() == rows and len(triples) == 3
    save_triples(triples, tmp_path, {})
    again = read_triples(tmp_path)
    assert again.decode().rows() == rows
    assert {column.dtype for column in (again.heads, again.relations, again.tails)} == {np.dtype(np.int32)}
    assert list_triple_concepts(tmp_path) == {"C1", "C2", "C3"}
    before = hash_triples(tmp_path)
    save_triples(
        index_triples([(head, {"a": "z", "b": "zz"}[label], tail) for head, label, tail in rows]), tmp_path, {}
    )
    # The columns of numbers are the same, but not the labels.
    assert hash_triples(tmp_path) != before


def test_keys_keep_the_order_of_labels_whatever_order_they_come_in():
    ids = pl.Series(["A", "B", "C"])
    keys = TripleKeys(len(ids))
    parts = [
        keys.pack(np.array([2, 0]), pl.Series(["y", "x"]), np.array([0, 2])),
        keys.pack(np.array([0, 2]), pl.Series(["w", "y"]), np.array([2, 0])),
    ]
    triples, dropped = keys.unpack(parts, ids)
    assert triples.decode().rows() == [("A", "w", "C"), ("A", "x", "C"), ("C", "y", "A")] and dropped == 1
    assert triples.concepts.to_list() == ["A", "C"]


def test_more_relations_than_bits_are_refused():
    keys = TripleKeys(1 << 31)
    with pytest.raises(ValueError, match="5 relations"):
        keys.pack(np.arange(5), pl.Series(list("abcde")), np.arange(5))


def test_folders_of_earlier_versions_are_refused(tmp_path):
    pl.DataFrame({"head": ["A"], "relation": ["x"], "tail": ["B"]}).write_parquet(tmp_path / TRIPLES_FILE)
    write_manifest(tmp_path / TRIPLES_MANIFEST, 1, {})
    with pytest.raises(OSError, match="format 1.*`triples`"):
        read_triples(tmp_path)
