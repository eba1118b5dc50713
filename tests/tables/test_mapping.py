"""Mappings of linked tables, and SSSOM as the standard and as real projects write it."""

import shutil
import subprocess
from datetime import date

import polars as pl
import pytest
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from sssom_rules import check_rules

from spacy_sapbert.tables.mapping import (
    CORE,
    MODEL,
    NO_TERM,
    MappingSet,
    complete_frame,
    count_rows,
    is_curie,
    is_decided,
    make_curies,
    make_mapping,
    split_curie,
)
from spacy_sapbert.tables.sssom import describe_set, read_sssom, write_sssom

LINKED = ("linked_id", "linked_name", "linked_match", "linked_score", "linked_how", "linked_note", "linked_others")
NOTHING = (None,) * 4
DAY = date(2026, 1, 31)
EXAMPLE = {"my": "https://example.org/my/"}
SSSOM = shutil.which("sssom")


def make_linked(*rows):
    return pl.DataFrame(rows, {name: pl.String for name in ("code", "label", *LINKED)}, orient="row")


def read_text(tmp_path, text, name="a.sssom.tsv"):
    (path := tmp_path / name).write_text(text, encoding="utf8")
    return read_sssom(path)


@cases("ways_to_predicates")
def test_how_a_label_was_linked_becomes_predicate_and_justification(how, note, predicate_id, mapping_justification):
    row = ("1", "Fits", "HP:1", "Seizure", "Fits", "0.9", how, note or None, None)
    frame = make_mapping(make_linked(row), day=DAY).frame
    assert frame.select("predicate_id", "mapping_justification").row(0) == (predicate_id, mapping_justification)


@cases("concepts_of_labels")
def test_each_concept_of_a_label_is_a_mapping_of_its_own(label, how, ids, matches, said, predicate_id):
    name, _, text = said.partition("=")
    ways = {"linked_id": ids, "linked_name": matches, "linked_match": matches, "linked_how": how}
    joined = pl.DataFrame({"label": label, **ways, **({f"linked_{name}": text} if name else {})})
    exploded = joined.with_columns(pl.col("linked_id", "linked_name", "linked_match").str.split("|"))
    exploded = exploded.explode("linked_id", "linked_name", "linked_match")
    for linked in (joined, exploded):
        frame = make_mapping(linked).frame
        assert frame["object_id"].to_list() == ids.split("|") and set(frame["predicate_id"]) == {predicate_id}
        assert frame["object_label"].to_list() == matches.split("|") and set(frame["subject_label"]) == {label}


def test_cells_that_do_not_say_which_concept_they_are_of_are_refused_or_left_out():
    cells = {"label": "a", "linked_id": "HP:1|HP:2", "linked_how": "text", "linked_side": "left||"}
    frame = make_mapping(
        pl.DataFrame({**cells, "linked_name": "A|B", "linked_score": 0.5, "ward": "x"}), keep=True
    ).frame
    assert frame["linked_side"].null_count() == 2 and frame["confidence"].to_list() == ["0.5", "0.5"]
    assert frame["ward"].to_list() == ["x", "x"]
    with pytest.raises(ValueError, match="Row 1 has the ids 'HP:1|HP:2' and the names 'A|B|C', .* --explode"):
        make_mapping(pl.DataFrame({**cells, "linked_name": "A|B|C"}))
    # One id with such a sign.
    frame = make_mapping(pl.DataFrame({**cells, "linked_name": "A"})).frame
    assert frame["object_id"].to_list() == ["HP:1%7CHP:2"]


def test_ids_of_other_concepts_get_the_prefix_of_concepts():
    cells = {"label": "a", "linked_id": "D1", "linked_how": "name"}
    linked = pl.DataFrame({**cells, "linked_others": "D2 Cold; wet; D3 Fever", "linked_second": "HP:4 Cough"})
    row = make_mapping(linked, object_prefix="MSH").frame.row(0, named=True)
    assert row["linked_others"] == "MSH:D2 Cold; wet; MSH:D3 Fever" and row["linked_second"] == "HP:4 Cough"


@cases("curies_of_ids")
def test_ids_become_curies_that_can_be_read_back(id, prefix, curie):
    ids = pl.Series("code", [None, id])
    if not curie:
        with pytest.raises(ValueError, match="Row 2 .*--subject-prefix"):
            make_curies(ids, prefix, {}, "--subject-prefix")
        return
    assert make_curies(ids, prefix, {}, "--subject-prefix").to_list() == [None, curie] and is_curie(curie)
    assert split_curie(curie)[1] in (id, id.partition(":")[2])


