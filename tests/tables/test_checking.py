"""Pairs of an id and a label, checked against a terminology, in Python and from the command line."""

import json
import time

import polars as pl
import pytest
import spacy
from athena_files import Download
from hypothesis import given
from hypothesis import strategies as st
from rf2_files import Release
from rrf_files import atom, write_release
from typer.testing import CliRunner

from spacy_sapbert import TerminologyBuilder, check_labels, read_obo
from spacy_sapbert.__main__ import app
from spacy_sapbert.lexicon.scan import key_texts, list_words
from spacy_sapbert.tables.checking import CHANGED, EMPTY, _read_parts, read_labels, read_rows

OBO = """format-version: 1.2

[Term]
id: HP:0001250
name: Seizure
synonym: "Epileptic seizure" EXACT []
synonym: "Fits" RELATED []
synonym: "Attack" BROAD []
synonym: "Absence" NARROW []

[Term]
id: HP:0001251
name: Ataxia
synonym: "Fits" RELATED []
alt_id: HP:0007050

[Term]
id: HP:0100022
name: Abnormality of movement

[Term]
id: MONDO:0100022
name: Movement disorder

[Term]
id: HP:0000001
name: Old seizure
is_obsolete: true
replaced_by: HP:0001250

[Term]
id: HP:0000002
name: Old movement
is_obsolete: true
consider: HP:0100022
consider: HP:0001251
"""
SEIZURE, ATAXIA, MOVEMENT = (
    ("HP:0001250", "Seizure"),
    ("HP:0001251", "Ataxia"),
    ("HP:0100022", "Abnormality of movement"),
)
DISORDER = ("MONDO:0100022", "Movement disorder")
# The id and the label; what is found of both; the name that is written like the label, and other concepts.
CASES = [
    (*SEIZURE, "current", SEIZURE[0], "preferred name", "Seizure", []),
    (SEIZURE[0], "  SEIZURES ", "current", SEIZURE[0], "preferred name", "Seizure", []),
    (SEIZURE[0], "epileptic-seizures", "current", SEIZURE[0], "name", "Epileptic seizure", []),
    (SEIZURE[0], "fits", "current", SEIZURE[0], "name", "Fits", [ATAXIA]),
    (SEIZURE[0], "attacks", "current", SEIZURE[0], "wider or narrower", "Attack", []),
    (SEIZURE[0], "absence", "current", SEIZURE[0], "wider or narrower", "Absence", []),
    # Other codes that end with the same number.
    ("E11.1251", "ataxia", "unknown", None, "name of others", "Ataxia", [ATAXIA]),
    ("1001-1251", "ataxia", "unknown", None, "name of others", "Ataxia", [ATAXIA]),
    (ATAXIA[0], "attack", "current", ATAXIA[0], "name of others", "Attack", [SEIZURE]),
    (SEIZURE[0], "ataxia", "current", SEIZURE[0], "name of others", "Ataxia", [ATAXIA]),
    (DISORDER[0], "fits", "current", DISORDER[0], "name of others", "Fits", [SEIZURE, ATAXIA]),
    ("HP:0000001", "seizure", "retired", SEIZURE[0], "preferred name", "Seizure", []),
    ("HP:0007050", "ataxia", "retired", ATAXIA[0], "preferred name", "Ataxia", []),
    ("HP:0000002", "old movement", "retired", None, "no name", "", [MOVEMENT, ATAXIA]),
    ("HP:0000002", "seizure", "retired", None, "name of others", "Seizure", [SEIZURE]),
    ("hp_0001250", "seizure", "misspelt", SEIZURE[0], "preferred name", "Seizure", []),
    ("HP:1250", "seizure", "misspelt", SEIZURE[0], "preferred name", "Seizure", []),
    ("http://purl.obolibrary.org/obo/HP_0001250", "fits", "misspelt", SEIZURE[0], "name", "Fits", [ATAXIA]),
    ("0001250", "seizure", "misspelt", SEIZURE[0], "preferred name", "Seizure", []),
    ("1250", "seizure", "misspelt", SEIZURE[0], "preferred name", "Seizure", []),
    # Two ids have this number, and this prefix is another one.
    ("0100022", "movement disorder", "unknown", None, "name of others", "Movement disorder", [DISORDER]),
    ("OMIM:0001250", "seizure", "unknown", None, "name of others", "Seizure", [SEIZURE]),
    ("nothing", "seizure", "unknown", None, "name of others", "Seizure", [SEIZURE]),
]


