"""Labels of lists, as people have reported them in public threads and as registries write them, linked as a column."""

import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import spacy
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from spacy_sapbert import TerminologyBuilder, link_table, read_obo
from spacy_sapbert.__main__ import app
from spacy_sapbert.tables.answers import REPAIRED
from spacy_sapbert.tables.link import COLUMNS, FORMATS

# The id, the name and the synonyms of each concept.
CONCEPTS = """
A:1 | cold
A:2 | cold temperature | cold EXACT
A:3 | Other eye disorders
A:4 | Other
A:5 | neuronal NOS
CHEBI:26708 | sodium | NA EXACT
GO:0004672 | protein kinase activity
HGNC:1 | CD40LG | IGM EXACT
HGNC:2 | HBB gene | H-B EXACT | kidney disease RELATED
J30 | allergic rhinitis
HP:0001250 | Seizure | Fits RELATED
HP:0001251 | Ataxia | Fits EXACT
HP:0002094 | Dyspnea | Breathlessness RELATED
HP:0006150 | Swan neck-like deformities of the fingers
HP:0006582 | Reye syndrome-like episodes
HP:0025179 | Ground-glass opacification on pulmonary HRCT | Ground-glass opacity EXACT
HP:0030882 | Coronary artery aneurysm
HP:0100502 | Vitamin B12 deficiency
HP:6000224 | Delayed passage of meconium
MONDO:0000432 | Waldenstrom macroglobulinemia
MONDO:0004979 | asthma
MONDO:0005005 | pregnancy with abortive outcome
MONDO:0005011 | Crohn disease
MONDO:0005025 | endocarditis
MONDO:0005124 | leprosy | Hansen's disease EXACT
MONDO:0005140 | ovarian carcinoma
MONDO:0005240 | kidney disorder | kidney disease EXACT
MONDO:0005338 | open-angle glaucoma
MONDO:0005583 | non-human animal disease
MONDO:0005649 | acute appendicitis
MONDO:0007972 | Ménière disease
MONDO:0009685 | Miyoshi myopathy | MM EXACT
MONDO:0009693 | plasma cell myeloma | multiple myeloma EXACT | MM EXACT
MONDO:0013600 | insomnia
MONDO:0018993 | neuroleptic malignant syndrome
MONDO:0858950 | traumatic brain injury
MONDO:1010000 | septic shock, non-human animal
"""
SEIZURE, ASTHMA = "HP:0001250", "MONDO:0004979"
BOTH = "HP:0001250|HP:0001251"
FORM, REST, NONE, SEVERAL = "form of a name", "residual class", "no name", "several concepts"
UNKNOWN = "Septic shock, Androgen excess, Drug Resistant Epilepsy, Post-Operative Pain, IgM, Hb, LSD"
RESTS = "Other insomnia | Other endocarditis | Sonstige Ataxia | other specified seizures | NOS | Unspecified | "
RESTS += "seizure, not elsewhere classified | Seizure, other | Seizure (other) | Seizure NEC | Seizure, NEC | "
RESTS += "asthma and other lung diseases | insomnia due to other causes"
# A label; its id, and how it is linked; how it is linked in the exact mode, with the same id unless it is not linked;
# and the notes.
NAMES = [
    ("Open-angle glaucoma", "MONDO:0005338", "name", "name", ""),
    ("Traumatic brain injury", "MONDO:0858950", "name", "name", ""),
    ("Ovarian Carcinoma", "MONDO:0005140", "name", "name", ""),
    ("Acute appendicitis", "MONDO:0005649", "name", "name", ""),
    ("fits", "HP:0001251", "name", "name", ""),
    ("kidney disease", "MONDO:0005240", "name", "name", ""),
    ("Breathlessness", "HP:0002094", "name", "name", "a RELATED synonym"),
    ("Coronary Artery Aneurysms", "HP:0030882", FORM, FORM, ""),
    ("Swan-neck Deformity", "HP:0006150", "vectors", NONE, ""),
    ("Delayed Meconium Passage", "HP:6000224", "vectors", NONE, ""),
    ("Reye-like syndrome", "HP:0006582", "vectors", NONE, ""),
    ("protein kinase", "GO:0004672", "vectors", NONE, ""),
    ("Malignant neuroleptic syndrome", "MONDO:0018993", "vectors", NONE, ""),
    ("Leprosy [Hansen's disease]", "MONDO:0005124", "vectors", NONE, ""),
    # The more common one, which has more names.
    ("MM", "MONDO:0009693", "name", SEVERAL, ""),
    ("cold", "A:1", "name", SEVERAL, ""),
    ("NA", "CHEBI:26708", "name", "name", ""),
    *[(label, None, NONE, NONE, "") for label in (*UNKNOWN.split(", "), "ANA", "na")],
    ("ASTHMA", ASTHMA, "name", "name", ""),
]
HABITS = [
    *[(label, None, "empty", "empty", "") for label in ("", "  ", "-", '""')],
    ("[X]Other seizures NOS", None, REST, REST, "looked up as 'Other seizures'"),
    ("G40.8 Other seizure", None, REST, REST, "looked up as 'Other seizure'; G40.8 is no id here"),
    *[(label, None, REST, REST, "") for label in RESTS.split(" | ")],
    ("Other", "A:4", "name", "name", ""),
    ("Other disorders of the eye", "A:3", "vectors", REST, ""),
    ("eye disorders", None, REST, NONE, ""),
    *[(f"seizures{end}", SEIZURE, FORM, FORM, "looked up as 'seizures'") for end in (" NOS", ", NOS", " - nos")],
    *[(f"Seizure{end}", SEIZURE, "name", "name", "looked up as 'Seizure'") for end in (", unspecified", " (disorder)")],
    ("Seizure (not otherwise specified)", SEIZURE, "name", "name", "looked up as 'Seizure'"),
    ("Unspecified asthma", ASTHMA, "name", "name", "looked up as 'asthma'"),
    ("[D]Seizure (finding) NOS", SEIZURE, "name", "name", "looked up as 'Seizure'"),
    ("neuronal NOS", "A:5", "name", "name", ""),
    ("Pregnancy with abortive outcome (O00-O08)", "MONDO:0005005", "name", "name", "O00-O08 is no id here"),
    *[
        (label, ASTHMA, "name", "name", f"looked up as 'Asthma'; {re.search('J45(.9)?', label)[0]} is no id here")
        for label in ("Asthma (J45.9)", "Asthma [J45]", "J45.9 Asthma", "J45: Asthma", "J45 - Asthma", "(J45.9) Asthma")
    ],
    ("195967001 |Asthma|", ASTHMA, "name", "name", "195967001 is no id here"),
    ("493.9 Asthma", ASTHMA, "name", "name", "493.9 is no id here"),
    *[
        (label, SEIZURE, "name", "name", "looked up as 'Seizure'; HP.0001250 is the id of Seizure")
        for label in ("HP:0001250 Seizure", "Seizure (HP:0001250)", "HP_0001250|Seizure", "Seizure_HP_0001250")
    ],
    *[
        (label, SEIZURE, "code", "code", "(?i)hp.0001250 is the id of Seizure")
        for label in ("HP:0001250", "(HP_0001250)", "hp_0001250 spells of some kind")
    ],
    # A code is what somebody has decided.
    ("HP:0001251: Seizure", "HP:0001251", "code", "code", "of Ataxia; the words are a name of HP:0001250 Seizure"),
    ("HP:0001250+J30 two", "HP:0001250|J30", "code", "code", "is the id of Seizure; J30 is the id of allergic rhi"),
    ("HP:0001250, HP:0001251", BOTH, "code", "code", "is the id of Seizure; HP:0001251 is the id of Ataxia"),
    ("HP:0001250;HP:0001251 two", BOTH, "code", "code", "is the id of Seizure; HP:0001251 is the id of Ataxia"),
    ("A:2 cold", "A:2", "name", "name", "A:2 is the id of cold temperature"),
    *[
        (label, "J30", "name", "name", "J30 is the id of allergic rhinitis")
        for label in ("J30 Allergic rhinitis", "Allergic rhinitis: J30")
    ],
    ("J45.9", None, "empty", "empty", "J45.9 is no id here"),
    ("Vitamin B12 deficiency", "HP:0100502", "name", "name", ""),
    ("B12 deficiency", "HP:0100502", "vectors", NONE, ""),
    ("Multiple myeloma (MM)", "MONDO:0009693", "name", "name", "looked up as 'Multiple myeloma'"),
    ("MM (multiple myeloma)", "MONDO:0009693", "name", "name", "looked up as 'multiple myeloma'"),
    ("Relapsed / Refractory Multiple Myeloma (MM)", "MONDO:0009693", "text", NONE, "looked up as 'Relapsed"),
    ("early death (ED)", None, NONE, NONE, "looked up as 'early death'"),
    *[(label, BOTH, "names", "names", "") for label in ("Seizure; Ataxia", "Seizure|ataxia", "seizures / ataxia")],
    ("Fits;asthma; androgen excess", "HP:0001251|MONDO:0004979", "text", SEVERAL, ""),
    ("Seizure; Ataxia NOS", BOTH, "names", "names", "looked up as 'Seizure; Ataxia'"),
    # Parts that name one concept, or nothing.
    ("asthma; Asthmas", ASTHMA, "vectors", NONE, ""),
    ("WaldenstrÃ¶m", "MONDO:0000432", "vectors", NONE, REPAIRED),
    ("MÃ©niÃ¨re disease", "MONDO:0007972", "name", "name", REPAIRED),
    ("MÃƒÂ©niÃƒÂ¨re disease", "MONDO:0007972", "name", "name", REPAIRED),
    ("Hansenâ€™s disease", "MONDO:0005124", FORM, FORM, REPAIRED),
    ("Crohn&#39;s disease", "MONDO:0005011", FORM, FORM, ""),
    *[(label, SEIZURE, "name", "name", "") for label in (" Seizure\t", "SEIZURE", "Seizure(s)")],
    *[(label, SEIZURE, FORM, FORM, "") for label in ('"Seizure"', "“ seizure ”", "'Seizure'")],
    ('"protein kinase"', "GO:0004672", "vectors", NONE, "looked up as 'protein kinase'"),
]
CASES = [*NAMES, *HABITS]


