"""What the builder keeps, unites, drops and refuses, and look-ups in the terminology that it makes."""

import copy
import pickle
import re

import numpy as np
import polars as pl
import pytest
from conftest import build_terminology
from hypothesis import example, given
from hypothesis import strategies as st
from rrf_files import atom, rrf_line, write_release

from spacy_sapbert.terminology import Concept, Terminology, TerminologyBuilder, read_rrf
from spacy_sapbert.terminology.frames import NAME_SCHEMA
from spacy_sapbert.terminology.names import unite_name_frames
from spacy_sapbert.terminology.rows import Table
from spacy_sapbert.terminology.schemas import NAME_KEY
from spacy_sapbert.terminology.schemas import NAMES as KINDS
from spacy_sapbert.terminology.table import summarize
from spacy_sapbert.text import normalize_name

NAMES = [("C3", "c"), ("C1", "a"), ("C3", "cc"), ("C2", "b"), ("C1", "aa"), ("C1", "aaa")]


@pytest.fixture
def small():
    return build_terminology(NAMES)


def test_a_concept_has_everything_that_was_added():
    builder = TerminologyBuilder()
    builder.add_concept("C1", types=["T047"], codes=["HP:1"], parents=["C2"], definition=" A disease. ")
    builder.add_concept("C1", types=["T046", "T047"], codes=["MSH:D1"], definition="Another.")
    builder.add_name("C1", " second  choice ", source="HPO", term_type="EXACT")
    builder.add_name("C1", "first choice", preferred=True, language="GER")
    # A canonical name is the first that was given, or else a preferred name, or else the first.
    for concept_id, canonical in (("C2", ["c", "d"]), ("C3", [])):
        for name in ("a", "b"):
            builder.add_name(concept_id, name)
        for name in canonical:
            builder.add_concept(concept_id, canonical_name=name)
    terminology = builder.build()
    assert terminology["C1"] == Concept(
        id="C1",
        canonical_name="first choice",
        names=("second choice", "first choice"),
        types=("T047", "T046"),
        definition="A disease.",
        codes=("HP:1", "MSH:D1"),
        parents=("C2",),
    )
    rows = [("second choice", 0, "ENG", "HPO", "EXACT", False), ("first choice", 0, "GER", "", "", True)]
    assert terminology.names_of(0).rows() == rows
    assert [terminology[id_].canonical_name for id_ in ("C2", "C3")] == ["c", "a"]


def test_what_is_dropped_or_normalized_is_counted():
    builder = TerminologyBuilder()
    builder.add_name("C1", "a")
    builder.add_name("C1", "a", source="other", preferred=True)
    builder.add_name("C1", "a", language="GER")
    for name in ("hyper\u00adtension", "\u200bhypertension", "\u200b", "Erka\u0308ltung", "\x00", " \t"):
        builder.add_name("C1", name)
    builder.add_name("C2", "")
    builder.add_concept("C3", types=["T1"])
    builder.add_concept("C1", parents=["C1", "C2", "C9"], canonical_name="hyper\u00adtension")
    terminology = builder.build({"read": {"rows": 7}, "dropped": {"obsolete": 4}})
    dropped = {"obsolete": 4, "empty_names": 4, "duplicate_names": 2, "concepts_without_names": 2, "self_parents": 1}
    kept = {"concepts": 1, "names": 4}
    more = {"kept": kept, "normalized_names": 5, "dangling_parents": 2}
    assert terminology.report == {"read": {"rows": 7}, "dropped": dropped, **more}
    assert terminology["C1"].parents == ("C2", "C9") and terminology["C1"].canonical_name == "hypertension"
    assert terminology["C1"].names == ("a", "a", "hypertension", "Erkältung")
    assert terminology.names["preferred"].to_list()[:2] == [True, False], "a source that prefers a name counts"
    assert "; 5 names normalized; dropped: 4 obsolete, 4 empty names" in summarize(terminology)


