"""The RRF reader against a plain line-by-line one, and on every slip that a file can have."""

import gzip
import hashlib
import re
import warnings
from contextlib import nullcontext

import polars as pl
import pytest
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from rrf_files import atom, rrf_line, write_release

from spacy_sapbert.terminology import read_rrf
from spacy_sapbert.terminology.readers import rrf_lines
from spacy_sapbert.terminology.readers.rrf_lines import COLUMNS
from spacy_sapbert.text import normalize_name
from training.cli.data import format_report

pytestmark = pytest.mark.filterwarnings("ignore:.*so the terminology is without")
ALL = {"languages": None, "tradenames": "off"}


def read(folder, **options):
    return read_rrf(folder, **{**ALL, **options})


def names_of(terminology):
    return {concept_id: terminology[concept_id].names for concept_id in terminology.concepts["id"]}


def naive_names(lines, suppressed="keep", lower_case=False):
    """Names by concept, as a plain loop over lines finds them: name and language to its sources."""
    found = {}
    for line in lines:
        row = dict(zip(COLUMNS["MRCONSO"].split(), line.split("|")[:-1], strict=True))
        name = row["STR"].strip()
        name = normalize_name(name.lower() if lower_case else name)
        if not name or suppressed == "drop" and row["SUPPRESS"] != "N":
            continue
        given_by = found.setdefault(row["CUI"], {}).setdefault((name, row["LAT"]), [])
        if row["SAB"] not in given_by:
            given_by.append(row["SAB"])
    return found


# Names with everything that a line can hold: no pipe and no newline; a carriage return is taken for a line end.
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="|\n\r"), max_size=8)
atoms = st.builds(
    lambda cui, name, lat, sab, suppress: atom(f"C{cui}", name, LAT=lat, SAB=sab, SUPPRESS=suppress),
    st.integers(1, 5),
    texts,
    st.sampled_from(["ENG", "GER"]),
    st.sampled_from(["MSH", "HPO", "NCI"]),
    st.sampled_from("NOY"),
)


@given(st.lists(atoms, min_size=1, max_size=25), st.sampled_from(["keep", "drop"]), st.booleans(), st.booleans())
def test_names_are_those_of_a_plain_loop(tmp_path, lines, suppressed, lower_case, packed):
    for old in tmp_path.glob("MRCONSO*"):
        old.unlink()
    folder = write_release(tmp_path, **{"MRCONSO_gz" if packed else "MRCONSO": lines})
    expected = naive_names(lines, suppressed=suppressed, lower_case=lower_case)
    if not expected:
        with pytest.raises(ValueError, match="passes the filters"):
            read(folder, suppressed=suppressed, lower_case=lower_case)
        return
    terminology = read(folder, suppressed=suppressed, lower_case=lower_case)
    ids = terminology.concepts["id"].to_list()
    assert ids == sorted(expected)
    found = {i: {} for i in ids}
    for name, row, language, source, _, _ in terminology.names.to_polars().iter_rows():
        found[ids[row]][name, language] = source.split("|")
    assert found == expected
    assert [list(found[i]) for i in ids] == [list(expected[i]) for i in ids]  # in the order of the file


@pytest.mark.parametrize("size", [1, 64])
def test_blocks_and_parts_may_be_cut_anywhere(tmp_path, monkeypatch, size):
    lines = [atom(f"C{i % 7}", f"näme {i}") for i in range(40)]
    data = "".join(f"{line}\n" for line in lines).encode()
    monkeypatch.setattr(rrf_lines, "BLOCK_SIZE", size)
    whole = read(write_release(tmp_path / "whole", MRCONSO=lines))
    parts = tmp_path / "parts"
    parts.mkdir()
    for letter, start, end in (("a", 0, 501), ("b", 501, 777), ("c", 777, None)):
        (parts / f"MRCONSO.RRF.a{letter}.gz").write_bytes(gzip.compress(data[start:end]))
    expected = {concept_id: tuple(name for name, _ in of) for concept_id, of in naive_names(lines).items()}
    assert names_of(read(parts)) == names_of(whole) == expected
    assert read(parts).report["read"]["MRCONSO"] == 40