@pytest.fixture(scope="module")
def nlp(tmp_path_factory):
    terms = ["format-version: 1.2"]
    for row in CONCEPTS.strip().splitlines():
        id_, name, *synonyms = row.split(" | ")
        terms += ["", "[Term]", f"id: {id_}", f"name: {name}"]
        terms += ["is_a: MONDO:0005583"] * name.endswith("non-human animal")
        terms += [f'synonym: "{" ".join(one.split()[:-1])}" {one.split()[-1]} []' for one in synonyms]
    path = tmp_path_factory.mktemp("ontology") / "terms.obo"
    path.write_text("\n".join(terms))
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker", config={"not_below": ["MONDO:0005583"]}).initialize(terminology=read_obo(path))
    return nlp


@pytest.fixture(scope="module")
def folder(nlp, tmp_path_factory):
    nlp.to_disk(path := tmp_path_factory.mktemp("pipeline") / "pipeline")
    return path


@pytest.mark.parametrize("exact", [False, True])
def test_labels_of_lists(nlp, exact):
    linked = link_table(nlp, [label for label, *_ in CASES], exact=exact)
    for found, (label, id_, how, how_exact, notes) in zip(linked, CASES, strict=True):
        expected = how_exact if exact else how
        is_linked = expected in ("name", "form of a name", "names", "code", "text", "vectors")
        assert found["linked_how"] == expected and found["linked_id"] == (id_ if is_linked else None), found
        assert re.search(notes, found["linked_note"] or "") if notes else not found["linked_note"], found
        assert (found["linked_score"] is not None) is is_linked and found["label"] == label


