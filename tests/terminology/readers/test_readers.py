"""Readers of files with a record on each line, and what all readers share: lines, malformed records, settings."""

import csv
import gzip
import hashlib
import importlib
import inspect
import json
import pickle
import re

import numpy as np
import polars as pl
import pytest
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from rrf_files import atom
from spacy.util import registry

import spacy_sapbert
from spacy_sapbert.settings import list_settings
from spacy_sapbert.terminology import read_jsonl, read_obo, read_rrf, read_table
from spacy_sapbert.terminology.readers.jsonl import make_jsonl_reader
from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8
from spacy_sapbert.terminology.readers.rrf import RrfSettings
from spacy_sapbert.terminology.readers.table import make_table_reader
from spacy_sapbert.text import normalize_name

pytestmark = pytest.mark.filterwarnings("ignore:.*so the terminology is without")
READERS = {name.removeprefix("read_") for name in dir(spacy_sapbert) if name.startswith("read_")} - {"obo_relations"}


def test_only_newlines_end_lines_and_invalid_utf8_can_be_told(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes("\ufeffa\u2028b\r\n\x85c\x0b\n\nd\re".encode())
    assert list(SourceFile(path).lines()) == [(1, "a\u2028b"), (2, "\x85c\x0b"), (3, ""), (4, "d\re")]
    ends = [text for _, text in SourceFile(path).lines(keep_ends=True)]
    assert ends == ["a\u2028b\r\n", "\x85c\x0b\n", "\n", "d\re"]
    path.write_bytes(b"gr\xc3\xbcn\ngr\xfcn\n\xed\xa0\xbd\n")
    none, *reasons = [invalid_utf8(text) for _, text in SourceFile(path).lines()]
    assert none is None and "0xfc at character 3" in reasons[0] and "0xed at character 1" in reasons[1]


@pytest.mark.parametrize("name, is_packed", [("file.txt.gz", True), ("file.txt", True), ("file.txt", False)])
def test_gzip_is_found_by_content_and_files_are_hashed_whole(tmp_path, name, is_packed):
    data = b"".join(b"line %d\n" % i for i in range(50_000))
    stored = gzip.compress(data[:1000]) + gzip.compress(data[1000:]) if is_packed else data
    (tmp_path / name).write_bytes(stored)
    source = SourceFile(tmp_path / name)
    lines = list(source.lines())
    assert lines[-1] == (50_000, "line 49999") and len(lines) == 50_000
    assert source.describe() == {"name": name, "sha256": hashlib.sha256(stored).hexdigest()}


def test_damaged_and_missing_files_are_errors(tmp_path):
    data = gzip.compress(b"".join(b"line %d\n" % i for i in range(50_000)))
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    for damaged in (data[:-1], data[: len(data) // 2], data[:5], bytes(flipped), data + b"more", b"<html>"):
        (tmp_path / "file.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match="file.gz"):
            list(SourceFile(tmp_path / "file.gz").lines())
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        SourceFile(tmp_path / "nowhere.tsv")
    with pytest.raises(IsADirectoryError, match=rf"{tmp_path} is a folder"):
        SourceFile(tmp_path)


@pytest.mark.parametrize("name", sorted(READERS))
def test_signatures_have_the_settings_and_wrong_ones_are_refused_at_once(name, tmp_path):
    module = importlib.import_module(f"spacy_sapbert.terminology.readers.{name}")
    title = {"obographs": "OboGraphs"}.get(name) or name.title().replace("_", "")
    # The readers of ontologies share their settings.
    settings = getattr(module, "OboSettings" if name in ("obographs", "owl") else f"{title}Settings")
    reader = getattr(spacy_sapbert, f"read_{name}")
    make = registry.misc.get(f"spacy-sapbert.{title}Terminology.v1")
    assert make.__name__ == f"make_{name}_reader"
    for function in (reader, make):
        path, *keywords = inspect.signature(function).parameters.values()
        assert path.name == "path" and path.default is path.empty
        assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in keywords)
        assert {p.name: p.default for p in keywords} == settings().to_dict()
    assert all(row.meaning and row.default for row in list_settings(settings))
    # Configs are sent to other processes.
    assert pickle.loads(pickle.dumps(make("a path", errors="skip"))).keywords == {"errors": "skip"}
    with pytest.raises(ValueError, match=rf"errors of `{reader.__name__}`: Input should be .*'skip', not 'ignore'"):
        reader(tmp_path / "none", errors="ignore")
    with pytest.raises(ValueError, match=rf"eror of `{make.__name__}`: There is no such setting. Did you mean errors"):
        make(str(tmp_path / "none"), eror="skip")
    with pytest.raises(FileNotFoundError):
        make(str(tmp_path / "none"))()


@pytest.mark.parametrize("make", [list, set, tuple, np.array, pl.Series])
def test_any_collection_is_a_list_and_reports_sort_it(make):
    languages = make(["GER"] if make is set else ["GER", "ENG"])
    settings = RrfSettings(languages=languages, max_restriction_level=np.int64(3), lower_case=np.bool_(True))
    given = {"languages": sorted(languages), "max_restriction_level": 3, "lower_case": True}
    assert settings.to_dict() == {**RrfSettings().to_dict(), **given}


def write_jsonl(path, *records):
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_jsonl_has_the_form_of_scispacy(tmp_path):
    second = {"concept_id": "C0", "canonical_name": "Cough", "aliases": [], "definition": "A\u2028sound.", "x": 1}
    path = write_jsonl(tmp_path / "kb.jsonl", GOOD, b"", second)
    terminology = make_jsonl_reader(str(path), source="UMLS", language="GER")()
    assert terminology["C1"].names == ("Asthma", "asthma")
    assert terminology["C1"].types == ("T047",) and terminology["C1"].definition is None
    assert terminology["C0"].definition == "A\u2028sound."
    rows = terminology.names.select("language", "source", "preferred").rows()
    assert rows == [("GER", "UMLS", preferred) for preferred in (True, True, False)]
    report = terminology.report
    assert report["read"] == {"records": 2} and report["ignored_keys"] == {"x": 1}
    assert report["dropped"]["duplicate_names"] == 1
    with pytest.raises(ValueError, match=r"The terminology is empty: kb\.jsonl"):
        read_jsonl(write_jsonl(path, b""))


def test_only_the_first_malformed_records_are_kept_as_examples(tmp_path):
    path = write_jsonl(tmp_path / "kb.jsonl", GOOD, *[b"{}"] * 30)
    with pytest.warns(UserWarning, match="30 malformed"):
        report = read_jsonl(path, errors="skip").report
    assert report["dropped"]["malformed"] == 30 and len(report["malformed_examples"]) == 20


TABLE = {c: f"{c}_column" for c in ("canonical_name types definition language source term_type preferred").split()}


def test_tables_have_every_column(tmp_path):
    path = tmp_path / "names.tsv"
    header = ["preferred", "id", "name", *list(TABLE)[:-1]]
    rows = [
        ["Y", "C2", 'a "quoted" name', "Shown", "T1|T2|", "What it is.", "GER", "MSH", "MH"],
        ["0", "C1", "other", "", "", "", "", "", ""],
        ["n", "C2", "again, with comma", "", "T3", "", "", "SNOMED", "PT"],
    ]
    path.write_bytes("\ufeff".encode() + "\r\n".join("\t".join(r) for r in [header, *rows]).encode())
    terminology = make_table_reader(str(path), **{setting: column for column, setting in TABLE.items()})()
    concept = terminology["C2"]
    assert concept.canonical_name == "Shown" and concept.definition == "What it is."
    assert concept.types == ("T1", "T2", "T3") and terminology.report["read"] == {"rows": 3}
    assert terminology.names.rows() == [
        ("other", 0, "ENG", "", "", False),
        ('a "quoted" name', 1, "GER", "MSH", "MH", True),
        ("again, with comma", 1, "ENG", "SNOMED", "PT", False),
    ]
    (tmp_path / "names.txt").write_text("x;C1;a;T1+T2\n")
    given = {"header": ["skip", "id", "name", "types"], "types_column": "types"}
    terminology = read_table(tmp_path / "names.txt", delimiter=";", list_separator="+", **given)
    assert terminology["C1"].types == ("T1", "T2") and terminology.report["read"] == {"rows": 1}


names = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00\t\n|"), max_size=10)
pairs = st.lists(st.tuples(st.text("C012", min_size=1), names.filter(normalize_name)), min_size=1)


def write_pairs(path, pairs):
    """Write pairs of id and name in the form that a file's ending says; return the reader."""
    rows = [("id", "name"), *pairs]
    if path.suffix == ".csv":
        with path.open("w", encoding="utf8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    elif path.suffix == ".tsv":
        path.write_bytes("".join(f"{id_}\t{name}\n" for id_, name in rows).encode())
    else:
        grouped = {id_: [name for other, name in pairs if other == id_] for id_, _ in pairs}
        records = [{"concept_id": id_, "canonical_name": of[0], "aliases": of} for id_, of in grouped.items()]
        path.write_text(
            "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf8", newline=""
        )
    return read_jsonl if path.suffix == ".jsonl" else read_table


# Tables as programs write them: the name of the file, its bytes, and settings that it needs.
ROWS_OF_FEVER = "id,name\nA,Fièvre\nB,cough\n"
WRITTEN = [
    ("a.csv", ROWS_OF_FEVER.encode("utf-16"), {}),
    ("a.csv", b"\xfe\xff" + ROWS_OF_FEVER.encode("utf-16-be"), {}),
    ("a.tsv", ROWS_OF_FEVER.replace(",", "\t").replace("\n", "\r\n").encode("utf-16"), {}),
    ("a.csv", ROWS_OF_FEVER.encode("utf-16-le"), {"encoding": "utf-16-le"}),
    ("a.csv", ROWS_OF_FEVER.encode("cp1252"), {"encoding": "cp1252"}),
    ("a.csv", gzip.compress(ROWS_OF_FEVER.encode("latin-1"), mtime=0), {"encoding": "latin-1"}),
    ("a.csv", ROWS_OF_FEVER.encode("utf-8-sig"), {"encoding": "utf-8"}),
    ("a.csv", ROWS_OF_FEVER.replace("\n", "\r").encode("mac-roman"), {"encoding": "mac-roman"}),
    ("a.csv", ROWS_OF_FEVER.replace("\n", "\r").encode(), {}),
    ("a.csv", b'id,name,note\rA,Fi\xc3\xa8vre,"two\nlines"\rB,cough,\r', {}),
    ("a.txt", ROWS_OF_FEVER.replace("\n", "\r").replace(",", "\t").encode(), {}),
    ("A.CSV", ROWS_OF_FEVER.encode(), {}),
    ("A.TSV", ROWS_OF_FEVER.replace(",", "\t").encode(), {}),
    ("a.csv", ROWS_OF_FEVER.replace(",", "|").encode(), {}),
    ("a.txt", b"A|Fi\xc3\xa8vre\nB|cough\n", {"header": ["id", "name"]}),
    ("a.csv", b"Export of May, 2020\n\n" + ROWS_OF_FEVER.encode(), {"skip_lines": 2}),
    ("a.csv", b"\n\r\n" + ROWS_OF_FEVER.encode(), {}),
]


@pytest.mark.parametrize("name, data, settings", WRITTEN)
def test_tables_are_read_as_programs_write_them(tmp_path, name, data, settings):
    (tmp_path / name).write_bytes(data)
    terminology = read_table(tmp_path / name, **settings)
    assert (terminology["A"].names, terminology["B"].names) == (("Fièvre",), ("cough",))
    assert terminology.report["files"][0]["sha256"] == hashlib.sha256(data).hexdigest()


@cases("joined_names")
def test_names_that_are_joined_in_a_cell_are_divided(tmp_path, cell, names):
    path = tmp_path / "a.csv"
    path.write_text(f"cui,name,ontologies,name_status,type_ids\nA,{cell},SNO|ICD,P,T047|T046\n")
    columns = {"id_column": "cui", "types_column": "type_ids", "source_column": "ontologies"}
    terminology = read_table(path, **columns)
    assert list(terminology["A"].names) == names and terminology["A"].types == ("T047", "T046")
    assert terminology.report["divided_names"] == (len(names) > 1)
    assert terminology["A"].canonical_name == names[0] and set(terminology.names["source"]) == {"SNO|ICD"}
    assert read_table(path, **columns, name_separator=None)["A"].names == (cell,)
    semicolons = read_table(path, **columns, name_separator=";")
    assert semicolons["A"].names == (cell,)


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
@given(pairs)
def test_what_goes_in_comes_out(tmp_path, suffix, pairs):
    read = write_pairs(tmp_path / f"names.{suffix}", pairs)
    naive = {}
    for concept_id, name in pairs:
        naive.setdefault(concept_id, {})[normalize_name(name)] = None
    terminology = read(tmp_path / f"names.{suffix}")
    found = {i: terminology[i].names for i in terminology.concepts["id"]}
    assert found == {concept_id: tuple(names) for concept_id, names in naive.items()}


listed = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="|"), max_size=8)
rows_of_names = st.lists(st.tuples(st.text("C012", min_size=1), st.lists(listed.filter(normalize_name), min_size=1)))


@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
@given(rows_of_names.filter(bool), st.permutations(["id", "name", "synonyms"]), st.booleans())
def test_synonyms_and_any_delimiter(tmp_path, delimiter, ending, rows, header, quoted):
    """Whatever a file is called, and however its columns are arranged, a row gives its name and its synonyms."""
    values = [{"id": id_, "name": first, "synonyms": "|".join(["", *others])} for id_, (first, *others) in rows]
    lines = [[row[column] for column in header] for row in [{column: column for column in header}, *values]]
    path = tmp_path / f"names.{ending}"
    with path.open("w", encoding="utf8", newline="") as file:
        if delimiter == "\t":
            file.writelines("\t".join(line) + "\n" for line in lines)
        else:
            style = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
            csv.writer(file, delimiter=delimiter, quoting=style).writerows(lines)
    naive = {}
    for id_, listed in rows:
        naive.setdefault(id_, {}).update(dict.fromkeys(map(normalize_name, listed)))
    terminology = read_table(path, synonyms_column="synonyms")
    assert {i: terminology[i].names for i in terminology.concepts["id"]} == {i: tuple(of) for i, of in naive.items()}


@cases("lists_not_read")
def test_lists_are_not_ignored_without_a_word(tmp_path, recwarn, text, settings, message):
    (tmp_path / "a.csv").write_text(text)
    read_table(tmp_path / "a.csv", **settings)
    said = [str(warning.message) for warning in recwarn]
    assert (re.search(message, said[0]) and len(said) == 1) if message else not said


ATHENA = (
    "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept concept_code valid_start_date "
    "valid_end_date invalid_reason"
).split()


def write_athena(folder, *names, reasons=()):
    """Write CONCEPT.csv as Athena hands it out: tabs, and no quoting."""
    ends = dict(enumerate(reasons))
    rows = [
        [f"{i}", name, "Drug", "RxNorm", "Brand", "S", f"R{i}", "1970", "2099", ends.get(i, "")]
        for i, name in enumerate(names)
    ]
    (folder / "CONCEPT.csv").write_bytes("".join("\t".join(row) + "\r\n" for row in [ATHENA, *rows]).encode())
    return folder / "CONCEPT.csv"


def test_athenas_concepts_are_read_as_downloaded(tmp_path, capsys):
    names = ['5" or greater', 'Rocky Boy"s', "NA", "old", '"', "kept"]
    path = write_athena(tmp_path, *names, reasons=["", "", "", "D", "", "NULL"])
    terminology = make_table_reader(str(path))()
    assert {i: terminology[i].names for i in terminology.concepts["id"]} == {
        str(i): (name,) for i, name in enumerate(names) if name != "old"
    }
    assert terminology["0"].types == ("Drug",) and terminology["0"].codes == ("RxNorm:R0",)
    assert terminology.names.row(0) == (names[0], 0, "ENG", "RxNorm", "Brand", False)
    assert terminology.report["dropped"]["invalid_concepts"] == 1
    assert capsys.readouterr().err == "", "nothing unexpected happened"
    own = read_table(path, id_column="concept_code", types_column="concept_class_id")
    assert own["R2"].names == ("NA",) and own["R2"].types == ("Brand",)
    with pytest.raises(ValueError, match=r"CONCEPT\.csv, line 3: 11 fields were found, but there are 10 columns"):
        read_table(write_athena(tmp_path, "fine", "a\tb"))


ODD_IDS = ["7/1/1751", "01/07/51", "1751-07-01", "1751/7/1", "01.07.1751", "1-Jul", "1-Jul-51", "168537006.0"]
ODD_IDS += ["1.68537E+08", "2E+05", "Mar-01"]
# CUIs, codes of ICD-9 and ICD-O, CAS numbers, LOINC, EC numbers, genes.
IDS = [
    "C0018681",
    "250.0",
    "37.0",
    "8140/3",
    "50-02-2",
    "7440-44-0",
    "8310-5",
    "1.14.13.39",
    "MARCH1",
    "MAR-10",
    "168537006",
]


@pytest.mark.parametrize("id_", [*ODD_IDS, *IDS])
@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_ids_that_became_dates_or_decimal_numbers_are_told(tmp_path, recwarn, id_, suffix):
    path = tmp_path / f"names.{suffix}"
    assert id_ in write_pairs(path, [(id_, "fever"), ("C1", "cough")])(path)
    said = [str(warning.message) for warning in recwarn]
    if id_ in IDS:
        assert not said
    else:
        [text] = said
        assert f"{path}: 1 ids look like dates or decimal numbers, such as {id_!r}" in text


# Lines in the form of the files that CMS and Regenstrief hand out.
ICD_10_CM = [
    "00001 A00     0 Cholera                                                      Cholera",
    "00002 A000    1 Cholera due to Vibrio cholerae 01, biovar cholerae           Cholera due to Vibrio cholerae 01, "
    "biovar cholerae",
    "10862 I219    1 Acute myocardial infarction, unspecified                     Acute myocardial infarction, "
    "unspecified",
]
LOINC = """"LOINC_NUM","COMPONENT","PROPERTY","SYSTEM","CLASS","STATUS","SHORTNAME","LONG_COMMON_NAME","DisplayName"
"2345-7","Glucose","MCnc","Ser/Plas","CHEM","ACTIVE","Glucose SerPl-mCnc","Glucose [Mass/volume] in Serum","Glucose"
"8310-5","Body temperature","Temp","^Patient","BDYTMP.MOLEC","ACTIVE","Body temperature","Body temperature",""
"1-8","Acyclovir","Susc","Isolate","ABXBACT","DEPRECATED","Acyclovir Susc","Acyclovir ""old"" [Susceptibility]",""
"""


def test_icd_10_cm_and_loinc_are_read_in_two_lines(tmp_path):
    order, table = tmp_path / "icd10cm_order_2026.txt", tmp_path / "icd10cm.tsv"
    order.write_bytes("".join(f"{line}\r\n" for line in ICD_10_CM).encode())
    (tmp_path / "Loinc.csv").write_text(LOINC)

    # Columns of fixed width: the code, and the long description.
    rows = [f"{line[6:13].strip()}\t{line[77:]}\n" for line in order.read_text().splitlines()]
    table.write_text("".join(["id\tname\n", *rows]))
    icd = read_table(table)
    assert icd["I219"].names == ("Acute myocardial infarction, unspecified",)
    assert icd["A000"].names == ("Cholera due to Vibrio cholerae 01, biovar cholerae",)

    columns = {"id_column": "LOINC_NUM", "name_column": "LONG_COMMON_NAME", "synonyms_column": "DisplayName"}
    loinc = read_table(tmp_path / "Loinc.csv", types_column="CLASS", **columns)
    assert loinc["2345-7"].names == ("Glucose [Mass/volume] in Serum", "Glucose")
    assert loinc["1-8"].names == ('Acyclovir "old" [Susceptibility]',) and loinc["2345-7"].types == ("CHEM",)


GOOD = {"concept_id": "C1", "canonical_name": "Asthma", "aliases": ["asthma", "Asthma"], "types": ["T047"]}
ROWS = [
    (b"C2", "1 fields were found, but there are 2 columns"),
    (b"C2\ta\tb", "3 fields were found"),
    (b"\ta", "as the id of a concept"),
    (b"NIL\ta", "stands for a mention without a concept"),
    (b"C2\t  ", "the name of 'C2' is empty"),
    (b"C2\tgr\xfcn", "0xfc"),
    (b"id\tname", "repeats the header"),
]
TERMS = [
    (b"[Term]\nid: X:2 3\nname: b\n", 1, "not valid OBO"),
    (b"[Term]\nid: X:\xfc\nname: b\n", 1, "0xfc"),
    (b"[Term]\nname: b\n", 0, "one line 'id:', not 0"),
    (b"[Term]\nid: X:2\nid: X:3\nname: b\n", 0, "one line 'id:', not 2"),
    (b"[Trem]\nid: X:2\nname: b\n", 0, "not a kind of stanza"),
    (b'[Term]\nid: X:2\nsynonym: "b" EXACT []\nname:\n', 3, "not valid OBO"),
    (b"[Term]\nid: X:2\nname: gr\xfcn\n", 2, "0xfc"),
    (b"[Term]\nid: C1\nname: b\n", 0, "on line 5 already"),
    (b"[Term]\nid: X:2\xc2\x853\nname: b\n", 0, "as the id of a concept"),
    (b"[Term]\nid: NIL\nname: b\n", 0, "stands for a mention without a concept"),
]
RECORDS = [
    (b'{"concept_id": "C2"', "Invalid JSON"),
    (b"[" * 100_000, "Invalid JSON"),
    (b'["C2"]', "should be an object"),
    (b'"\xff"', "0xff"),
    ({"concept_id": "C2", "canonical_name": "a"}, "aliases: Field required"),
    ({**GOOD, "concept_id": 2}, "concept_id: Input should be a valid string, not 2"),
    ({**GOOD, "concept_id": "C2", "aliases": ["a", None]}, "aliases.1: Input should be a valid string"),
    ({**GOOD, "concept_id": "C 2"}, "as the id of a concept"),
    ({**GOOD, "concept_id": "NIL"}, "stands for a mention without a concept"),
    ({**GOOD, "concept_id": "C2", "aliases": ["fine", "\ud83d"]}, "Invalid JSON"),
    ({**GOOD, "concept_id": "C1", "aliases": ["lost"]}, "on line 1 already"),
]
LINES = [
    (b"C1|ENG|too short|", "3 fields were found, but there are 18"),
    (atom("C1", "good").encode() + b"more|", "19 fields were found"),
    (atom("C1", "good").encode() + b"more", "19 fields were found"),
    (atom("C1", "x").encode().replace(b"x", b"gr\xfcn"), "0xfc"),
    (b"\x00\x01\x02", "1 fields were found"),
]
# A good record before the malformed one, and one behind it.
TSV = b"id\tname\n\nC1\ta\n%s\nC3\tc\n"
HEAD = b"format-version: 1.2\nontology: x\n! a comment\n\n[Term]\nid: C1\nname: a\n\n"
LAST = b"\n[Term]\nid: C3\nname: c\n"
ATOM, OTHER = (atom(concept_id, name).encode() for concept_id, name in (("C1", "a"), ("C3", "c")))
MALFORMED = [
    *((read_table, "a.tsv", TSV % row, 4, reason) for row, reason in ROWS),
    *((read_table, "a.csv", (TSV % row).replace(b"\t", b","), 4, reason) for row, reason in ROWS),
    *((read_obo, "a.obo", HEAD + stanza + LAST, 9 + line, reason) for stanza, line, reason in TERMS),
    *((read_jsonl, "a.jsonl", [GOOD, b"", row, {**GOOD, "concept_id": "C3"}], 3, reason) for row, reason in RECORDS),
    *((read_rrf, "MRCONSO.RRF", b"%s\n%s\n%s\n" % (ATOM, line, OTHER), 2, reason) for line, reason in LINES),
    # The last line is cut off.
    (
        read_rrf,
        "MRCONSO.RRF",
        b"%s\n%s\n%s" % (ATOM, OTHER, atom("C2", "b").encode().partition(b"|b|")[0]),
        3,
        "13 fields",
    ),
]


@pytest.mark.parametrize("read, name, content, line, reason", MALFORMED)
def test_malformed_records_are_refused_with_their_line_or_counted(tmp_path, read, name, content, line, reason):
    path = tmp_path / name
    if read is read_jsonl:
        write_jsonl(path, *content)
    else:
        path.write_bytes(content)
    source = tmp_path if read is read_rrf else path
    with pytest.raises(ValueError, match=rf"{name}, line {line}: .*{reason}"):
        read(source)
    with pytest.warns(UserWarning, match="1 malformed"):
        terminology = read(source, errors="skip")
    assert terminology.concepts["id"].to_list() == ["C1", "C3"]
    assert terminology["C1"].names == (("Asthma", "asthma") if read is read_jsonl else ("a",))
    assert terminology.report["dropped"]["malformed"] == 1
    (example,) = terminology.report["malformed_examples"]
    assert example.startswith(f"{name}:{line}: ") and reason in example


def test_csv_line_numbers_with_fields_over_lines(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text('definition,id,name\n"a\n\nb",C1,n\nx,C2,"c"d\nx,C3,"e""e"\nC4\n')
    with pytest.raises(ValueError, match="line 5: "):
        read_table(path, definition_column="definition")
    with pytest.warns(UserWarning, match="2 malformed"):
        terminology = read_table(path, definition_column="definition", errors="skip")
    assert terminology["C1"].definition == "a\n\nb" and terminology["C3"].names == ('e"e',)
    assert [e.split()[0] for e in terminology.report["malformed_examples"]] == ["names.csv:5:", "names.csv:7:"]


@pytest.mark.parametrize(
    "name, text, settings, message",
    [
        ("a.tsv", "cui\tname\tname\nC1\ta\tb\n", {}, "has no column 'id'.*id_column.*'cui', 'name', 'name'"),
        ("a.tsv", "id\tname\tname\nC1\ta\tb\n", {}, "the header names the column 'name' 2 times"),
        ("a.csv", b"\xfcd,name\nA,b\n", {}, "line 1: the byte 0xfc .* is not UTF-8, so set `encoding`.*cp1252"),
        ("a.csv", b"id,name\nA,gr\xfcn\n", {}, "line 2: the byte 0xfc .* is not UTF-8, so set `encoding`.*cp1252"),
        ("a.tsv", "id\tname\n".encode("utf-16-le"), {}, "holds zero bytes.*in UTF-16. Set `encoding` to utf-16-le"),
        (
            "a.tsv",
            "id\tname\n".encode("utf-16")[:-1],
            {},
            "a.tsv is not in utf-16: .*truncated data. Give",
        ),
        ("a.csv", b"id,name\nA,\x81\n", {"encoding": "cp1252"}, "a.csv is not in cp1252: .*0x81.* Give the encoding"),
        ("a.csv", "id,name\n", {"encoding": "windows"}, "encoding of .*the name of an encoding, .*not 'windows'"),
        ("a.csv", "id,name\n", {"encoding": "rot13"}, "encoding of .*the name of an encoding, .*not 'rot13'"),
        ("a.csv", b"PK\x03\x04\x14\0", {}, "a.csv is a workbook. Save its sheet as CSV in UTF-8"),
        ("a.csv", b"\xd0\xcf\x11\xe0\xa1", {}, "a.csv is a workbook"),
        (
            "a.csv",
            "Report of 2020\n\nid,name\nA,b\n",
            {},
            "no column 'id'.*If line 3 is the header.*--skip-lines 2",
        ),
        ("a.csv", "a, b\nx\ncui,label,x\nA,b,c\nB,d,e\n", {}, "has no column 'id'.*If line 3 is the header"),
        ("a.tsv", "id\tname\nC1\ta\n", {"delimiter": "||"}, "delimiter"),
        ("a.csv", "cui;name\nC1;a\n", {}, "has no column 'id'.*'cui', 'name'.*delimiter .';'"),
        ("a.csv", 'id,name,alias\nC1,a,"b\nC2,c,d"\n', {"synonyms_column": "alias"}, "line 2: .*several lines"),
        ("a.txt", "", {"delimiter": "\t"}, "The terminology is empty: a.txt"),
        ("a.tsv", "id\tname\tp\nC1\ta\tmaybe\n", {"preferred_column": "p"}, "line 2: 'maybe'"),
        # A quote that is not closed does not swallow the rest, nor join rows into one name.
        ("a.csv", 'id,name\nC1,a\nC2,"b\nC3,c\nC4,d\n', {}, "line 3: .*the row ends on line 5"),
        ("a.csv", 'id,name\nC1,"Fever\nC2,cough\nC3,pain"\nC4,ache\n', {}, "line 2: .*several lines"),
    ],
)
def test_tables_and_settings_that_do_not_fit_are_refused(tmp_path, name, text, settings, message):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name, **settings)