def test_what_a_release_says_of_a_concept(tmp_path):
    folder = write_release(
        tmp_path,
        MRCONSO=[
            atom("C2", "Fieber", LAT="GER", TS="P", SAB="MSHGER", CODE="D1"),
            atom("C2", "obsolete fever", TS="P", SUPPRESS="O", CODE="D1"),
            atom("C2", "fever, NOS", SAB="HPO", CODE="HP:1"),
            atom("C2", "Fever", TS="P", CODE="D1"),
            atom("C2", "Fever", SAB="HPO", TTY="SY", CODE="NOCODE"),
            atom("C1", "parent", TS="P"),
            atom("C3", "child", TS="P", STT="VO"),
        ],
        MRSTY=[
            rrf_line("MRSTY", CUI="C2", TUI=t, STY=s)
            for t, s in (("T184", "Sign"), ("T033", "Finding"), ("T184", "Symptom"))
        ],
        MRDEF_gz=[
            rrf_line("MRDEF", CUI="C2", SAB="X", DEF="by X"),
            rrf_line("MRDEF", CUI="C2", SAB="NCI", DEF="suppressed", SUPPRESS="Y"),
            rrf_line("MRDEF", CUI="C2", SAB="MSH", DEF="by MeSH"),
        ],
        MRREL=[
            rrf_line("MRREL", CUI1="C2", REL="PAR", CUI2="C1"),
            rrf_line("MRREL", CUI1="C2", REL="CHD", RELA="isa", CUI2="C3"),
            rrf_line("MRREL", CUI1="C3", REL="RO", RELA="inverse_isa", CUI2="C1"),
            rrf_line("MRREL", CUI1="C2", REL="PAR", CUI2="C2"),
            rrf_line("MRREL", CUI1="C2", REL="PAR", CUI2="C9"),
        ],
        MRSAB=[
            rrf_line("MRSAB", RSAB="MSH", SON="Medical Subject Headings", SVER="2025", SRL="0", SLC="free", CURVER="Y")
        ],
    )
    with pytest.warns(UserWarning, match=r"1 of 5 rows of MRREL are about concepts that MRCONSO"):
        terminology = read(folder)
    fever = terminology["C2"]
    assert fever.canonical_name == "Fever"
    assert fever.names == ("Fieber", "obsolete fever", "fever, NOS", "Fever")
    assert fever.types == ("T184", "T033")
    assert fever.definition == "by MeSH"
    assert fever.codes == ("MSHGER:D1", "MSH:D1", "HPO:HP:1")
    assert fever.parents == ("C1",)
    assert terminology["C3"].parents == ("C1", "C2")
    names = {row[0]: row[2:] for row in terminology.names.to_polars().iter_rows()}
    assert names["Fever"] == ("ENG", "MSH|HPO", "PT", True)
    assert names["child"] == ("ENG", "MSH", "PT", False)
    report = terminology.report
    assert report["unknown_concepts"] == {"MRREL": 1, "MRSTY": 0, "MRDEF": 0}
    assert report["semantic_types"] == {"T184": "Sign", "T033": "Finding"}
    mesh = {"name": "Medical Subject Headings", "version": "2025", "licence": "free", "language": ""}
    assert report["sources"]["MSH"] == {**mesh, "restriction_level": 0}
    # MRSAB does not tell of the others; their level is that of their atoms.
    assert report["sources"]["HPO"]["restriction_level"] == 0 and report["sources"]["HPO"]["name"] == "HPO"
    assert report["by_language"] == {"ENG": {"rows": 6, "kept": 6}, "GER": {"rows": 1, "kept": 1}}
    assert report["names_per_concept"]["4"] == 1 and report["names_per_concept"]["largest"] == 4
    names = "MRCONSO.RRF MRDEF.RRF.gz MRREL.RRF MRSAB.RRF MRSTY.RRF"
    assert " ".join(file["name"] for file in report["files"]) == names
    assert "| MSH | 4 | 4 |" in format_report(report)