def test_all_concepts_of_a_cell_are_linked_or_listed(nlp):
    labels = ["Seizure; Ataxia", "Hansen's disease|leprosy;asthma;septic shock", "MM; asthma"]
    linked = [row["linked_id"] for row in link_table(nlp, labels)]
    assert linked == [BOTH, "MONDO:0005124|MONDO:0004979", "MONDO:0009693|MONDO:0004979"]
    rows = link_table(nlp, labels, exact=True)
    assert [row["linked_id"] for row in rows] == [BOTH, None, None]
    assert [row["linked_others"] for row in rows] == [
        None,
        "MONDO:0005124 leprosy; MONDO:0004979 asthma",
        "MONDO:0009693 plasma cell myeloma; MONDO:0009685 Miyoshi myopathy; MONDO:0004979 asthma",
    ]


def test_candidates_are_listed_if_asked_for_and_homonyms_always(nlp):
    labels = ["Ground-glass opacities on chest imaging", "Relapsed / Refractory Multiple Myeloma (MM)", "MM", "asthma"]
    for exact in (False, True):
        opacity, myeloma, named, asthma = link_table(nlp, labels, exact=exact, n_candidates=1)
        # Without the mode, it is the one that is linked.
        assert (opacity["linked_others"] if exact else opacity["linked_id"]).startswith("HP:0025179")
        assert (myeloma["linked_others"] if exact else myeloma["linked_id"]).startswith("MONDO:0009693")
        assert not asthma["linked_others"]
    assert named["linked_others"] == "MONDO:0009693 plasma cell myeloma; MONDO:0009685 Miyoshi myopathy"
    assert [row["linked_others"] for row in link_table(nlp, labels[2:])] == ["MONDO:0009685 Miyoshi myopathy", None]
    assert [row["linked_second"] for row in link_table(nlp, labels[2:3])] == ["MONDO:0009685 Miyoshi myopathy"]


