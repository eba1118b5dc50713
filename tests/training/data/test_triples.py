"""Triples: direction, labels, and what is left out."""

import random

import numpy as np
import pytest
from pair_rows import read_triple_rows, save_triple_rows
from rrf_files import atom, rrf_line, write_release

from spacy_sapbert.terminology import read_rrf
from spacy_sapbert.terminology.edits import remove_concepts
from spacy_sapbert.terminology.readers import rrf_lines
from training.data import triples as module
from training.data.triples import hash_triples, read_triples, write_triples

pytestmark = pytest.mark.filterwarnings("ignore:.*about concepts that MRCONSO does not have")
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


@pytest.mark.parametrize(
    "label, expected",
    [
        ("REL+RELA", {("C1", "RO may_treat", "C2"), ("C2", "RO may_be_treated_by", "C1"), ("C3", "PAR", "C2")}),
        ("REL", {("C1", "RO", "C2"), ("C2", "RO", "C1"), ("C3", "PAR", "C2")}),
        ("RELA", {("C1", "may_treat", "C2"), ("C2", "may_be_treated_by", "C1"), ("C3", "", "C2")}),
    ],
)
def test_triples(release, terminology, tmp_path, label, expected):
    data = write_triples(release, terminology, tmp_path / "triples", label=label)
    assert set(read_triple_rows(tmp_path / "triples")) == expected
    assert data["counts"] == {"rows": 6, "triples": 3, "relations": len({t[1] for t in expected})}
    dropped = {reason: n for reason, n in data["dropped"].items() if n}
    assert dropped == {"self_loop": 1, "unnamed_concept": 1, "duplicate": 1}


def test_what_gives_no_triples_is_refused(release, terminology, tmp_path):
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
        return {relation for _, relation, _ in read_triple_rows(tmp_path / "triples")}

    assert labels() == {"PAR", "RB", "SIB"}
    assert labels(max_restriction_level=0) == {"RB", "SIB"}
    assert labels(sources=["MSH"]) == {"RB", "SIB"}
    assert labels(suppressed="drop") == {"PAR", "SIB"}
    assert labels(remap_retired=True) == {"PAR", "RB", "SIB", "RN"}


def test_triples_of_many_blocks_are_those_of_a_naive_loop(tmp_path, monkeypatch):
    monkeypatch.setattr(rrf_lines, "BLOCK_SIZE", 300)
    monkeypatch.setattr(module, "BLOCKS_AT_ONCE", 2)
    rng = random.Random(0)
    names = [f"C{number}" for number in range(9)]
    columns = {"CUI1": [*names, "C99"], "CUI2": names, "REL": ["RO", "RB"], "RELA": ["", "isa"], "SAB": ["MSH", "NCI"]}
    rows = [{column: rng.choice(values) for column, values in columns.items()} for _ in range(200)]
    lines = [rrf_line("MRREL", **row) for row in rows]
    folder = write_release(tmp_path / "rrf", MRCONSO=[atom(cui, f"name of {cui}") for cui in names], MRREL=lines)
    data = write_triples(folder, read_rrf(folder, tradenames="off"), tmp_path / "triples", label="REL+RELA")
    kept = [row for row in rows if row["CUI1"] != row["CUI2"] and row["CUI1"] in names]
    expected = {(row["CUI2"], f"{row['REL']} {row['RELA']}".strip(), row["CUI1"]) for row in kept}
    found = read_triple_rows(tmp_path / "triples")
    assert found == sorted(expected, key=lambda triple: (triple[1], triple[0], triple[2]))
    assert data["dropped"]["duplicate"] == len(kept) - len(expected)


def test_triples_are_numbers_of_sorted_tables(tmp_path):
    rows = [("C3", "b", "C1"), ("C1", "a", "C3"), ("C3", "b", "C2")]
    save_triple_rows(rows, tmp_path)
    triples, before = read_triples(tmp_path), hash_triples(tmp_path)
    assert triples.concepts.to_list() == ["C1", "C2", "C3"] and triples.labels.to_list() == ["a", "b"]
    assert read_triple_rows(tmp_path) == rows and len(triples) == 3
    assert {column.dtype for column in (triples.heads, triples.relations, triples.tails)} == {np.dtype(np.int32)}
    save_triple_rows([(head, {"a": "z", "b": "zz"}[label], tail) for head, label, tail in rows], tmp_path)
    # The columns of numbers are the same, but not the labels.
    assert hash_triples(tmp_path) != before