FILTERED = [
    ({"languages": ["ENG"]}, {"C1": ("a", "A", "old"), "C2": ("c",)}, {"language": 1}),
    ({"sources": ["HPO"]}, {"C1": ("A",), "C2": ("b",)}, {"source": 3}),
    ({"term_types": ["SY"]}, {"C2": ("c",)}, {"term_type": 4, "concepts_without_names": 1}),
    ({"suppressed": "drop"}, {"C1": ("a", "A"), "C2": ("b", "c")}, {"suppressed": 1}),
    ({"max_restriction_level": 0}, {"C1": ("a", "A", "old"), "C2": ("b",)}, {"restriction_level": 1}),
    ({"semantic_types": ["T1"]}, {"C1": ("a", "A", "old")}, {"semantic_type": 2, "concepts_without_names": 1}),
    ({"lower_case": True}, {"C1": ("a", "old"), "C2": ("b", "c")}, {}),
]


@pytest.mark.parametrize("options, expected, dropped", FILTERED)
def test_filters_count_what_they_drop(tmp_path, capsys, options, expected, dropped):
    folder = write_release(
        tmp_path,
        MRCONSO=[
            atom("C1", "a"),
            atom("C1", "A", SAB="HPO"),
            atom("C1", "old", SUPPRESS="O"),
            atom("C2", "b", LAT="GER", SAB="HPO"),
            atom("C2", "c", TTY="SY", SRL="3"),
        ],
        MRSTY=[rrf_line("MRSTY", CUI="C1", TUI="T1"), rrf_line("MRSTY", CUI="C2", TUI="T2")],
    )
    terminology = read(folder, **options)
    assert names_of(terminology) == expected
    assert {reason: n for reason, n in terminology.report["dropped"].items() if n} == dropped
    said = "dropped 1 names in languages other than ENG. languages = null keeps all." in capsys.readouterr().err
    assert said == ("language" in dropped)


@cases("rrf_refusals")
def test_settings_that_fit_nothing_are_refused(tmp_path, options, message):
    lines = [atom("C1", "a", SUPPRESS="O")]
    folder = write_release(tmp_path, MRCONSO=lines, MRSTY=[rrf_line("MRSTY", CUI="C1", TUI="T1")])
    with pytest.raises(ValueError, match=message):
        read(folder, **options)


BRANDS = {
    "MRCONSO": [atom("C1", "ibuprofen"), atom("C2", "Advil"), atom("C3", "Nurofen"), atom("C3", "ibuprofen")],
    "MRREL": [
        rrf_line("MRREL", CUI1="C1", REL="RO", RELA="tradename_of", CUI2="C2"),
        rrf_line("MRREL", CUI1="C2", REL="RO", RELA="has_tradename", CUI2="C1"),
        rrf_line("MRREL", CUI1="C1", REL="RO", RELA="tradename_of", CUI2="C3"),
        rrf_line("MRREL", CUI1="C3", REL="RO", RELA="has_tradename", CUI2="C1"),
        rrf_line("MRREL", CUI1="C1", REL="RO", RELA="tradename_of", CUI2="C1"),
        rrf_line("MRREL", CUI1="C1", REL="RO", RELA="contains has_tradename", CUI2="C2"),
    ],
}


@pytest.mark.parametrize(
    "mode, direction, expected",
    [
        ("off", "both", [{"ibuprofen"}, {"Advil"}, {"Nurofen", "ibuprofen"}]),
        # One step far: Advil is not given Nurofen, whatever the generic concept is given.
        ("union", "both", [{"ibuprofen", "Advil", "Nurofen"}, {"Advil", "ibuprofen"}, {"Nurofen", "ibuprofen"}]),
        ("last", "both", [{"ibuprofen", "Nurofen"}, {"Advil", "ibuprofen"}, {"Nurofen", "ibuprofen"}]),
        ("union", "generic", [{"ibuprofen", "Advil", "Nurofen"}, {"Advil"}, {"Nurofen", "ibuprofen"}]),
        ("union", "brand", [{"ibuprofen"}, {"Advil", "ibuprofen"}, {"Nurofen", "ibuprofen"}]),
    ],
)
def test_tradenames(tmp_path, mode, direction, expected):
    folder = write_release(tmp_path, **BRANDS)
    terminology = read(folder, tradenames=mode, tradename_direction=direction)
    found = names_of(terminology)
    assert [set(found[f"C{i}"]) for i in (1, 2, 3)] == expected
    assert all(len(set(names)) == len(names) for names in found.values())


