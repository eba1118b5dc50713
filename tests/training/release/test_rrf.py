"""What is written in Rich Release Format reads back as it was, by the reader and by a naive one."""

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from command_line import run_command
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.terminology import Terminology, TerminologyBuilder, read_rrf
from spacy_sapbert.terminology.readers.rrf_lines import COLUMNS
from spacy_sapbert.terminology.rows import Table
from spacy_sapbert.terminology.schemas import CONCEPTS
from training.release.rrf import write_rrf


def read_back(folder: Path) -> Terminology:
    return read_rrf(folder, languages=None, xrefs=True)


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    text = (folder / f"{name}.RRF").read_text(encoding="utf8")
    lines = text.split("\n")
    assert lines.pop() == ""
    split = [line.split("|") for line in lines]
    assert all(len(fields) == len(COLUMNS[name].split()) + 1 and fields[-1] == "" for fields in split)
    return [dict(zip(COLUMNS[name].split(), fields, strict=False)) for fields in split]


def without_unknown_parents(terminology: Terminology) -> Terminology:
    ids = terminology.concepts["id"].to_list()
    parents = pl.col("parents").list.eval(pl.element().filter(pl.element().is_in(ids)))
    concepts = Table.from_polars(terminology.concepts.to_polars().with_columns(parents), CONCEPTS)
    return Terminology(concepts, terminology.names)


@pytest.fixture
def terminology() -> Terminology:
    builder = TerminologyBuilder()
    builder.add_concept(
        "C1",
        types=["T047", "T191"],
        codes=["HPO:HP:1", "MSH:D1", "MSH:D2", "MSH:D3", "HPO:HP:2", "ICD10:X", "HPO:HP:3", "plain", "NOSAB:1"],
        parents=["C2", "C9"],
        definition="A disease.",
    )
    builder.add_name("C1", "second", source="HPO", term_type="EXACT")
    builder.add_name("C1", "first", source="MSH", term_type="MH", preferred=True)
    builder.add_name("C1", "Second", source="HPO")
    builder.add_name("C1", "second", source="MSH", term_type="ET")
    builder.add_name("C1", "zweiter", language="GER", preferred=True)
    builder.add_name("C2", "root")
    terminology = builder.build()
    sources = {"HPO": {"name": "Human | Phenotype", "version": "1 2", "restriction_level": 3, "licence": "its own"}}
    return Terminology(
        terminology.concepts, terminology.names, report={"sources": sources, "semantic_types": {"T047": "Disease"}}
    )