@pytest.fixture(scope="module")
def obo(tmp_path_factory):
    path = tmp_path_factory.mktemp("ontology") / "hp.obo"
    path.write_text(OBO)
    return path


@pytest.fixture(scope="module")
def terminology(obo):
    return read_obo(obo, synonym_scopes=["EXACT", "RELATED", "BROAD", "NARROW"])


def test_ids_and_labels_are_found_or_explained(terminology):
    checked = check_labels(terminology, [case[:2] for case in CASES])
    found = [(*pair[:6], list(pair.others)) for pair in checked]
    assert found == CASES
    assert [pair.is_right for pair in checked] == [True] * 4 + [False] * (len(CASES) - 4)
    assert checked[3].term_type == "RELATED"


WORDS = [
    ("HP:0000001", "seizure", "retired, HP:0001250 took its place; the label is its preferred name"),
    ("HP:0000002", "seizure", "retired, nothing took its place; the label is a name of HP:0001250 (Seizure)"),
    ("HP_1251", "fits", "the id is written HP:0001251; the label is a name of it, 'Fits'"),
    ("HP:0001250", "Absences", "the label is a NARROW synonym of it, 'Absence'"),
    ("X:1", "{rush}", "unknown id; no concept has this name; "),
]


@pytest.mark.parametrize("id_, label, text", WORDS)
def test_what_was_found_is_said_in_words(terminology, id_, label, text):
    [checked] = check_labels(terminology, [(id_, label)])
    assert checked.explain().startswith(text)


def test_labels_that_are_no_names_get_the_three_nearest_concepts_of_a_linkers_own_encoder(terminology, static_folder):
    linker = spacy.blank("en").add_pipe("sapbert_linker")
    linker.initialize(terminology=terminology, encoder=static_folder)
    [checked] = check_labels(linker, [(SEIZURE[0], "abnormal movement of seizures")])
    nearest = [(one["id"], one["canonical_name"]) for one in linker.find(["abnormal movement of seizures"], k=3)[0]]
    assert list(checked.others) == nearest and len(nearest) == 3
    # Of another id, the same label is no name; of the nearest one, it may be missing.
    for id_, name in nearest:
        [checked] = check_labels(linker, [(id_, "abnormal movement of seizures")])
        assert checked.label_status == ("missing" if (id_, name) == nearest[0] else "no name")
    with pytest.raises(TypeError, match="Item 0 is .'a'"):
        check_labels(linker, [("a",)])


texts = st.lists(st.sampled_from("cough Coughs fever of lung-disease disease".split()), min_size=1, max_size=3).map(
    " ".join
)


def is_turned(label, name):
    """Whether a label has the words of a name from another word on."""
    words, of_name = list_words(label), list_words(name)
    return any(words[start:] + words[:start] == of_name for start in range(len(words)))


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), texts, st.booleans()), min_size=1),
    st.lists(st.tuples(st.sampled_from("ABCD"), texts)),
)
def test_what_a_loop_over_all_names_finds(rows, pairs):
    builder = TerminologyBuilder()
    for id_, name, is_preferred in rows:
        builder.add_name(id_, name, preferred=is_preferred)
    for (id_, label), checked in zip(pairs, check_labels(terminology := builder.build(), pairs), strict=True):
        having = {other for other, name, _ in rows if len({*key_texts([name, label]).tolist()}) == 1}
        having = having or {other for other, name, _ in rows if is_turned(label, name)}
        expected = (
            {"no name", "missing"}
            if not having
            else {"name", "preferred name"}
            if id_ in having
            else {"name of others"}
        )
        assert checked.label_status in expected and checked.id_status == (
            "current" if id_ in terminology else "unknown"
        )
        assert not having or {other for other, _ in checked.others} == having - {id_}


