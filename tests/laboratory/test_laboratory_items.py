"""Labels of laboratories, and the tests of a small LOINC with invented codes that they mean."""

import random

import polars as pl
import pytest
import spacy
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from loinc_files import list_parts, make_rows, write_long_name, write_release
from typer.testing import CliRunner

from spacy_sapbert import TerminologyBuilder
from spacy_sapbert.__main__ import app
from spacy_sapbert.laboratory.columns import link_laboratory_table
from spacy_sapbert.laboratory.items import list_systems, read_item, read_unit
from spacy_sapbert.laboratory.linking import LaboratoryLinker, link_laboratory_items
from spacy_sapbert.laboratory.parts import LoincParts, read_long_name, read_specified_name, read_word_lists
from spacy_sapbert.terminology.readers.loinc import read_loinc
from spacy_sapbert.text import normal_words


@pytest.fixture(scope="module")
def loinc(tmp_path_factory):
    return read_loinc(write_release(tmp_path_factory.mktemp("loinc"), make_rows()))


@pytest.fixture(scope="module")
def linker(loinc):
    return LaboratoryLinker(loinc)


def write_full_name(test):
    return ":".join(test.parts).removesuffix(":") if test else ""


@cases("laboratory_items")
def test_labels_mean_tests(label, specimen, unit, test, how, linker):
    link = linker.link(label, specimen, unit)
    assert (write_full_name(link.test), link.how) == (test, how), link.item


@cases("loinc_names")
def test_names_have_parts(name, component, property, time, system, scale, method):
    expected = LoincParts(component, property, time, system, scale, method)
    assert (read_specified_name(name) or read_long_name(name)) == expected


@pytest.mark.parametrize("parts", list(list_parts()))
def test_both_names_of_a_test_have_its_parts(parts):
    assert read_long_name(write_long_name(parts)) == parts
    assert read_specified_name(":".join(parts)) == parts


@given(st.text())
def test_any_text_is_read(text):
    assert read_long_name(text).component or not text.strip() or text.strip().startswith(("--", "in ", "of ", "by "))
    read_specified_name(text)
    read_item(text, text, text)
    read_unit(text)


# Labels, and what the test has to have, whatever the ranks are.
SAID = {
    "Creatinine, Urine": {"component": "Creatinine", "system": "Urine"},
    "Neutrophils %": {"component": "Neutrophils/100 leukocytes", "property": "NFr"},
    "Lymphocyte Count, Manual, CSF": {"property": "NCnc", "system": "CSF", "method": "Manual count"},
    "Reticulocyte Count, Automated": {"property": "NCnc", "method": "Automated count"},
    "Vancomycin trough": {"component": "Vancomycin^trough"},
    "24 hr Protein": {"time": "24H"},
}


@pytest.mark.parametrize("seed", range(5))
def test_ranks_never_contradict_what_is_said(tmp_path, seed):
    rows = make_rows()
    random.Random(seed).shuffle(rows)
    for number, row in enumerate(rows, 1):
        row["COMMON_TEST_RANK"] = str(number)
    links = link_laboratory_items(read_loinc(write_release(tmp_path, rows)), list(SAID))
    for label, link in zip(SAID, links, strict=True):
        parts = link.test.parts._asdict()
        assert {name: parts[name] for name in SAID[label]} == SAID[label]


def test_the_order_of_tests_changes_no_link(tmp_path, linker):
    rows = make_rows()
    labels = [row["LONG_COMMON_NAME"] for row in rows[::7]] + [row["COMPONENT"] for row in rows[::3]]
    random.Random(0).shuffle(rows)
    links = link_laboratory_items(read_loinc(write_release(tmp_path, rows)), labels)
    for label, link in zip(labels, links, strict=True):
        assert write_full_name(linker.link(label).test) == write_full_name(link.test)


def test_of_tests_that_a_label_leaves_open_the_commonest_is_meant(tmp_path):
    rows = make_rows()
    of_urine = next(row for row in rows if row["COMPONENT"] == "Creatinine" and row["SYSTEM"] == "Urine")
    of_urine["COMMON_TEST_RANK"] = "3"
    (link,) = link_laboratory_items(read_loinc(write_release(tmp_path, rows)), ["Creatinine"])
    assert link.test.id == of_urine["LOINC_NUM"] and link.test.rank == 3 and link.others
    (link,) = link_laboratory_items(read_loinc(tmp_path), ["Creatinine"], ["Serum"])
    assert link.test.parts.system == "Ser/Plas"