def test_files_have_the_form_of_umls(terminology, tmp_path):
    report = write_rrf(terminology, tmp_path)
    assert report == {
        "rows": {"MRCONSO": 8, "MRSTY": 2, "MRDEF": 1, "MRREL": 2, "MRSAT": 4, "MRSAB": 3},
        "dangling_parents": 1,
        "dangling_relations": 0,
        "replaced": {},
    }
    atoms = rows(tmp_path, "MRCONSO")
    keys = ("CUI", "LAT", "TS", "STT", "ISPREF", "SAB", "TTY", "CODE", "STR", "SRL")
    assert [tuple(atom[key] for key in keys) for atom in atoms] == [
        ("C1", "ENG", "S", "PF", "Y", "HPO", "EXACT", "HP:1", "second", "3"),
        ("C1", "ENG", "S", "PF", "N", "MSH", "EXACT", "D1", "second", "0"),
        ("C1", "ENG", "P", "PF", "Y", "MSH", "MH", "D2", "first", "0"),
        ("C1", "ENG", "S", "PF", "Y", "HPO", "", "HP:1", "Second", "3"),
        ("C1", "GER", "P", "PF", "Y", "NOSAB", "", "NOCODE", "zweiter", "0"),
        ("C1", "ENG", "S", "PF", "N", "MSH", "EXACT", "D3", "second", "0"),
        ("C1", "ENG", "S", "PF", "N", "HPO", "EXACT", "HP:2", "second", "3"),
        ("C2", "ENG", "P", "VO", "Y", "NOSAB", "", "NOCODE", "root", "0"),
    ]
    assert len({atom["AUI"] for atom in atoms}) == 8
    assert len({atom["SUI"] for atom in atoms}) == 5 and len({atom["LUI"] for atom in atoms}) == 4
    attributes = [(row["CUI"], row["ATN"], row["SAB"], row["ATV"]) for row in rows(tmp_path, "MRSAT")]
    assert attributes == [
        ("C1", "XREF", "ICD10", "X"),
        ("C1", "XREF", "HPO", "HP:3"),
        ("C1", "XREF", "NOSAB", "plain"),
        ("C1", "XREF", "NOSAB", "NOSAB:1"),
    ]
    relations = [(row["CUI1"], row["REL"], row["CUI2"], row["RELA"]) for row in rows(tmp_path, "MRREL")]
    assert relations == [("C1", "PAR", "C2", "inverse_isa"), ("C2", "CHD", "C1", "isa")], "2 is REL of 1"
    assert [(row["TUI"], row["STY"]) for row in rows(tmp_path, "MRSTY")] == [("T047", "Disease"), ("T191", "T191")]
    hpo = next(row for row in rows(tmp_path, "MRSAB") if row["RSAB"] == "HPO")
    assert (hpo["VSAB"], hpo["SON"], hpo["SRL"], hpo["SLC"]) == ("HPO_1_2", "Human / Phenotype", "3", "its own")
    assert len({row["ATUI"] for name in ("MRSTY", "MRDEF", "MRSAT") for row in rows(tmp_path, name)}) == 7