ROWS = [("HP:0001250", "Seizure"), ("", "Seizure"), ("1.18682E+14", "Seizure"), ("HP:0001250", "1-Mar")]
ROWS += [("2026-03-01 00:00:00", "2026-03-01"), ("HP:0001251", " "), ("HP:0001251", 'say "ataxia", 3 E+1')]
# What is wrong, the column, the number of rows, and the first of them.
FAULTS = [(EMPTY, "id", 1, 3), (CHANGED, "id", 2, 4), (EMPTY, "label", 1, 7), (CHANGED, "label", 2, 5)]


def write_rows(path, rows=ROWS):
    frame = pl.DataFrame([(*row, "x") for row in rows], ["id", "label", "more"], orient="row").select(
        "more", "label", "id"
    )
    if path.suffix == ".tsv":
        path.write_text("".join("\t".join(row) + "\r\n" for row in [frame.columns, *frame.rows()]))
    elif path.suffix == ".csv":
        frame.write_csv(path, separator=";", include_bom=True)
    elif path.suffix == ".jsonl":
        path.write_bytes(b"\xef\xbb\xbf" + frame.write_ndjson().encode())
    else:
        frame.write_parquet(path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_damaged_cells_are_counted_in_each_format(tmp_path, suffix):
    rows, faults = read_labels(write_rows(tmp_path / f"pairs.{suffix}"), "id", "label")
    shift = suffix in ("jsonl", "parquet")
    assert rows == [(2 - shift, *ROWS[0]), (8 - shift, *ROWS[-1])]
    assert faults == [fault.format(column, n, first - shift) for fault, column, n, first in FAULTS]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", "ident,label\nA,b\n", "has no column 'id'. .*: ident, label. .*--id-column"),
        ("a.csv", "id,label\nA,b\nA,b,c\n", "line 3: 3 fields were found, but there are 2 columns. Correct it"),
        ("a.csv", b"id,label\nA,gr\xfcn\n", "line 2: the byte 0xfc .* is not UTF-8, so set `encoding` .--encoding"),
        (
            "a.csv",
            "Report\n\nid,label\nA,b\n",
            "'id'. .*: Report. Name these .*If line 3 is .*--skip-lines 2",
        ),
        ("a.csv", "Report\nident,label\nA,b\nC,d\n", "'id'. .*: Report. Name these .*If line 2 is the header"),
        ("a.csv", b"PK\x03\x04\x14\0", "a.csv is a workbook. Save its sheet as CSV"),
        ("a.csv", "id,label\n", "has no row below its header"),
        ("a.tsv", "", "can't be read as a table"),
        ("a.jsonl", '{"id": "A"', "can't be read as a table"),
        ("a.parquet", "id,label\n", "can't be read as a table"),
        ("a.xlsx", "PK", "a.xlsx is a workbook. Save its sheet as CSV"),
    ],
)
def test_files_that_are_no_such_table_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        read_labels(tmp_path / name, "id", "label")


def test_rows_have_the_numbers_of_their_lines_and_blank_lines_are_no_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('row,label\nA,b\n\n"C","d, e"\n')
    assert read_labels(path, "row", "label") == ([(2, "A", "b"), (4, "C", "d, e")], [])
    with pytest.raises(ValueError, match="both in the column 'label'"):
        read_labels(path, "label", "label")
    # A single column has quotes, too.
    path.write_text('"label"\nAsthma\n"Fracture, closed"\n"two\nlines"\n')
    assert read_rows(path, ("label",), "")[0]["label"].to_list() == ["Asthma", "Fracture, closed", "two\nlines"]


# Tables as programs write them: the name of the file, its bytes, what is needed to read it, and the first row's number.
TEXT = "id,label\nA,Fièvre\nB,d e\n"
WRITTEN = [
    ("a.csv", TEXT.encode("utf-16"), {}, 2),
    ("a.CSV", TEXT.encode("cp1252"), {"encoding": "cp1252"}, 2),
    ("a.TSV", TEXT.replace(",", "\t").encode(), {}, 2),
    ("a.csv", TEXT.replace("\n", "\r").encode(), {}, 2),
    ("a.csv", TEXT.replace(",", "|").encode(), {}, 2),
    ("a.csv", b"Patients, all of them\n\n" + TEXT.encode(), {"skip_lines": 2}, 4),
    ("a.JSONL", b'{"id": "A", "label": "Fi\xc3\xa8vre"}\n{"id": "B", "label": "d e"}\n', {}, 1),
]