def test_long_names_are_enough(loinc):
    """Of a plain table, and with names of UMLS, the same tests are meant."""
    builder, umls = TerminologyBuilder(), TerminologyBuilder()
    umls.add_name("C0000001", "creatinine")
    for id_, name in loinc.concepts.select("id", "canonical_name").rows():
        builder.add_name(id_, name)
        full_name = loinc[id_].names[1]
        umls.add_name(id_, f"{full_name}:" if full_name.count(":") == 4 else full_name, source="LNC", term_type="LN")
    labels = ["Creatinine", "Hgb", "Neutrophils %", "Vancomycin", "Glucose, CSF", "24 hr Protein"]
    of_loinc, of_table, of_umls = (
        [link.test and link.test.id for link in link_laboratory_items(terminology, labels)]
        for terminology in (loinc, builder.build(), umls.build())
    )
    assert of_loinc == of_table == of_umls and None not in of_loinc


def test_columns_of_another_length_are_refused(loinc):
    with pytest.raises(ValueError, match="There are 1 specimens, but 2 labels"):
        link_laboratory_items(loinc, ["Sodium", "K"], ["Blood"])


def test_tables_get_the_columns_of_links(loinc):
    table = pl.DataFrame(
        {"label": ["WBC", "WBC", None], "fluid": ["Urine", None, None], "unit": ["#/hpf", "K/uL", "?"]}
    )
    linked = link_laboratory_table(loinc, table, specimen_column="fluid", unit_column="unit")
    assert linked["linked_how"].to_list() == ["parts", "parts", "empty"]
    assert linked["linked_name"].to_list()[0].startswith("Leukocytes [#/area] in Urine sediment")
    assert linked["linked_note"].to_list() == ["read as urine", None, "unit '?' not known"]
    assert "Leukocytes [#/volume] in Cerebral spinal fluid" in linked["linked_others"][1]
    with pytest.raises(ValueError, match="has no column 'fluids'. It has: label, fluid, unit"):
        link_laboratory_table(loinc, table, specimen_column="fluids")
    with pytest.raises(ValueError, match="has a column 'linked_how' already"):
        link_laboratory_table(loinc, linked)
    with pytest.raises(ValueError, match="'n' holds Int64, but has to hold text"):
        link_laboratory_table(loinc, table.with_columns(n=pl.lit(1, pl.Int64)), unit_column="n")


def test_the_command_links_labels_of_laboratories(tmp_path, loinc, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker").initialize(terminology=loinc)
    nlp.to_disk("pipeline")
    (tmp_path / "a.csv").write_text("label,fluid\nCreatinine,Urine\nHgb,Blood\n", encoding="utf8")
    words = ["link-laboratory", "a.csv", "--pipeline", "pipeline", "--specimen-column", "fluid"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    names = pl.read_csv("a_linked.csv")["linked_name"].to_list()
    assert names == ["Creatinine [Mass/volume] in Urine", "Hemoglobin [Mass/volume] in Blood"]


def test_the_lists_of_words_have_one_reading_for_each():
    groups = read_word_lists("analytes")["names"]
    names = [(normal_words(name), place) for place, group in enumerate(groups) for name in group]
    assert len({name for name, _ in names}) == len(set(names)), "a name is in two groups"
    words = read_word_lists("words")
    assert {
        phrase: list_systems(name) for phrase, name in words["specimens"].items() if name not in words["systems"]
    } == {}
    assert {*words["kinds"].values()} <= {*words["properties"], "quantity"}
    codes = {*read_word_lists("loinc_parts")["systems"].values()}
    for specimen in ("serum", "urine", "csf", "stool", "pleural fluid", "peritoneal fluid", "synovial fluid"):
        assert {*words["systems"][specimen]} & codes, specimen


@pytest.mark.parametrize(
    "unit, code",
    {
        "mg/dL": "MCnc", "mmol/L": "SCnc", "mEq/L": "SCnc", "IU/L": "CCnc", "K/uL": "NCnc", "10^9/L": "NCnc",
        "µg/mL": "MCnc", "%": "NFr", "fL": "EntVol", "pg": "EntMass", "#/hpf": "Naric", "mg/24hr": "MRat",
        "mg/g": "MRto", "mm/hr": "Vel", "sec": "Time", "mL/min/1.73m2": "ArVRat", "mOsm/kg": "Osmol", "mm Hg": "PPres",
    }.items(),
)  # fmt: skip
def test_units_tell_properties(unit, code):
    assert code in read_unit(unit)
