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


def test_what_gives_no_triples_is_refused(tmp_path):
    rows = [rrf_line("MRREL", CUI1=cui, REL="PAR", CUI2="C1") for cui in ("C2", "C3")]
    atoms = [atom(cui, f"name of {cui}") for cui in ("C1", "C2", "C3")]
    release = write_release(tmp_path / "rrf", MRCONSO=atoms, MRREL=rows)
    terminology = read_rrf(release, tradenames="off")
    with pytest.raises(ValueError, match="2 rows"):
        write_triples(release, remove_concepts(terminology, ["C1"]).terminology, tmp_path / "triples")
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


@pytest.mark.parametrize("label", ["REL+RELA", "REL", "RELA"])
def test_triples_of_many_blocks_are_those_of_a_naive_loop(tmp_path, monkeypatch, label):
    monkeypatch.setattr(rrf_lines, "BLOCK_SIZE", 300)
    monkeypatch.setattr(module, "BLOCKS_AT_ONCE", 2)
    rng = random.Random(0)
    names = [f"C{number}" for number in range(9)]
    columns = {"CUI1": [*names, "C99"], "CUI2": names, "REL": ["RO", "RB"], "RELA": ["", "isa"], "SAB": ["MSH", "NCI"]}
    rows = [{column: rng.choice(values) for column, values in columns.items()} for _ in range(200)]
    lines = [rrf_line("MRREL", **row) for row in rows]
    folder = write_release(tmp_path / "rrf", MRCONSO=[atom(cui, f"name of {cui}") for cui in names], MRREL=lines)
    data = write_triples(folder, read_rrf(folder, tradenames="off"), tmp_path / "triples", label=label)
    loops = [row for row in rows if row["CUI1"] == row["CUI2"]]
    kept = [row for row in rows if row["CUI1"] != row["CUI2"] and row["CUI1"] in names]
    # Concept 2 has the relation to concept 1: aspirin (CUI2) may treat (RELA) headache (CUI1).
    expected = {(row["CUI2"], " ".join(filter(None, map(row.get, label.split("+")))), row["CUI1"]) for row in kept}
    found = read_triple_rows(tmp_path / "triples")
    assert found == sorted(expected, key=lambda triple: (triple[1], triple[0], triple[2]))
    assert data["counts"] == {
        "rows": 200,
        "triples": len(expected),
        "relations": len({label for _, label, _ in expected}),
    }
    dropped = {"self_loop": len(loops), "unnamed_concept": len(rows) - len(loops) - len(kept)}
    dropped["duplicate"] = len(kept) - len(expected)
    assert {reason: n for reason, n in data["dropped"].items() if n} == dropped


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