def test_columns_and_rows_are_those_of_mrfiles(tmp_path):
    columns = ["STR", "CUI", *(c for c in COLUMNS["MRCONSO"].split() if c not in ("STR", "CUI", "CVF"))]
    lines = [rrf_line("MRCONSO", columns, CUI="C1", STR=name) for name in "ab"]

    def write(rows):
        line = rrf_line("MRFILES", FIL="MRCONSO.RRF", FMT=",".join(columns), CLS=str(len(columns)), RWS=str(rows))
        return write_release(tmp_path, MRCONSO=lines, MRFILES=[line])

    assert names_of(read(write(2))) == {"C1": ("a", "b")}
    with pytest.raises(ValueError, match=r"has 2 lines, but MRFILES says 3"):
        read(write(3))
    with pytest.warns(UserWarning, match="but MRFILES says"):
        read(write(3), errors="skip")
    columns.remove("SAB")
    lines = [rrf_line("MRCONSO", columns, CUI="C1", STR=name) for name in "ab"]
    with pytest.raises(ValueError, match="no column SAB"):
        read(write(2))


def test_retired_concepts_are_followed_on_request(tmp_path):
    def moved(old, new, relation="SY"):
        return rrf_line("MRCUI", CUI1=old, REL=relation, CUI2=new, MAPIN="Y")

    folder = write_release(
        tmp_path,
        MRCONSO=[atom("C1", "a"), atom("C9", "b")],
        MRSTY=[rrf_line("MRSTY", CUI=cui, TUI=tui) for cui, tui in (("C7", "T7"), ("C5", "T5"), ("C4", "T4"))],
        MRREL=[rrf_line("MRREL", CUI1="C7", REL="PAR", CUI2="C9")],
        MRCUI=[moved("C7", "C8"), moved("C8", "C1"), moved("C9", "C1"), moved("C5", "C1", "RB"), moved("C4", "C4")],
    )
    with pytest.warns(UserWarning, match="about concepts that MRCONSO does not have"):
        assert read(folder)["C1"].types == ()
        terminology = read(folder, remap_retired=True)
        assert names_of(read(folder, remap_retired=True, semantic_types=["T7"])) == {"C1": ("a",)}
    # C9 has a name, so it lives, whatever MRCUI says.
    assert names_of(terminology) == {"C1": ("a",), "C9": ("b",)}
    assert terminology["C1"].types == ("T7",) and terminology["C1"].parents == ("C9",)
    assert terminology.report["retired_concepts"] == 2


def test_filters_hold_for_names_definitions_and_relations(tmp_path):
    folder = write_release(
        tmp_path,
        MRCONSO=[
            atom("C1", "fever"),
            atom("C2", "pyrexia"),
            atom("C2", "licensed name", SAB="SNOMEDCT_US", SRL="9"),
            atom("C3", "brand"),
            atom("C4", "unknown", SAB="NEW", SRL=""),
        ],
        MRDEF=[
            rrf_line("MRDEF", CUI="C1", SAB="SNOMEDCT_US", DEF="licensed"),
            rrf_line("MRDEF", CUI="C1", SAB="NEW", DEF="of unknown licence"),
            rrf_line("MRDEF", CUI="C2", SAB="MSHSPA", DEF="en español"),
        ],
        MRREL=[
            rrf_line("MRREL", CUI1="C1", REL="PAR", CUI2="C2", SAB="SNOMEDCT_US"),
            rrf_line("MRREL", CUI1="C1", REL="RO", RELA="tradename_of", CUI2="C3", SUPPRESS="O"),
        ],
        MRSAB=[
            rrf_line("MRSAB", RSAB="MSH", SRL="0", LAT="ENG", CURVER="Y"),
            rrf_line("MRSAB", RSAB="MSHSPA", SRL="0", LAT="SPA", CURVER="Y"),
            rrf_line("MRSAB", RSAB="SNOMEDCT_US", SRL="9", LAT="ENG", CURVER="Y"),
        ],
    )
    whole = read(folder, languages=["ENG"], tradenames="union")
    assert whole["C1"].definition == "licensed" and whole["C1"].parents == ("C2",)
    assert set(whole["C1"].names) == {"fever", "brand"}
    assert set(whole.report["sources"]) == {"MSH", "NEW", "SNOMEDCT_US"}
    assert whole.report["sources"]["NEW"]["restriction_level"] is None
    free = read(folder, max_restriction_level=0)
    assert names_of(free) == {"C1": ("fever",), "C2": ("pyrexia",), "C3": ("brand",)}
    assert free["C1"].definition is None and free["C1"].parents == ()
    assert free["C2"].definition == "en español"  # all languages are wanted
    assert set(free.report["sources"]) == {"MSH", "MSHSPA"}
    some = read(folder, languages=["ENG"], sources=["MSH"])
    assert some["C1"].definition is None and some["C1"].parents == ()
    assert read(folder, languages=["ENG"])["C2"].definition is None
    dropped = read(folder, suppressed="drop", tradenames="union")
    assert dropped["C1"].names == ("fever",) and dropped["C1"].parents == ("C2",)