def test_a_linked_table_becomes_a_mapping():
    linked = make_linked(
        ("1", "Seizures", "HP:1", "Seizure", "Seizure", "1.0", "form of a name", None, None),
        ("2", "Swan neck", "HP:2", "Swan neck-like", "Swan neck", "-0.2", "vectors", None, "HP:1 Seizure"),
        ("3", "Other asthma", *NOTHING, "residual class", "looked up as 'x'", None),
        ("3", "Other asthma", *NOTHING, "residual class", "looked up as 'x'", None),
        ("", " ", *NOTHING, "empty", None, None),
    )
    frame = make_mapping(linked, id_column="code", subject_prefix="my", day=DAY).frame
    assert frame["subject_id"].to_list() == ["my:1", "my:2", "my:3"] and frame["subject_type"].null_count() == 3
    assert frame["object_id"].to_list() == ["HP:1", "HP:2", NO_TERM]
    assert frame["confidence"].to_list() == ["1.0", "0.0", None]
    assert frame["comment"].to_list() == [None, None, "residual class; looked up as 'x'"]
    assert set(frame["mapping_date"]) == {"2026-01-31"} and set(CORE) <= {*frame.columns}
    literals = make_mapping(linked).frame
    assert set(literals["subject_type"]) == {"rdfs literal"} and "code" not in literals.columns
    kept = make_mapping(linked, keep=True).frame
    assert kept.height == 4 and kept["code"].to_list() == ["1", "2", "3", "3"]
    with pytest.raises(ValueError, match="no column 'linked_id'.*Link it first"):
        make_mapping(pl.DataFrame({"label": ["a"]}))


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=12)
CELL = TEXT.map(str.strip).map(lambda text: text or None)
LABEL = TEXT.filter(lambda text: text.strip()).map(str.strip)
IDS = st.from_regex(r"[A-Z]{2}:[0-9]{1,4}", fullmatch=True).map(lambda id_: f"my:{id_}")


@given(st.lists(st.tuples(IDS, LABEL, IDS, CELL, st.floats(0, 1), CELL), min_size=1, max_size=5))
def test_any_text_is_the_same_after_writing_and_reading(tmp_path, rows):
    names = ("subject_id", "subject_label", "object_id", "comment", "confidence", "own column")
    frame = complete_frame(pl.DataFrame(rows, names, orient="row").with_columns(predicate_id=pl.lit("skos:closeMatch")))
    write_sssom(MappingSet(frame, {"curie_map": EXAMPLE}), path := tmp_path / "a.sssom.tsv")
    check_rules(path)
    back = read_sssom(path)
    for name in names[:5]:
        assert back.frame[name].to_list() == frame[name].to_list()
    if frame["own column"].null_count() < len(rows):
        assert back.frame["own_column"].to_list() == frame["own column"].to_list()
    write_sssom(back, second := tmp_path / "b.sssom.tsv")
    assert second.read_bytes() == path.read_bytes()


def make_all():
    """Make a mapping with a row of each kind."""
    linked = make_linked(
        (
            "1",
            'odd "x"\t<b>\u2028\n',
            "HP:0000001",
            "Seizure",
            "Seizure",
            "1.0",
            "form of a name",
            None,
            "HP:0000002 b",
        ),
        ("2", "=1+2", "C0009443", "Cold", "Cold", "0.5", "vectors", None, None),
        ("", "literal", *NOTHING, "no name", None, None),
    )
    mapping = make_mapping(linked, id_column="code", subject_prefix="my", curie_map=EXAMPLE, day=DAY)
    decided = make_mapping(linked.head(1), day=DAY).frame.with_columns(
        predicate_modifier=pl.lit("Not"),
        reviewer_label=pl.lit("Ann"),
        review_date=pl.lit("2026-02-01"),
        mapping_justification=pl.lit("semapv:ManualMappingCuration"),
        mapping_status=pl.lit("REJECTED"),
    )
    frame = pl.concat([mapping.frame, decided], how="diagonal")
    return describe_set(
        MappingSet(frame, mapping.metadata), {"object_source": "obo:hp.owl", "license": "https://x.org/"}
    )


def test_what_is_written_follows_the_rules_of_the_standard(tmp_path):
    write_sssom(make_all(), path := tmp_path / "a.sssom.tsv")
    about = check_rules(path)
    assert about["object_source"] == "obo:hp.owl" and about["license"] == "https://x.org/"
    assert [*about["curie_map"]] == ["HP", "UMLS", "my", "obo"]


