"""Look-ups in a terminology."""

import copy
import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rrf_files import atom, write_release

from spacy_sapbert.terminology import Terminology, TerminologyBuilder, read_rrf
from spacy_sapbert.terminology.table import summarize
from spacy_sapbert.text import normalize_name


def build(names):
    builder = TerminologyBuilder()
    for concept_id, name in names:
        builder.add_name(concept_id, name)
    return builder.build()


@pytest.fixture()
def terminology():
    return build([("C3", "c"), ("C1", "a"), ("C3", "cc"), ("C2", "b"), ("C1", "aa"), ("C1", "aaa")])


ids = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=4)
names = st.text(st.characters(exclude_categories=("Cs",)), max_size=8).map(lambda s: f"x{s}x")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(ids, names), min_size=1, max_size=20), st.lists(ids, max_size=5))
def test_lookups_agree_with_a_dict(pairs, others):
    naive = {}
    for concept_id, name in pairs:
        naive.setdefault(concept_id, {})[normalize_name(name)] = None
    terminology = build(pairs)
    assert len(terminology) == len(naive)
    assert terminology.n_names == sum(map(len, naive.values()))
    assert terminology.concepts["id"].to_list() == sorted(naive)
    # The order of concepts in the source does not matter; the order of a concept's names does.
    assert build(sorted(pairs, key=lambda pair: pair[0])).fingerprint == terminology.fingerprint
    for row, concept_id in enumerate(sorted(naive)):
        assert terminology.row(concept_id) == row
        assert terminology[concept_id].names == tuple(naive[concept_id])
        assert terminology.concept(row).canonical_name == next(iter(naive[concept_id]))
        assert terminology.names_of(row)["name"].to_list() == list(naive[concept_id])
    for other in others:
        assert (other in terminology) == (other in naive)


def test_bulk_lookup(terminology):
    assert terminology.names["name"].to_list() == ["a", "aa", "aaa", "b", "c", "cc"]
    rows = terminology.concept_rows(np.array([[5, 0], [3, 2]]))
    assert rows.tolist() == [[2, 0], [1, 0]]
    assert terminology.name_offsets.tolist() == [0, 3, 4, 6]
    assert terminology.name_offsets.dtype == np.int64
    assert terminology.name_concept.dtype == np.uint32
    assert not terminology.name_concept.flags.owndata, "a view, not a copy"


def test_missing_ids_and_rows_are_errors(terminology):
    with pytest.raises(KeyError, match="No concept with the id"):
        terminology.row("C0")
    for wrong in ("C4", None, 3, float("nan"), ["C1"]):
        assert wrong not in terminology
        with pytest.raises(KeyError, match="No concept with the id"):
            terminology[wrong]
    for row, name_row in ((-1, -1), (3, 6)):
        for call, rows in (
            (terminology.concept, row),
            (terminology.names_of, row),
            (terminology.concept_rows, np.array([0, name_row])),
        ):
            with pytest.raises(IndexError, match="is outside the"):
                call(rows)


def test_terminology_is_immutable(terminology):
    before = terminology.fingerprint
    terminology.concepts.drop_in_place("types")
    terminology.names.drop_in_place("source")
    terminology.report["kept"]["concepts"] = 99
    for array in (terminology.name_concept, terminology.name_offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert terminology.concepts.width == 6 and terminology.names.width == 6
    assert terminology.report["kept"]["concepts"] == 3
    assert Terminology(terminology.concepts, terminology.names).fingerprint == before


def test_equality_is_by_content(terminology):
    for twin in (pickle.loads(pickle.dumps(terminology)), copy.deepcopy(terminology)):
        assert twin == terminology and hash(twin) == hash(terminology)
        assert twin.report == terminology.report and twin["C3"] == terminology["C3"]
    other = build([("C3", "c"), ("C1", "a"), ("C3", "cc"), ("C2", "b"), ("C1", "aa"), ("C1", "aaA")])
    assert terminology != other and terminology.fingerprint != other.fingerprint and terminology != "terminology"


def test_tables_that_do_not_fit_together_are_refused(terminology):
    concepts, names = terminology.concepts, terminology.names
    wrong = [
        (concepts.reverse(), names),
        (concepts[[0, 0, 1]], names),
        (concepts[:2], names),
        (concepts, names.reverse()),
        (concepts.drop("types"), names),
        (concepts, names.with_columns(pl.col("concept").cast(pl.Int64()))),
        (concepts, names.with_columns(name=pl.lit(None, dtype=pl.String()))),
    ]
    for tables in wrong:
        with pytest.raises(ValueError, match="don't fit together"):
            Terminology(*tables)


def test_a_summary_counts_concepts_names_and_what_was_dropped(tmp_path):
    assert summarize(build([("C1", "cold")])) == "1 concepts with 1 names"
    terminology = build([("C1", name) for name in ("cold", "common cold", "cold", " ")])
    assert summarize(terminology) == "1 concepts with 2 names; dropped: 1 empty names, 1 duplicate names"
    lines = [atom("C1", "cold"), atom("C1", "Erkältung", LAT="GER"), atom("C2", "old", SUPPRESS="O")]
    terminology = read_rrf(write_release(tmp_path, MRCONSO=lines, MRREL=[]), suppressed="drop")
    assert summarize(terminology) == (
        "1 concepts with 1 names; dropped: 1 names in other languages, 1 suppressed names, 1 concepts without names"
    )


def test_a_terminology_that_is_dropped_leaves_a_pending_exception_alone():
    with pytest.raises(ZeroDivisionError):
        _ = [build([("C1", "cold")]), 1 / 0]