# The first word makes another finding of the second one.
MENTIONS = st.tuples(
    st.sampled_from("brain kidney plain acid odd".split()),
    st.sampled_from("asthma leprosy Crohn insomnia seizures".split()),
)


@given(st.lists(MENTIONS.map(" ".join), min_size=1, max_size=5))
def test_labels_without_habits_are_linked_as_the_linker_links_them(nlp, labels):
    linker = nlp.get_pipe("sapbert_linker")
    expected = [found[0]["id"] if found[0]["score"] >= linker.min_score else None for found in linker.find(labels)]
    assert [row["linked_id"] for row in link_table(nlp, labels)] == expected


@pytest.mark.parametrize(
    "text", ["CAFÉ’S", "SJÖGREN’S", "Weiß’ disease", "Ménière", "naïve – Ângstrom", "β-thalassemia", "早老"]
)
def test_text_that_is_right_is_not_repaired(nlp, text):
    assert link_table(nlp, [text])[0]["linked_note"] is None


@given(st.text(st.sampled_from("aé èñüßœŁβµ–’“”™°Š"), min_size=1).filter(lambda text: not text.isascii()))
def test_what_was_read_as_windows_text_is_repaired(nlp, text):
    damaged = "".join(bytes([byte]).decode("cp1252", errors="ignore") or chr(byte) for byte in text.encode())
    assert link_table(nlp, [f"asthma {damaged}"])[0]["linked_note"].startswith(REPAIRED)


def test_a_reranker_decides_where_there_is_one(nlp, folder):
    reranked = spacy.load(folder)
    reranker = reranked.add_pipe("sapbert_reranker", config={"set_nil": True})
    labels = ["seizures", "Swan-neck Deformity", "Androgen excess", "Other insomnia"]
    decided = reranker.decide(labels)
    linked = link_table(reranked, labels)
    for row, kb_id, candidates in zip(linked[:3], decided.kb_ids, decided.candidates, strict=False):
        assert row["linked_id"] == (None if kb_id == "NIL" else kb_id)
        assert row["linked_id"] is None or row["linked_score"] == round(candidates[0]["probability"], 4)
    assert [row["linked_how"] for row in linked] == ["form of a name", "vectors", "no name", "residual class"]


class PandasFrame(dict):
    """What is used of a data frame of pandas, which the tests do not install."""

    columns = property(list)

    def assign(self, **columns):
        return PandasFrame({**self, **columns})


class PandasSeries(list):
    def astype(self, kind):
        return self

    def notna(self):
        return [cell == cell for cell in self]

    def where(self, holds, other):
        return [cell if held else other for cell, held in zip(self, holds, strict=True)]


def test_frames_keep_their_columns_and_each_label_is_linked_once(nlp, counted):
    labels = ["Seizure", None, "Seizure", "odd seizure", "odd seizure"]
    frame = pl.DataFrame({"n": range(5), "diagnosis": labels})
    linked = link_table(nlp, frame, "diagnosis")
    assert linked.select("n", "diagnosis").equals(frame) and linked.columns == ["n", "diagnosis", *COLUMNS]
    assert linked["linked_how"].to_list() == ["name", "empty", "name", *linked["linked_how"][3:]]
    assert sum(map(len, counted["searched"])) <= 2
    cells = PandasSeries([float("nan") if label is None else label for label in labels])
    given = PandasFrame(n=list(range(5)), diagnosis=cells)
    assert link_table(nlp, given, "diagnosis")["linked_id"] == linked["linked_id"].to_list()
    with pytest.raises(ValueError, match="several columns 'diagnosis'"):
        link_table(nlp, PandasFrame(diagnosis=np.array([["Seizure", "x"]])), "diagnosis")


def run(*words):
    return CliRunner().invoke(app, ["link", *map(str, words)], catch_exceptions=False)