def test_files_are_described(terminology, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    write_rrf(terminology, tmp_path)
    columns = {(row["FIL"], row["COL"]): row for row in rows(tmp_path, "MRCOLS")}
    for file in rows(tmp_path, "MRFILES"):
        name = file["FIL"].removesuffix(".RRF")
        found = rows(tmp_path, name)
        assert file["FMT"] == ",".join(COLUMNS[name].split()) and int(file["CLS"]) == len(COLUMNS[name].split())
        assert int(file["RWS"]) == len(found) and int(file["BTS"]) == (tmp_path / file["FIL"]).stat().st_size
        for column in COLUMNS[name].split():
            described, lengths = columns[file["FIL"], column], [len(row[column]) for row in found]
            assert (int(described["MIN"]), int(described["MAX"])) == (min(lengths), max(lengths))
            assert described["AV"] == f"{sum(lengths) / len(lengths):.2f}"
            assert described["DES"] != "Not used here" or set(lengths) == {0}
    assert columns["MRSTY.RRF", "STY"]["DES"] == "Name of the semantic type"
    assert (tmp_path / "notes.txt").read_text() == "mine"


def refuse(terminology, folder, reason, **settings):
    with pytest.raises(ValueError, match=reason):
        write_rrf(terminology, folder, **settings)
    assert not folder.exists()


@pytest.mark.parametrize(
    "column, text",
    [("name", "a|b"), ("term_type", "a|b"), ("codes", "a\rb"), ("definition", "a\nb"), ("canonical_name", "a|b")],
)
def test_texts_that_cannot_be_written_are_refused_or_replaced(tmp_path, column, text):
    builder, is_name = TerminologyBuilder(), column in ("name", "term_type")
    builder.add_concept("C1", **({} if is_name else {column: [text] if column == "codes" else text}))
    builder.add_name("C1", **({"name": "name"} | ({column: text} if is_name else {})))
    terminology = builder.build()
    refuse(terminology, tmp_path / "out", "can't be written in Rich")
    # A name is the canonical name as well.
    report = write_rrf(terminology, tmp_path / "out", unwritable="replace")
    assert set(report["replaced"].values()) == {1} and column in report["replaced"]
    again = read_back(tmp_path / "out")
    assert ("a/b" if "|" in text else "a b") in str(again.concepts.rows()) + str(again.names.rows())


@pytest.mark.parametrize(
    "values, reason",
    [
        ({"id": "a|b"}, "can't be written in Rich"),
        ({"types": ["a|b"]}, "can't be written in Rich"),
        ({"language": "a\nb"}, "can't be written in Rich"),
        ({"id": "\ufeffC1"}, "byte order mark.*would give another one"),
        ({"language": ""}, "empty language"),
        ({"source": "A|A"}, "part twice"),
        ({"source": "A|"}, "empty part"),
        ({"source": "A|NOSAB"}, "NOSAB"),
    ],
)
def test_what_would_not_read_back_is_refused(tmp_path, values, reason):
    builder, id_ = TerminologyBuilder(), values.get("id", "C1")
    builder.add_concept(id_, types=values.get("types", ()))
    builder.add_name(id_, "name", **{key: values[key] for key in ("language", "source") if key in values})
    refuse(builder.build(), tmp_path / "out", reason, unwritable="replace")


def test_command_writes_a_saved_terminology(terminology, tmp_path):
    terminology.to_disk(tmp_path / "saved")
    command = ["write-rrf", tmp_path / "saved", tmp_path / "rrf"]
    shown = run_command(*command)
    assert "MRCONSO: 8 rows" in shown and "1 parents" in shown
    again = read_back(tmp_path / "rrf")
    assert again == without_unknown_parents(terminology)
    assert {"restriction_level": 3, "version": "1 2"}.items() <= again.report["sources"]["HPO"].items()
    with pytest.raises(ValueError, match="unwritable is 'skip', but has to be 'raise' or 'replace'"):
        run_command(*command, "--unwritable", "skip")


# Everything but what fields and lines end at, and half characters, which no file can hold.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="|\n\r"), max_size=4)
ids = st.sampled_from(["C0000001", "C0000002", "HP:1", "é", "\u200b1"])
labels = st.sampled_from(["", "HPO", "MSH", "X"])
codes = st.lists(
    st.builds("{}:{}".format, labels, st.sampled_from(["1", "2", "", "NOCODE", "a:b", '"'])) | texts, max_size=6
)
records = st.lists(
    st.tuples(
        ids,
        texts,
        st.sampled_from(["ENG", "GER"]),
        labels,
        texts,
        st.booleans(),
        codes,
        st.lists(ids, max_size=2),
        st.none() | texts,
        st.none() | texts,
        st.lists(st.sampled_from(["T047", "T1", '"']), max_size=2),
    ),
    min_size=1,
    max_size=8,
)


@given(records)
def test_what_is_written_reads_back_unchanged(records):
    builder = TerminologyBuilder()
    builder.add_name("C0000001", "a name")
    for id_, name, language, source, kind, preferred, codes, parents, definition, canonical, types in records:
        builder.add_concept(
            id_, types=types, codes=codes, parents=parents, definition=definition, canonical_name=canonical
        )
        builder.add_name(id_, name, language=language, source=source, term_type=kind, preferred=preferred)
    terminology = builder.build()
    with TemporaryDirectory() as folder:
        report = write_rrf(terminology, Path(folder) / "a")
        again = read_back(Path(folder) / "a")
        write_rrf(again, Path(folder) / "b")
        for name in ("MRCONSO", "MRSTY", "MRDEF", "MRREL", "MRSAT"):
            first, second = (path / f"{name}.RRF" for path in (Path(folder) / "a", Path(folder) / "b"))
            assert not first.exists() or first.read_bytes() == second.read_bytes()
    assert report["dangling_parents"] == terminology.report["dangling_parents"]
    expected = without_unknown_parents(terminology)
    assert again.names.rows() == expected.names.rows()
    assert again.concepts.rows() == expected.concepts.rows()
