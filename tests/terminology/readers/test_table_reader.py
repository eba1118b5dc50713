"""The TSV and CSV reader."""

import csv

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_sapbert.terminology.readers.table import make_table_reader, read_table
from spacy_sapbert.text import normalize_name

ALL_COLUMNS = {
    f"{c}_column": c for c in ("canonical_name", "types", "definition", "language", "source", "term_type", "preferred")
}


def test_reads_every_column(tmp_path):
    path = tmp_path / "names.tsv"
    header = ["preferred", "id", "name", *list(ALL_COLUMNS.values())[:-1]]
    rows = [
        ["Y", "C2", 'a "quoted" name', "Shown", "T1|T2|", "What it is.", "GER", "MSH", "MH"],
        ["0", "C1", "other", "", "", "", "", "", ""],
        ["n", "C2", "again, with comma", "", "T3", "", "", "SNOMED", "PT"],
    ]
    path.write_bytes("\ufeff".encode() + "\r\n".join("\t".join(r) for r in [header, *rows]).encode())
    terminology = make_table_reader(str(path), **ALL_COLUMNS)()
    concept = terminology["C2"]
    assert concept.canonical_name == "Shown" and concept.definition == "What it is."
    assert concept.types == ("T1", "T2", "T3")
    assert terminology.names.rows() == [
        ("other", 0, "ENG", "", "", False),
        ('a "quoted" name', 1, "GER", "MSH", "MH", True),
        ("again, with comma", 1, "ENG", "SNOMED", "PT", False),
    ]
    assert terminology.report["read"] == {"rows": 3}
    (tmp_path / "names.txt").write_text("x;C1;a;T1+T2\n")
    settings = {"header": ["skip", "id", "name", "types"], "types_column": "types"}
    terminology = read_table(tmp_path / "names.txt", delimiter=";", list_separator="+", **settings)
    assert terminology["C1"].types == ("T1", "T2") and terminology.report["read"] == {"rows": 1}


names = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00\t\n"), max_size=10)
pairs = st.lists(st.tuples(st.text("C012", min_size=1), names.filter(normalize_name)), min_size=1)


@pytest.mark.parametrize("suffix", ["tsv", "csv"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs)
def test_what_goes_in_comes_out(tmp_path, suffix, pairs):
    path = tmp_path / f"names.{suffix}"
    with path.open("w", encoding="utf8", newline="") as file:
        if suffix == "tsv":
            file.writelines(f"{i}\t{n}\n" for i, n in [("id", "name"), *pairs])
        else:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("id", "name"), *pairs])
    naive = {}
    for concept_id, name in pairs:
        naive.setdefault(concept_id, {})[normalize_name(name)] = None
    terminology = read_table(path)
    found = {i: terminology[i].names for i in terminology.concepts["id"]}
    assert found == {concept_id: tuple(names) for concept_id, names in naive.items()}


MALFORMED = [
    (b"C2", "1 fields were found, but there are 2 columns"),
    (b"C2\ta\tb", "3 fields were found"),
    (b"\ta", "as the id of a concept"),
    (b"C 2\ta", "as the id of a concept"),
    (b"C2\t  ", "the name of 'C2' is empty"),
    (b"C2\tgr\xfcn", "0xfc"),
]


@pytest.mark.parametrize("row, reason", MALFORMED)
@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_malformed_rows_raise_or_are_counted(tmp_path, suffix, row, reason):
    path = tmp_path / f"names{suffix}"
    data = b"id\tname\n\nC1\ta\n" + row + b"\nC3\tc\n"
    path.write_bytes(data if suffix == ".tsv" else data.replace(b"\t", b","))
    with pytest.raises(ValueError, match=rf"names{suffix}, line 4: .*{reason}"):
        read_table(path)
    with pytest.warns(UserWarning, match="1 malformed"):
        terminology = read_table(path, errors="skip")
    assert terminology.concepts["id"].to_list() == ["C1", "C3"]
    assert terminology.report["dropped"]["malformed"] == 1 and terminology.report["read"] == {"rows": 3}
    (example,) = terminology.report["malformed_examples"]
    assert example.startswith(f"names{suffix}:4: ") and reason in example


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
        ("a.tsv", "id\tname\nC1\ta\n", {"types_column": "types"}, "has no column 'types'.*types_column"),
        ("a.tsv", "id\tname\tname\nC1\ta\tb\n", {}, "the header names the column 'name' 2 times"),
        ("a.tsv", "id\tname\nC1\ta\n", {"delimiter": "||"}, "delimiter"),
        ("a.txt", "id\tname\nC1\ta\n", {}, "Can't tell the delimiter.*a.txt"),
        ("a.txt", "", {"delimiter": "\t"}, "The terminology is empty: a.txt"),
        ("a.tsv", "id\tname\tp\nC1\ta\tmaybe\n", {"preferred_column": "p"}, "line 2: 'maybe'"),
        # A quote that is not closed does not swallow the rest, nor join rows into one name.
        ("a.csv", 'id,name\nC1,a\nC2,"b\nC3,c\nC4,d\n', {}, "line 3: .*the row ends on line 5"),
        ("a.csv", 'id,name\nC1,"Fever\nC2,cough\nC3,pain"\nC4,ache\n', {}, "line 2: .*several lines"),
    ],
)
def test_files_and_settings_that_do_not_fit_are_refused(tmp_path, name, text, settings, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name, **settings)