@pytest.mark.skipif(SSSOM is None, reason="needs sssom-py: pip install sssom, in an environment of its own")
def test_sssom_py_finds_nothing_wrong(tmp_path):
    write_sssom(make_all(), path := tmp_path / "a.sssom.tsv")
    done = subprocess.run([SSSOM, "validate", path], capture_output=True, text=True)
    assert done.returncode == 0 and "rror" not in done.stderr, done.stderr


def test_rows_without_object_or_justification_are_completed_when_written(tmp_path):
    mapping = read_text(
        tmp_path, "subject_id\tsubject_label\tpredicate_id\tobject_id\tcomment\nmy:1\tH\t\t\tno test\nmy:2\tI\t\t\t\n"
    )
    write_sssom(mapping, path := tmp_path / "b.sssom.tsv", EXAMPLE)
    check_rules(path)
    back = read_sssom(path).frame
    assert set(back["object_id"]) == {NO_TERM}
    # What a person has left empty stays decided.
    assert back["mapping_justification"].to_list() == ["semapv:ManualMappingCuration", "semapv:UnspecifiedMatching"]
    assert back.select(is_decided()).to_series().to_list() == [True, False]


COLUMNS = "subject_id,subject_label,predicate_id,object_id,object_label,mapping_justification,author_id,reviewer_id"
MIMIC = f"""{COLUMNS},confidence,comment
lab:1,Hematocrit,skos:exactMatch,loinc:4544-3,Hematocrit in Blood,HumanCurated,,"orcid:0000-0001,0000-0002",1,
lab:2,"Calcium, Total",skos:exactMatch,loinc:17861-6,Calcium,HumanCurated,,,,
lab:3,H,,,,,,,,Not a lab test

lab:4,PT,,,,,,,,
"""
WILD = {
    "commas and no metadata": (MIMIC, "d.csv", 4, [True, True, True, False]),
    "several mappings, rejected, without confidence": (
        "#curie_map:\n#  FOO: http://foo.org/\n#mapping_date: 2020-01-01\n"
        "subject_id\tpredicate_id\tpredicate_modifier\tobject_id\n"
        "FOO:1\tskos:exactMatch\t\tHP:1\nFOO:1\tskos:broadMatch\tNot\tBAR:2\n",
        "a.tsv",
        2,
        [False, False],
    ),
    "the justifications of before 1.0": (
        "subject_id\tpredicate_id\tobject_id\tmatch_type\nFOO:1\tskos:exactMatch\tHP:1\tHumanCurated\n",
        "a.tsv",
        1,
        [True],
    ),
    "spaces after the sign, ends of lines of Windows, a mark of the byte order": (
        "\ufeff# license: https://x.org\r\n# creator_id:\r\n#   - orcid:1\r\nsubject_id\tpredicate_id\tobject_id\r\n"
        "FOO:1\tskos:exactMatch\tHP:1\r\n",
        "a.tsv",
        1,
        [False],
    ),
    "lines of metadata filled up with commas": (
        '#license: "https://x.org",,\n#mapping_set_id: urn:y,,\n'
        'subject_id,predicate_id,object_id\n"FOO:1",skos:exactMatch,HP:1\n',
        "a.csv",
        1,
        [False],
    ),
    "spaces in the header, a time behind a date, empty columns": (
        "subject_id \tpredicate_id \tobject_id \tmapping_date\t\t\n"
        "FOO:1\tskos:exactMatch\tHP:1\t2020-01-01T10:00\t\t\n",
        "a.tsv",
        1,
        [False],
    ),
    "a header and no row": ("subject_id\tpredicate_id\tobject_id\n", "a.tsv", 0, []),
}


@pytest.mark.parametrize("text, name, n_rows, decided", WILD.values(), ids=WILD)
def test_what_real_projects_write_is_read(tmp_path, text, name, n_rows, decided):
    mapping = read_text(tmp_path, text, name)
    assert mapping.frame.height == n_rows == count_rows(mapping)["rows"]
    assert mapping.frame.select(is_decided()).to_series().to_list() == decided
    if n_rows:
        with pytest.raises(ValueError, match="The prefix of '(FOO|lab):1' .*--prefix"):
            write_sssom(mapping._replace(metadata={}), tmp_path / "out.tsv")
        prefixes = dict.fromkeys(("FOO", "BAR", "lab"), "https://x.org/")
        write_sssom(mapping, tmp_path / "out.tsv", prefixes)
        check_rules(tmp_path / "out.tsv")


