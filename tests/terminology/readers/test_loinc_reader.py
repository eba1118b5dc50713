"""Releases of LOINC, with invented codes."""

import gzip
import re

import pytest
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from loinc_files import CORE, list_parts, make_code, make_row, make_rows, write_release

from spacy_sapbert.terminology.licences import describe_sources
from spacy_sapbert.terminology.readers.loinc import check_code, compute_check_digit, make_loinc_reader, read_loinc

CREATININE, HEMOGLOBIN, *_ = list_parts()
FIRST, SECOND, THIRD = map(make_code, (1, 2, 3))


def read(tmp_path, *rows, maps=(), **settings):
    return read_loinc(write_release(tmp_path, rows, maps), **settings)


def test_names_parts_and_ranks_are_read(tmp_path):
    more = {"SHORTNAME": "Crea SerPl", "DisplayName": "Creatinine", "CONSUMER_NAME": "Creatinine, Blood"}
    more |= {"COMMON_TEST_RANK": "7", "RELATEDNAMES2": "Crea; SerPl;", "DefinitionDescription": "Of muscles,\nmostly."}
    terminology = read(tmp_path, make_row(1, CREATININE, **more), make_row(2, HEMOGLOBIN, COMMON_TEST_RANK="0"))
    concept = terminology[FIRST]
    assert concept.types == ("CHEM",) and concept.codes == (f"LNC:{FIRST}",) and concept.definition.endswith("mostly.")
    names = terminology.names.to_polars().filter(concept=0).select("name", "term_type", "preferred", "source").rows()
    long_name, full_name = concept.canonical_name, ":".join(CREATININE).removesuffix(":")
    kinds = {long_name: "LC", full_name: "LN 7", "Crea SerPl": "OSN", "Creatinine": "DN"}
    kinds["Creatinine, Blood"] = "BROAD consumer name"
    assert names == [(name, kind, name == long_name, "LNC") for name, kind in kinds.items()]
    assert "LN" in terminology.names_of(1)["term_type"]
    assert terminology.report["source_version"] == "2.80" and terminology.report["read"] == {"rows": 2}
    (source,) = describe_sources(terminology)
    assert source["abbreviation"] == "LNC" and source["license"] == "https://loinc.org/license"
    related = read(tmp_path, make_row(1, CREATININE, **more), related_names=True)
    assert {"Crea", "SerPl"} <= {*related[FIRST].names}


def test_retired_codes_are_found_by_what_took_their_place(tmp_path):
    old = [make_row(2, HEMOGLOBIN, STATUS="DEPRECATED"), make_row(3, HEMOGLOBIN, STATUS="DISCOURAGED")]
    rows = [make_row(1, CREATININE), make_row(4, HEMOGLOBIN, EXTERNAL_COPYRIGHT_NOTICE="Of others"), *old]
    fourth = make_code(4)
    terminology = read(tmp_path, *rows, maps=[(SECOND, FIRST), (THIRD, FIRST), (THIRD, fourth)])
    assert len(terminology) == 2 and terminology.find_id(SECOND) == FIRST and terminology.find_id(THIRD) is None
    assert terminology.retired.to_polars().filter(id=THIRD)["consider"].to_list() == [[FIRST, fourth]]
    dropped = terminology.report["dropped"]
    assert (dropped["deprecated_codes"], dropped["discouraged_codes"]) == (1, 1)
    assert terminology.report["codes_with_copyright_notice"] == 1
    (tmp_path / "MapTo.csv").unlink()
    with pytest.warns(UserWarning, match="MapTo.csv, so the terminology is without successors"):
        assert THIRD in read_loinc(tmp_path / "Loinc.csv").retired["id"]


def test_the_table_is_found_in_a_release(tmp_path):
    row = make_row(1, CREATININE, COMMON_TEST_RANK="7")
    core = {key: value for key, value in row.items() if key in CORE}
    write_release(tmp_path / "LoincTableCore", [core], [], CORE)
    assert "LN" in read_loinc(tmp_path).names["term_type"]
    path = write_release(tmp_path / "LoincTable", [row], [])
    assert "LN 7" in read_loinc(tmp_path).names["term_type"]
    assert make_loinc_reader(str(tmp_path))() == read_loinc(path)
    path.with_name("Loinc.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(ValueError, match="has several tables: LoincTable/Loinc.csv, LoincTable/Loinc.csv.gz"):
        read_loinc(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="neither Loinc.csv nor LoincTableCore.csv"):
        read_loinc(tmp_path / "empty")


@cases("loinc_refusals")
def test_changed_rows_are_refused(fields, message, tmp_path):
    rows = make_row(1, CREATININE, **fields), make_row(2, HEMOGLOBIN)
    with pytest.raises(ValueError, match=message):
        read(tmp_path, *rows)
    with pytest.warns(UserWarning, match="1 malformed records were skipped"):
        terminology = read(tmp_path, *rows, errors="skip")
    assert len(terminology) == 1 and terminology.report["dropped"]["malformed"] == 1
    assert re.search(message, terminology.report["malformed_examples"][0].replace("Loinc.csv:", "line "))


def test_changed_tables_are_refused(tmp_path):
    row = make_row(1, CREATININE)
    with pytest.raises(ValueError, match=f"line 3: the code {FIRST} is on line 2 already"):
        read(tmp_path, row, row)
    with pytest.raises(ValueError, match="has no column 'CLASS', but 'LOINC_NUM"):
        read_loinc(write_release(tmp_path, [], columns=[column for column in CORE if column != "CLASS"]))
    path = write_release(tmp_path, [row])
    path.write_text(path.read_text(encoding="utf8") + '"9","a"\r\n', encoding="utf8")
    with pytest.raises(ValueError, match="line 3: 2 fields were found, but there are 20 columns"):
        read_loinc(path)
    retired = make_row(2, HEMOGLOBIN, STATUS="DEPRECATED")
    with pytest.raises(ValueError, match="MapTo.csv, line 2: '9000002-1' is no LOINC code"):
        read(tmp_path, row, retired, maps=[("9000002-1", FIRST)])
    with pytest.raises(ValueError, match="class type '9'.*1 .laboratory"):
        read(tmp_path, row, class_types=["9"])
    with pytest.raises(ValueError, match="is empty"):
        read(tmp_path, retired, maps=[])


def test_kinds_of_codes_can_be_left_out(tmp_path):
    rows = make_row(1, CREATININE), make_row(2, HEMOGLOBIN, CLASSTYPE="4")
    terminology = read(tmp_path, *rows, class_types=["1"])
    assert [*terminology.concepts["id"]] == [FIRST] and terminology.report["dropped"]["class_type"] == 1


def test_the_order_of_rows_changes_nothing(tmp_path):
    rows = make_rows(with_ranks=True)
    assert len(rows) > 300
    assert read(tmp_path, *rows) == read(tmp_path, *reversed(rows))


@given(st.integers(min_value=1, max_value=9_999_999), st.integers(min_value=1, max_value=9), st.data())
def test_a_wrong_digit_is_always_seen(number, change, data):
    digits = str(number)
    code = f"{digits}-{compute_check_digit(digits)}"
    check_code(code)
    place = data.draw(st.integers(min_value=0, max_value=len(code) - 1).filter(lambda at: code[at] != "-"))
    other = str((int(code[place]) + change) % 10)
    with pytest.raises(ValueError, match="check digit would be"):
        check_code(code[:place] + other + code[place + 1 :])


@pytest.mark.parametrize("code", ["2345-7", "718-7", "2160-0", "6690-2", "4548-4", "10839-9", "100000-9"])
def test_the_check_digit_is_that_of_published_codes(code):
    check_code(code)