def write(path, labels, delimiter=","):
    frame = pl.DataFrame({"n": range(len(labels)), "diagnosis": labels})
    if path.suffix == ".jsonl":
        path.write_bytes(b"\xef\xbb\xbf" + frame.write_ndjson().encode())
    elif path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix == ".tsv":
        frame.write_csv(path, separator="\t", quote_style="never")
    else:
        frame.write_csv(path, separator=delimiter)
    return path


READERS = {".csv": pl.read_csv, ".jsonl": pl.read_ndjson, ".parquet": pl.read_parquet}
READERS[".tsv"] = lambda path: pl.read_csv(path, separator="\t", quote_char=None)


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_command_writes_the_table_again_with_what_was_found(tmp_path, folder, nlp, suffix):
    labels = ["Seizure", 'the "cold", 2', "MÃ©niÃ¨re disease", "Other seizure", "Seizure"]
    file = write(tmp_path / f"diagnoses{suffix}", labels)
    result = run(file, "--column", "diagnosis", "--pipeline", folder)
    linked = READERS[suffix](tmp_path / f"diagnoses_linked{suffix}")
    expected = link_table(nlp, pl.DataFrame({"n": range(5), "diagnosis": labels}), "diagnosis")
    columns = ["n", "diagnosis", "linked_id", "linked_name", "linked_how"]
    assert linked.select(columns).rows() == expected.select(columns).rows()
    said = re.sub(r"\s+", " ", result.output)
    for text in ("5 labels, 4 distinct", " 3 name ", " 1 residual class ", "1 labels with damaged"):
        assert text in said
    output = tmp_path / f"new/exact{suffix}"
    again = run(file, "--output", output, "--column", "diagnosis", "--pipeline", folder, "--exact")
    assert again.exit_code == 0 and READERS[suffix](output).height == 5


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_the_output_has_the_separator_of_the_table(tmp_path, folder, delimiter):
    labels = ['the "cold", 2', "Seizure; ataxia"]
    file = write(tmp_path / "a.csv", labels, delimiter)
    assert run(file, "--column", "diagnosis", "--pipeline", folder).exit_code == 0
    linked = pl.read_csv(tmp_path / "a_linked.csv", separator=delimiter)
    assert linked.columns == ["n", "diagnosis", *COLUMNS] and linked["diagnosis"].to_list() == labels


def test_a_table_of_one_column_becomes_one_with_commas_and_keeps_its_byte_order_mark(tmp_path, folder):
    (tmp_path / "a.csv").write_text("label\nSeizure\nCold, common\n", encoding="utf-8-sig")
    assert run(tmp_path / "a.csv", "--pipeline", folder).exit_code == 0
    assert (tmp_path / "a_linked.csv").read_bytes().startswith(b"\xef\xbb\xbflabel,linked_id,")
    linked = pl.read_csv(tmp_path / "a_linked.csv")
    assert linked.columns == ["label", *COLUMNS] and linked["label"].to_list() == ["Seizure", "Cold, common"]


@pytest.mark.parametrize("name, encoding", [("a.CSV", "utf-16"), ("a.csv", "cp1252"), ("a.TSV", "utf-8-sig")])
def test_tables_in_other_encodings_become_utf_8(tmp_path, folder, name, encoding):
    table = "Visits of May\n\ndiagnosis,note\nMénière disease,x\nSeizure,y\n"
    table = table.replace(",", "\t") if name == "a.TSV" else table
    (tmp_path / name).write_bytes(table.encode(encoding))
    words = ["--skip-lines", 2, *(["--encoding", encoding] if encoding == "cp1252" else [])]
    assert run(tmp_path / name, "--column", "diagnosis", "--pipeline", folder, *words).exit_code == 0
    data = (tmp_path / f"a_linked{name[1:]}").read_bytes()
    # Programs for spreadsheets know UTF-8 by the mark.
    assert data.startswith(b"\xef\xbb\xbf") is (encoding != "cp1252")
    linked = pl.read_csv(data, separator="\t" if name == "a.TSV" else ",")
    assert linked["diagnosis"].to_list() == ["Ménière disease", "Seizure"]
    assert linked["linked_id"].to_list() == ["MONDO:0007972", SEIZURE]