def test_metadata_beside_the_table_holds_for_its_rows(tmp_path):
    (tmp_path / "a.sssom.yml").write_text("mapping_date: 2020-01-01\nobject_match_field:\n- rdfs:label\nmine: 1\n")
    mapping = read_text(tmp_path, "subject_id\tpredicate_id\tobject_id\nHP:1\tskos:exactMatch\tHP:2\n", "a.sssom.tsv")
    assert mapping.frame.select("mapping_date", "object_match_field").row(0) == ("2020-01-01", "rdfs:label")
    assert mapping.metadata == {"mine": "1"}
    (other := tmp_path / "b.yaml").write_text("license: https://x.org\n")
    assert read_sssom(tmp_path / "a.sssom.tsv", other).metadata == {"license": "https://x.org"}


def test_addresses_become_curies_where_a_prefix_is_known(tmp_path):
    text = "#curie_map:\n#  FOO: http://foo.org/\nsubject_id\tpredicate_id\tobject_id\n{}\tskos:exactMatch\tHP:1\n"
    write_sssom(read_text(tmp_path, text.format("http://foo.org/1")), path := tmp_path / "b.tsv")
    assert read_sssom(path).frame["subject_id"][0] == "FOO:1"
    with pytest.raises(ValueError, match="'http://bar.org/1' in 'subject_id' is no CURIE"):
        write_sssom(read_text(tmp_path, text.format("http://bar.org/1")), path)


HEAD = "subject_id\tpredicate_id\tobject_id\tconfidence\tpredicate_modifier\tsubject_type\n"
BAD = {
    "a\tb\n1\t2\n": "no column 'predicate_id'. Its columns are: a, b",
    HEAD + "HP:1\tskos:exactMatch\tHP:2\thigh\t\t\n": "row 2, has 'high' in the column 'confidence'",
    HEAD + "\t\t\t\t\t\nHP:1\tskos:exactMatch\tHP:2\t1.5\t\t\n": "row 3, has '1.5' in the column 'confidence'",
    "#license: x\n"
    + HEAD
    + "HP:1\tskos:exactMatch\tHP:2\t\tno\t\n": "row 3, has 'no' in the column 'predicate_modifier'",
    HEAD + "HP:1\tskos:exactMatch\tHP:2\t\t\tthing\n": "'thing' in the column 'subject_type'",
    "#a: [\n" + HEAD: "the metadata can't be read",
    "#- a\n" + HEAD: "has to be 'slot: value' in YAML",
    "#curie_map: x\n" + HEAD: "curie_map has to be 'prefix: IRI'",
    "#a: &a [x, x]\n#b: &b [*a, *a]\n" + HEAD: "twice, by an alias",
    "#a: &a [*a]\n" + HEAD: "twice, by an alias",
    f"#a: {'[' * 5000}\n" + HEAD: "the metadata can't be read",
    "#mapping_date: yesterday\n" + HEAD: "the metadata has 'yesterday' in the column 'mapping_date'",
    "#subject_type: thing\n" + HEAD: "the metadata has 'thing' in the column 'subject_type'",
    "#mapping_tool: {a: b}\n" + HEAD: "'mapping_tool' in the metadata has to be a text",
    HEAD.strip() + "\tmapping_date\nHP:1\tskos:exactMatch\tHP:2\t\t\t\t31.1.2026\n": "row 2, has '31.1.2026'",
    HEAD.strip() + "\tobject_id \nHP:1\tskos:exactMatch\tHP:2\t\t\t\tHP:3\n": "several columns 'object_id'",
    HEAD + 'HP:1\tskos:exactMatch\t5" pipe\t\t\t\n': "Put cells with a quote in quotes",
    HEAD + "a\tb\tc\td\te\tf\tg\n": "can't be read as a table of SSSOM",
    "": "can't be read as a table of SSSOM",
}


@pytest.mark.parametrize("text, message", BAD.items())
def test_a_file_that_is_no_sssom_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_text(tmp_path, text)


def test_bytes_of_another_encoding_are_named(tmp_path):
    (path := tmp_path / "a.tsv").write_bytes(HEAD.encode() + "HP:1\tä".encode("latin-1"))
    with pytest.raises(ValueError, match="byte 0xe4 .* not in UTF-8"):
        read_sssom(path)


def test_the_model_knows_the_slots_that_it_names():
    known = {*MODEL["mapping_slots"], *MODEL["set_slots"]}
    for kind in ("propagated_slots", "list_slots", "reference_slots", "date_slots"):
        assert known.issuperset(MODEL[kind])