@pytest.mark.parametrize("concept_id", ["", "C 1", "C1\n", "C\u20281", "C\u00a01", "C\x001", "C\x851", "NIL"])
def test_unusable_ids_are_refused(concept_id):
    builder = TerminologyBuilder()
    for add in (builder.add_concept, lambda id_: builder.add_name(id_, "a")):
        with pytest.raises(ValueError, match="as the id of a concept"):
            add(concept_id)
    builder.add_concept("C1")
    report = {"files": [{"name": "wrong.tsv"}], "read": {"rows": 1, "others": 0}, "dropped": {"malformed": 0}}
    said = (
        "The terminology is empty: wrong.tsv gave no concept with a name. The file is probably of another kind than "
        "the reader expects, or its settings name the wrong columns. Read: 1 rows. Dropped: 1 concepts without names."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        builder.build(report)
    with pytest.raises(ValueError, match="the records given gave no concept .* Read: nothing. Dropped: nothing.$"):
        TerminologyBuilder().build()


@pytest.mark.parametrize("wrong", [None, 5, 0.5, float("nan"), b"C1", ["C1"], "broken_\ud83d"])
def test_values_that_are_no_strings_are_refused(wrong):
    builder = TerminologyBuilder()
    concepts = [{kind: value} for kind in ("types", "codes", "parents") for value in ([wrong], "T047")]
    if wrong is not None:
        concepts += [{"canonical_name": wrong}, {"definition": wrong}]
    for fields in concepts:
        with pytest.raises(ValueError, match="as a text"):
            builder.add_concept("C1", **fields)
    for fields in ({"name": wrong}, *({"name": "a", label: wrong} for label in ("language", "source", "term_type"))):
        with pytest.raises(ValueError, match="as a text"):
            builder.add_name("C1", **fields)
    for add in (builder.add_concept, lambda concept_id: builder.add_name(concept_id, "a")):
        with pytest.raises(ValueError, match="as the id of a concept.*not a string|as a text"):
            add(wrong)
    assert "C1" not in builder, "a refused record leaves nothing behind"


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ä"]),
        st.integers(0, 2),
        st.sampled_from(["ENG", "GER"]),
        # None at all, several, and what only the builder lets through: an empty one among several, one twice.
        st.sampled_from(["", "A", "B", "A|B", "B|C", "A||B", "|A", "A|A", "|"]),
        st.sampled_from(["PT", "SY"]),
        st.booleans(),
    ),
    max_size=20,
)


def unite_in_a_loop(rows):
    """Each distinct name's first row, with the sources of all its rows and the preference of any."""
    groups = {}
    for row in rows:
        groups.setdefault(row[:3], []).append(row)
    united = []
    for key, members in groups.items():
        sources = [row[3] for row in members]
        source = sources[0]
        if set(sources) != {source}:
            source = "|".join(dict.fromkeys(part for joined in sources for part in joined.split("|") if part))
        united.append((*key, source, members[0][4], any(row[5] for row in members)))
    return united


@given(ROWS)
@example([("a", 0, "ENG", "A||B", "PT", False)] * 2)
@example([("a", 0, "ENG", "A||B", "PT", False), ("a", 0, "ENG", "C", "PT", False)])
@example([("a", 0, "ENG", "", "PT", False), ("a", 0, "ENG", "|", "PT", False)])
def test_names_are_united_as_in_a_plain_loop(rows):
    names = pl.DataFrame(rows, NAME_SCHEMA, orient="row")
    united = unite_name_frames(names)
    assert united.schema == NAME_SCHEMA and united.rows() == unite_in_a_loop(rows)
    assert unite_name_frames(united).equals(united) and united.select(NAME_KEY).is_unique().all()
    # Other columns are those of the first row.
    numbered = unite_name_frames(names.with_row_index("row"))
    assert numbered.drop("row").rows() == united.rows()
    assert numbered["row"].to_list() == [
        next(i for i, row in enumerate(rows) if row[:3] == of[:3]) for of in united.rows()
    ]


ids = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=4).filter(
    "NIL".__ne__
)
names = st.text(st.characters(exclude_categories=("Cs",)), max_size=8).map(lambda s: f"x{s}x")


@given(st.lists(st.tuples(ids, names), min_size=1, max_size=20), st.lists(ids, max_size=5))
def test_lookups_agree_with_a_dict(pairs, others):
    naive = {}
    for concept_id, name in pairs:
        naive.setdefault(concept_id, {})[normalize_name(name)] = None
    terminology = build_terminology(pairs)
    assert len(terminology) == len(naive)
    assert terminology.n_names == sum(map(len, naive.values()))
    assert terminology.concepts["id"].to_list() == sorted(naive)
    # The order of concepts in the source does not matter; the order of a concept's names does.
    assert build_terminology(sorted(pairs, key=lambda pair: pair[0])).fingerprint == terminology.fingerprint
    for row, concept_id in enumerate(sorted(naive)):
        assert terminology.row(concept_id) == row
        assert terminology[concept_id].names == tuple(naive[concept_id])
        assert terminology.concept(row).canonical_name == next(iter(naive[concept_id]))
        assert terminology.names_of(row)["name"].to_list() == list(naive[concept_id])
    for other in others:
        assert (other in terminology) == (other in naive)