@pytest.mark.parametrize("name, data, how, first_row", WRITTEN)
def test_tables_are_read_as_programs_write_them(tmp_path, name, data, how, first_row):
    (tmp_path / name).write_bytes(data)
    rows, faults = read_labels(tmp_path / name, "id", "label", **how)
    assert rows == [(first_row, "A", "Fièvre"), (first_row + 1, "B", "d e")] and not faults


def run(*words):
    result = CliRunner().invoke(app, ["check", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_the_command_ends_like_a_linter(tmp_path, obo):
    right = write_rows(tmp_path / "right.csv", ROWS[:1])
    wrong = write_rows(tmp_path / "wrong.csv", [*ROWS[:1], ("HP:0000001", "Ataxia")])
    code, text = run(right, "--terminology", obo)
    assert code == 0 and "1: current id, preferred name" in text and "found" not in text
    code, text = run(wrong, "--terminology", obo)
    assert code == 1 and "retired, HP:0001250 took its place; the label is a name of HP:0001251 (Ataxia)" in text
    code, text = run(write_rows(tmp_path / "bad.csv"), "--terminology", obo, "--json")
    data = json.loads(text[text.index("{") :])
    assert code == 2 and len(data["faults"]) == 4 and [pair["row"] for pair in data["pairs"]] == [2, 8]
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ValueError, match="The pipeline .*blank has no sapbert_linker"):
        CliRunner().invoke(app, ["check", str(right), "--terminology", str(tmp_path / "blank")], catch_exceptions=False)
    assert data["pairs"][0]["is_right"] and data["counts"]["current id, preferred name"] == 1


@pytest.mark.parametrize(
    "id_", ["x" * 200_000, "x" * 200_000 + "1", "-" * 200_000, "1" * 200_000 + "x", "x1" * 100_000], ids=range(5)
)
def test_a_long_id_takes_a_time_that_grows_with_its_length(id_):
    start = time.process_time()
    _read_parts(id_)
    assert time.process_time() - start < 1


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path, obo):
    code = "\x1b]0;owned\x07\x9b31m"
    file = write_rows(tmp_path / "a.csv", [(f"HP:1{code}", f"red{code}"), ("HP:0001250", "Seizure")])
    for options in ((), ("--json",)):
        _, text = run(file, "--terminology", obo, *options)
        assert "owned" in text and not set(code).difference("]0;owned31m").intersection(text)


@pytest.mark.filterwarnings("ignore:.*so the terminology is without")
@pytest.mark.parametrize("kind", ["table", "jsonl", "saved", "pipeline", "rrf", "rf2", "athena"])
def test_the_command_reads_any_terminology(tmp_path, terminology, kind):
    path, id_ = tmp_path / "source", "C0036572"
    if kind == "table":
        (path := tmp_path / "names.tsv").write_text(f"id\tname\n{id_}\tSeizure\n")
    elif kind == "jsonl":
        record = {"concept_id": id_, "canonical_name": "Seizure", "aliases": []}
        (path := tmp_path / "names.jsonl").write_text(json.dumps(record))
    elif kind == "rrf":
        write_release(path, MRCONSO=[atom(id_, "Seizure")])
    elif kind == "rf2":
        release, id_ = Release(), "91175000"
        release.concept(id_, "Seizure (finding)", "Seizure")
        release.write(path)
    elif kind == "athena":
        download, id_ = Download(), "377091"
        download.concept(id_, "Seizure")
        download.write(path)
    elif kind == "saved":
        terminology.to_disk(path)
        id_ = "HP:0001250"
    else:
        nlp, id_ = spacy.blank("en"), "HP:0001250"
        nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
        nlp.to_disk(path)
    assert run(write_rows(tmp_path / "pairs.csv", [(id_, "seizures")]), "--terminology", path)[0] == 0


def test_the_command_refuses_ontologies_in_owl(tmp_path):
    (path := tmp_path / "hp.owl").write_text("<rdf:RDF/>")
    with pytest.raises(ValueError, match="hp.owl: the command reads ontologies in OBO"):
        pairs = write_rows(tmp_path / "pairs.csv")
        CliRunner().invoke(app, ["check", str(pairs), "--terminology", str(path)], catch_exceptions=False)