GOOD = atom("C1", "good")
SLIPS = [
    (b"\xef\xbb\xbf" + GOOD.encode() + b"\n", "byte order mark"),
    (GOOD.encode() + b"\r\n", "carriage return"),
    (atom("C1", "good", CVF="256")[:-1].encode() + b"\n", "missing trailing pipe"),
    (GOOD.encode() + b"\n\n", "empty line"),
]


@pytest.mark.parametrize("data, slip", SLIPS)
def test_slips_are_put_right_and_counted(tmp_path, data, slip):
    terminology = read(write_release(tmp_path, MRCONSO=data + atom("C2", "other").encode()))
    assert names_of(terminology) == {"C1": ("good",), "C2": ("other",)}
    assert terminology.report["repaired"] == {slip: 1}


# 256 pipes more or fewer than there are in a line fit a byte.
@pytest.mark.parametrize("lost, added", [(1, 1), (17, 17), (18, 238), (1, 255), (0, 256), (0, 512)])
def test_faults_that_cancel_out_are_all_found(tmp_path, lost, added):
    broken = [atom("C1", "a").replace("|", "", lost), atom("C1", "b") + "|" * added]
    lines = [*broken[lost == 0 :], *(atom("C1", f"name {i}") for i in range(1000))]
    with pytest.warns(UserWarning, match=f"{len(lines) - 1000} malformed"):
        terminology = read(write_release(tmp_path, MRCONSO=lines), errors="skip")
    assert len(terminology["C1"].names) == terminology.report["names_per_concept"]["1000+"] * 1000 == 1000


def test_names_with_unusual_line_ends_quotes_and_words_for_nothing(tmp_path):
    names = ['"quoted', "a\u2028b", "c\x85d", "NA", "null", "x" * 5000, "#5", "a,b;c", "\u0130"]
    terminology = read(write_release(tmp_path, MRCONSO=[atom("C1", name) for name in names]))
    assert terminology["C1"].names == ('"quoted', "a b", "c d", *names[3:])
    assert terminology.report["long_names"] == 1


def test_folder_above_meta_is_taken_and_missing_relations_are_told(tmp_path):
    write_release(tmp_path / "META", MRCONSO=[atom("C1", "a")])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert names_of(read_rrf(tmp_path)) == {"C1": ("a",)}
    (warning,) = caught
    assert re.search("so the terminology is without.*tradenames", str(warning.message), re.DOTALL)


LINE = atom("C1", "a") + "\n"
PACKED = gzip.compress(b"".join(atom(f"C{i}", f"name {i}").encode() + b"\n" for i in range(1000)))
FILES = ("MRCONSO", "MRSTY", "MRREL")
HAS_TYPES = rrf_line("MRFILES", FIL="MRSTY.RRF", FMT=",".join(COLUMNS["MRSTY"].split()), RWS="3")