def test_rows_are_looked_up_in_bulk_and_missing_ones_are_errors(small):
    assert small.concept_rows(np.array([[5, 0], [3, 2]])).tolist() == [[2, 0], [1, 0]]
    assert small.name_offsets.tolist() == [0, 3, 4, 6] and small.name_offsets.dtype == np.int64
    assert small.name_concept.dtype == np.uint32 and not small.name_concept.flags.owndata, "a view, not a copy"
    assert small.get("C1") == small["C1"] and small.get("C0", 1) == 1
    for wrong in ("C4", None, 3, float("nan"), ["C1"]):
        assert wrong not in small
        with pytest.raises(KeyError, match="No concept with the id"):
            small[wrong]
    for row, name_row in ((-1, -1), (3, 6)):
        for call, rows in ((small.concept, row), (small.names_of, row), (small.concept_rows, np.array([0, name_row]))):
            with pytest.raises(IndexError, match="is outside the"):
                call(rows)


def test_a_terminology_is_immutable_and_equal_by_content(small):
    before = small.fingerprint
    small.report["kept"]["concepts"] = 99
    for array in (small.name_concept, small.name_offsets, small.names["preferred"].to_numpy()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert small.report["kept"]["concepts"] == 3
    assert Terminology(small.concepts, small.names).fingerprint == before
    for twin in (pickle.loads(pickle.dumps(small)), copy.deepcopy(small), copy.copy(small)):
        assert twin == small and hash(twin) == hash(small) and twin.report == small.report
    other = build_terminology([*NAMES[:-1], ("C1", "aaA")])
    assert small != other and before != other.fingerprint and small != "terminology"
    # One that is dropped leaves a pending exception alone.
    with pytest.raises(ZeroDivisionError):
        _ = [build_terminology([("C1", "cold")]), 1 / 0]


def test_tables_that_do_not_fit_together_are_refused(small):
    concepts, names = small.concepts, small.names
    backwards = np.arange(names.height)[::-1]
    for tables in (
        (concepts.take(np.array([2, 1, 0])), names),
        (concepts.take(np.array([0, 0, 1])), names),
        (concepts.slice(0, 2), names),
        (concepts, names.take(backwards)),
        (concepts.select("id", "canonical_name"), names),
        (concepts.replace(types=concepts["types"][:1]), names),
    ):
        with pytest.raises(ValueError, match="don't fit together"):
            Terminology(*tables)


def test_frames_of_other_columns_are_no_tables(small):
    frame = small.names.to_polars()
    assert Table.from_polars(frame, KINDS).equals(small.names)
    for wrong, message in (
        (frame.with_columns(pl.col("concept").cast(pl.Int64())), "has the columns"),
        (frame.with_columns(name=pl.lit(None, dtype=pl.String())), "missing values in name"),
    ):
        with pytest.raises(ValueError, match=message):
            Table.from_polars(wrong, KINDS)


def test_a_summary_counts_concepts_names_and_what_was_dropped(tmp_path):
    assert summarize(build_terminology([("C1", "cold")])) == "1 concepts with 1 names"
    lines = [atom("C1", "cold"), atom("C1", "Erkältung", LAT="GER"), atom("C2", "old", SUPPRESS="O")]
    terminology = read_rrf(write_release(tmp_path, MRCONSO=lines, MRREL=[rrf_line("MRREL")]), suppressed="drop")
    assert summarize(terminology) == (
        "1 concepts with 1 names; dropped: 1 names in other languages, 1 suppressed names, 1 concepts without names"
    )


def test_a_linker_can_be_seen_as_scispacys_and_names_its_own_settings(make_nlp, terminology):
    linker = make_nlp().get_pipe("sapbert_linker")
    with pytest.raises(AttributeError, match="Did you mean abbreviations"):
        linker.resolve_abbreviations = True
    kb = linker.kb
    entity = kb.cui_to_entity["C0027051"]
    assert entity.concept_id == "C0027051" and entity.canonical_name == "Myocardial Infarction"
    assert entity.aliases == ["myocardial infarction", "heart attack"]
    assert entity.types == ["T047"] and entity.definition is None
    assert len(kb.cui_to_entity) == len(list(kb.cui_to_entity)) == len(terminology)
    assert "C0000000" not in kb.cui_to_entity and kb.cui_to_entity.get("C0000000") is None
    aliases = kb.alias_to_cuis
    assert aliases["cold"] == {"C0009443", "C0009264"} and "Cold" not in aliases
    assert set(aliases) == set(terminology.names["name"]) and len(aliases) == len(set(aliases))
    for name in ("no such name", "Colds", "", "(", "a\ud800b", 7, None):
        assert name not in aliases
        with pytest.raises(KeyError):
            aliases[name]


@pytest.mark.parametrize("preferred", ["N", "", 1, None])
def test_preferred_is_true_or_false(preferred):
    builder = TerminologyBuilder()
    with pytest.raises(ValueError, match=f"Can't use {preferred!r} as `preferred` of a name of the concept 'C1'"):
        builder.add_name("C1", "cold", preferred=preferred)
    assert "C1" not in builder
    builder.add_name("C1", "cold", preferred=np.bool_(True))
    assert builder.build().names["preferred"].to_list() == [True]
