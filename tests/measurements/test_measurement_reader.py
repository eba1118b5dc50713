"""What is a measurement, and what is none; values, units, flags and ranges; and that no text takes long."""

import json
import re

import pytest
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from measurement_rows import write_measurement_row, write_measurements

from spacy_sapbert.measurements.analytes import (
    HIGH,
    LOW,
    NORMAL,
    UNKNOWN,
    Interval,
    read_measurands,
    read_measurement_words,
)
from spacy_sapbert.measurements.grammar import get_grammar, read_number
from spacy_sapbert.measurements.patient import read_patient
from spacy_sapbert.measurements.reader import read_measurements

ANALYTES = read_measurands()
CODES = {HIGH, LOW, NORMAL, UNKNOWN}
# Text that says nothing of measurements, and ends a clause.
UNRELATED = st.sampled_from(["Slept well. ", "No rash.\n", "Seen by physio. ", "\n\n", "Pain in the left knee. "])
PLAIN = [(one, unit) for one in ANALYTES.values() for unit in one.units if not one.needs_unit and not one.parts]


@cases("measurements")
def test_which_measurements_a_text_has(text, measurements):
    assert write_measurements(text) == measurements


@cases("patients")
def test_whom_a_text_is_about(text, age, sex):
    patient = read_patient(text)
    assert ("" if patient.age is None else f"{patient.age:.2g}", patient.sex) == (age, sex)


@pytest.mark.parametrize("name", ANALYTES)
def test_all_names_of_an_analyte_are_read(name):
    """Each with a value that is usual in its first unit, and the unit behind it."""
    analyte = ANALYTES[name]
    unit, of_unit = next(iter(analyte.units.items()))
    spelled = next((text for text, code in read_measurement_words()["units"].items() if code == unit), "")
    value = next(end for end in (of_unit.usual[1], of_unit.usual[0], of_unit.least) if end is not None)
    number = f"{value:g}" if value < 1e6 else f"{value:.0f}"
    for text in (*analyte.names, *analyte.short):
        rows = [one.data for one in read_measurements(f"{text} {number} {spelled}".strip())]
        assert [(row["analyte"], row["value"]) for row in rows] == [(name, pytest.approx(value))], text


@given(analyte=st.sampled_from(PLAIN), share=st.floats(0, 1), before=st.lists(UNRELATED), behind=st.lists(UNRELATED))
def test_a_value_is_read_back_wherever_it_stands(analyte, share, before, behind):
    one, unit = analyte
    of_unit = one.units[unit]
    value = round(of_unit.least + share * (min(of_unit.most, 9000) - of_unit.least), 2)
    value = int(value) if value >= 1000 else value
    spelled = next((text for text, code in read_measurement_words()["units"].items() if code == unit), "")
    sentence = f"{one.names[0]} {value} {spelled}".strip()
    text = "".join(before) + sentence + ". " + "".join(behind)
    hits = read_measurements(text)
    if not of_unit.allows(value):
        return
    assert [(hit.data["value"], hit.data["interpretation"] in CODES) for hit in hits] == [(pytest.approx(value), True)]
    [alone] = read_measurements(sentence + ".")
    assert hits[0].data == alone.data
    assert f"{value}" in text[hits[0].start : hits[0].end] and hits[0].start == text.index(sentence)


@given(st.text(alphabet="Na KHb.0123456789<>()[]-/→%HL,:=|\n\t mgdl", max_size=200))
def test_any_text_gives_plain_data_at_its_place(text):
    last = 0
    for hit in read_measurements(text):
        assert last <= hit.start < hit.end <= len(text)
        last = hit.end
        assert json.loads(json.dumps(hit.data)) == hit.data and hit.data["interpretation"] in CODES


@pytest.mark.parametrize(
    "part",
    [
        "1",
        " ",
        "Na ",
        "Na 1",
        "Na (",
        "BP 1/",
        "low ",
        "sodium is was ",
        "K 4.0-",
        "T\n",
        "→1",
        "Na 118→118→",
        "urine Na 1 ",
        "Na <",
        "0.4th-",
    ],
)
def test_long_texts_of_one_thing_do_no_harm(part):
    assert len(read_measurements(part * (90_000 // len(part)))) <= 45_000


def test_a_text_without_names_is_read_once():
    """Words are looked up; nothing else is done where no name is."""
    text = "Nothing of interest was seen by anybody in the ward. " * 50
    grammar = get_grammar()
    words = {word.lower() for word in re.findall(r"[^\W\d_]+|\d+", text)}
    assert words.isdisjoint(grammar.names) and read_measurements(text) == []


@given(st.floats(0, 1e6), st.floats(0, 1e3), st.sampled_from(["", "<", ">", "<=", ">="]))
def test_an_interval_is_judged_as_its_values_are(low, high, comparator):
    interval = Interval.of(low, None, comparator)
    usual = (high, high + 10)
    naive = {LOW if value < usual[0] else HIGH if value > usual[1] else NORMAL for value in interval}
    assert interval.judge(usual) == naive


@pytest.mark.parametrize("text, value", {"1,200": 1200, "0.4": 0.4, "3,5": 3.5, "250,000": 250000, "6·2": 6.2}.items())
def test_numbers_are_read_as_they_are_written(text, value):
    assert read_number(text) == value


def test_the_data_are_sound():
    spelled = {*read_measurement_words()["units"].values(), "{score}", "[pH]", "{INR}"}
    assert len(ANALYTES) >= 60 and sum(bool(one.loinc) for one in ANALYTES.values()) >= 60
    for name, one in ANALYTES.items():
        assert one.names and one.units and set(one.units) <= spelled, name
        for unit, (usual, least, most) in one.units.items():
            ends = [end for end in usual if end is not None]
            assert ends == sorted(ends) and all(least <= end <= most for end in ends), (name, unit)
        for ranges in (one.women, one.men, one.any_child, one.children or {}, *one.others.values()):
            assert set(ranges) <= set(one.units), name
    # No two analytes share a name in the same case.
    texts = [text for one in ANALYTES.values() for text in (*one.names, *one.short)]
    assert len(texts) == len(set(texts))


def test_what_a_flag_says_is_kept():
    [hit] = read_measurements("WBC 18.2 H (4.0-11.0)")
    assert write_measurement_row(hit.data) == "white blood cells: 18.2 10*9/L H"
    assert (hit.data["flag"], hit.data["range"], hit.data["note"]) == ("H", [4, 11], "")
    [hit] = read_measurements("Na 150 L")
    assert "contradict" in hit.data["note"]