@pytest.mark.parametrize(
    "files, message, skipped",
    [
        ({"SHA256SUMS": "0" * 64 + "  MRCONSO.RRF\n"}, "MRCONSO.RRF' in .* is not the file that", None),
        ({"SHA256SUMS": "0" * 64 + "  other.txt\n"}, "lacks files that were read.*MRCONSO.RRF", None),
        ({"MRFILES.RRF": HAS_TYPES}, "has no MRSTY.*3 rows", "has no MRSTY"),
        ({"MRCONSO.RRF": None, "MRCONSO.RRF.aa": LINE, "MRCONSO.RRF.ac": LINE}, "Parts of a file are missing", None),
        ({"MRCONSO.RRF": None, "MRCONSO.RRF.ab": LINE}, "Parts of a file are missing", None),
        ({"MRCONSO.RRF": None, "MRCONSO.RRF.aa": LINE}, "MRCONSO.RRF.aa alone.*rename it to MRCONSO.RRF[.]$", None),
        ({"MRSTY.RRF.aa.gz": PACKED}, "MRSTY.RRF.aa.gz alone.*rename it to MRSTY.RRF.gz[.]$", None),
        ({"RXNCONSO.RRF": LINE}, "holds both UMLS and RxNorm", None),
        ({"MRCONSO.RRF": None, "MRCONSO.RRF.gz": PACKED[: len(PACKED) // 2]}, "MRCONSO.RRF.gz", None),
        ({"MRCONSO.RRF.gz": PACKED}, "in several forms: MRCONSO.RRF, MRCONSO.RRF.gz", None),
        ({"MRCONSO.RRF": ""}, "is empty", None),
        ({"MRCONSO.RRF": None}, "There is no MRCONSO.*UMLS.*licensed", None),
        ({"MRCONSO.RRF": LINE + atom("", "b")}, "has an atom 'b'", ""),
        ({"MRCONSO.RRF": LINE + atom("NIL", "b")}, "has an atom 'b'", ""),
        ({"MRCONSO.RRF": LINE + atom("C 1", "b") + "\n" + atom("C1", " ")}, "has an atom 'b'", ""),
        *(({f"{name}.RRF": "<html>\nnot | RRF\n\n"}, f"{name}.RRF, line 1", None) for name in FILES),
    ],
)
def test_folders_that_do_not_fit_are_refused_or_read_with_a_warning(tmp_path, files, message, skipped):
    """`skipped` is what is warned of if errors are skipped and the folder can be read."""
    for name, content in ({"MRCONSO.RRF": LINE, "MRREL.RRF": rrf_line("MRREL")} | files).items():
        if content is not None:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read(tmp_path, tradenames="union")
    if skipped is None:
        message = "has no well-formed line .2 malformed" if "line 1" in message else message
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            read(tmp_path, tradenames="union", errors="skip")
    else:
        with pytest.warns(UserWarning, match=skipped) if skipped else nullcontext():
            assert names_of(read(tmp_path, errors="skip")) == {"C1": ("a",)}


@pytest.mark.parametrize("name", ["MRREL", "MRSTY", "MRDEF", "MRSAB"])
@pytest.mark.parametrize("prefix, rows", [("MR", None), ("MR", "0"), ("RXN", None)])
def test_empty_files_are_told_unless_they_are_meant(tmp_path, recwarn, name, prefix, rows):
    line = rrf_line("MRFILES", FIL=f"{name}.RRF", FMT=",".join(COLUMNS[name].split()), RWS=rows)
    files = {"MRCONSO": [atom("C1", "a")], "MRREL": [rrf_line("MRREL")], name: []}
    files |= {"MRFILES": [line]} if rows else {}
    folder = write_release(tmp_path, **{prefix + file.removeprefix("MR"): lines for file, lines in files.items()})
    assert names_of(read(folder)) == {"C1": ("a",)}
    told = f"{prefix}{name[2:]}.RRF is empty, so the terminology is without"
    assert [told in str(warning.message) for warning in recwarn] == ([] if rows else [True])


def drug(rxcui, aui, name, sab, tty, **fields):
    """An atom of RXNCONSO, with what RxNorm leaves empty."""
    empty = dict.fromkeys(("TS", "STT", "ISPREF", "SRL"), "")
    return atom(rxcui, name, AUI=aui, SAB=sab, TTY=tty, CODE=rxcui, **{**empty, **fields})


RXNORM = {
    "RXNCONSO": [
        drug("161", "1", "APAP", "VANDF", "CD"),
        drug("161", "2", "acetaminophen tablet", "RXNORM", "PSN"),
        drug("161", "3", "Acetaminophen", "RXNORM", "IN"),
        drug("202433", "4", "Tylenol", "RXNORM", "BN", SUPPRESS="O"),
        drug("202433", "5", "TYLENOL", "MMSL", "BN"),
        drug("5", "6", "Analgesics", "ATC", "PT"),
    ],
    "RXNREL": [
        # Relations of RxNorm are between concepts, others between atoms.
        rrf_line("MRREL", CUI1="161", REL="RO", CUI2="202433", RELA="tradename_of", SAB="RXNORM"),
        rrf_line("MRREL", AUI1="1", REL="PAR", AUI2="6", SAB="ATC"),
        rrf_line("MRREL", AUI1="1", REL="PAR", AUI2="99", SAB="ATC"),
    ],
    "RXNSTY": [rrf_line("MRSTY", CUI="161", TUI="T121", STY="Pharmacologic Substance")],
    "RXNSAB": [
        rrf_line("MRSAB", RSAB=name, SVER="2026", SRL=level, LAT="ENG", CURVER="Y")
        for name, level in {"RXNORM": "0", "VANDF": "0", "MMSL": "1"}.items()
    ],
    "RXNCUI": ["1|07AA|08AA|1|161|", "2|07AA|08AA|2|161|", "2|07AA|08AA|2|5|", "3|07AA|08AA|1|3|"],
}


@pytest.mark.filterwarnings("ignore:1 of 3 rows of RXNREL")
def test_rxnorm_is_read_as_it_is(tmp_path):
    folder = write_release(tmp_path / "rrf", **RXNORM)
    rxnorm = read_rrf(tmp_path, remap_retired=True)
    assert names_of(rxnorm) == {
        "161": ("APAP", "acetaminophen tablet", "Acetaminophen", "Tylenol", "TYLENOL"),
        "202433": ("Tylenol", "TYLENOL", "APAP", "acetaminophen tablet", "Acetaminophen"),
        "5": ("Analgesics",),
    }
    assert [rxnorm[id_].canonical_name for id_ in ("161", "202433")] == ["Acetaminophen", "TYLENOL"]
    assert rxnorm["161"].parents == ("5",) and rxnorm["161"].types == ("T121",)
    assert set(rxnorm["161"].codes) == {"VANDF:161", "RXNORM:161"}
    assert rxnorm.names.to_polars().filter(pl.col("preferred"))["name"].to_list() == ["Acetaminophen", "Tylenol"]
    report = rxnorm.report
    assert report["read"]["RXNCONSO"] == 6 and report["sources"]["MMSL"]["restriction_level"] == 1
    assert rxnorm.retired.rows() == [("1", "161", []), ("2", None, ["161", "5"]), ("3", None, [])]
    assert report["retired_concepts"] == 1 and "6 of 6 atoms" in format_report(report)
    free = read(folder, max_restriction_level=0)
    assert names_of(free) == {"161": ("APAP", "acetaminophen tablet", "Acetaminophen"), "202433": ("Tylenol",)}
    with pytest.raises(ValueError, match=r"RXNCONSO names no SAB 'MSH'\. Those it has are: RXNORM"):
        read(folder, sources=["MSH"])


@pytest.mark.parametrize("left", [{"RXNCONSO"}, {"RXNCONSO", "RXNREL"}, {"RXNCONSO", "RXNSAB"}])
@pytest.mark.filterwarnings("ignore:1 of 4 rows of RXNREL")
def test_parts_of_rxnorm_with_repeated_lines_are_read(tmp_path, left):
    folder = write_release(tmp_path, **{name: [*lines, lines[0]] for name, lines in RXNORM.items() if name in left})
    found = read(folder)
    assert found["161"].names == ("APAP", "acetaminophen tablet", "Acetaminophen")
    assert found["161"].parents == (("5",) if "RXNREL" in left else ())


def test_a_list_of_checksums_beside_the_files_is_heeded(tmp_path):
    moved = rrf_line("MRCUI", CUI1="C2", REL="SY", CUI2="C1")
    folder = write_release(tmp_path, MRCONSO=[atom("C1", "a")], MRCUI=[moved])
    files = sorted(folder.glob("*.RRF"))
    digests = (hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    lines = (f"{digest} *{file.name}\n" for digest, file in zip(digests, files, strict=True))
    (folder / "SHA256SUMS").write_text("".join(lines))
    assert read(folder).report["verified"] == 2
    (folder / "MRCUI.RRF").write_text(moved.replace("C1", "C9") + "\n")
    with pytest.raises(ValueError, match="'MRCUI.RRF' in .* is not the file that .*SHA256SUMS lists"):
        read(folder)