@cases("link_refusals")
def test_bad_files_are_refused_and_left_alone(tmp_path, monkeypatch, folder, name, labels, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    before = write(tmp_path / name, labels).read_bytes()
    with pytest.raises((ValueError, OSError), match=message):
        run(name, *words, "--pipeline", folder)
    assert (tmp_path / name).read_bytes() == before and len([*tmp_path.iterdir()]) == 2


def test_a_table_that_is_there_is_replaced_only_if_that_is_asked_for(tmp_path, folder):
    file, output = write(tmp_path / "a.csv", ["Seizure"]), tmp_path / "a_linked.csv"
    output.write_text("corrected by hand")
    words = (file, "--column", "diagnosis", "--pipeline", folder)
    with pytest.raises(FileExistsError, match="a_linked.csv is there already. Name another file .* with --force"):
        run(*words)
    assert output.read_text() == "corrected by hand"
    assert run(*words, "--force").exit_code == 0 and "HP:0001250" in output.read_text()


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_looks_like_a_formula_is_escaped_in_cells_that_are_added_to_spreadsheets(tmp_path, suffix):
    names = ["=cmd|' /C calc'!A0", "+1 sign", "-uria", "@home", "'quoted", "seizure"]
    builder = TerminologyBuilder()
    for name in names:
        builder.add_name(f"={len(name)}", name)
        builder.add_name("=other", name)
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker").initialize(terminology=builder.build())
    nlp.to_disk(tmp_path / "pipeline")
    file = write(tmp_path / f"a{suffix}", names)
    assert run(file, "--column", "diagnosis", "--pipeline", tmp_path / "pipeline").exit_code == 0
    linked = READERS[suffix](tmp_path / f"a_linked{suffix}")
    expected = link_table(nlp, names, "diagnosis")
    mark = "'" if suffix in (".csv", ".tsv") else ""
    # Cells that the table had stay as they are.
    assert linked["diagnosis"].to_list() == names
    for column in ("linked_id", "linked_name", "linked_match", "linked_others"):
        cells = [row[column] for row in expected]
        assert linked[column].to_list() == [cell and (mark if cell[0] in "=+-@'" else "") + cell for cell in cells]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of POSIX")
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_full_disk_is_an_error_of_the_system_that_names_the_file(tmp_path, folder, suffix):
    file = write(tmp_path / f"a{suffix}", ["Seizure"] * 100)
    # As on a full disk, a file cannot grow. Without the signal, that is an error.
    script = f"""
import resource, signal, sys
from spacy_sapbert.__main__ import main

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
sys.argv = ["spacy_sapbert", "link", {str(file)!r}, "--column", "diagnosis", "--pipeline", {str(folder)!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert re.search(f"Error: .*a_linked{suffix}: File too large. Check .* the free space", done.stderr), done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a{suffix}"]


NO_TABLES = [
    ("racing heart", "label", TypeError, "takes a list of labels, or a data frame, but 'racing heart' was given. Pass"),
    (None, "label", TypeError, "a data frame, but None was given"),
    (pl.Series(["Seizure"]), "label", TypeError, "a data frame, but "),
    (pl.DataFrame({"n": [1], "diagnosis": ["x"]}), "diagnosi", ValueError, "Did you mean 'diagnosis'. It has: n, diag"),
    (pl.DataFrame({"n": [1], "diagnosis": ["x"]}), "label", ValueError, "no column 'label'. It has: n, diagnosis."),
    (PandasFrame(n=[1]), "label", ValueError, "no column 'label'. It has: n."),
]


@pytest.mark.parametrize("table, column, error, message", NO_TABLES)
def test_what_is_no_table_or_has_no_such_column_is_refused(nlp, table, column, error, message):
    with pytest.raises(error, match=message):
        link_table(nlp, table, column)


def test_a_pipeline_without_a_linker_and_a_table_that_is_linked_already_are_refused(tmp_path, folder, nlp):
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ValueError, match="has no sapbert_linker"):
        run(write(tmp_path / "a.csv", ["Seizure"]), "--column", "diagnosis", "--pipeline", tmp_path / "blank")
    with pytest.raises(ValueError, match="has a column 'linked_how' already. Rename it"):
        link_table(nlp, pl.DataFrame({"label": ["Seizure"], "linked_how": [""]}))


def test_an_ontology_is_no_pipeline(tmp_path):
    (ontology := tmp_path / "hp.obo").write_text(CONCEPTS)
    table = write(tmp_path / "a.csv", ["Seizure"])
    for place in (ontology, tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match=f"There is no pipeline {place}, seen from"):
            run(table, "--pipeline", place, "--column", "diagnosis")
