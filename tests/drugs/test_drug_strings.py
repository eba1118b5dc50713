"""Drug strings are read into their parts, and what is read can be written and read again."""

from fractions import Fraction

import pytest
from case_tables import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.drugs import read_drug
from spacy_sapbert.drugs.reader import read_strengths
from spacy_sapbert.drugs.reading import DrugName, DrugString
from spacy_sapbert.drugs.strengths import Strength
from spacy_sapbert.drugs.words import load_words


@cases("drug_strings")
def test_a_string_is_read(string, names, strengths, form, release, route, often):
    reading = read_drug(string)
    assert [name.text for name in reading.names] == names
    assert [*map(str, reading.strengths)] == strengths
    assert (reading.form, reading.release, reading.route, reading.how_often) == (form, release, route, often)


@cases("equal_strengths")
def test_strengths_are_compared_in_any_units(one, other, is_equal):
    (one,), (other,) = map(read_strengths, (one, other))
    assert one.equals(other) == other.equals(one) == is_equal


WORDS = load_words()
amounts = st.integers(1, 9999).map(lambda number: Fraction(number, 8))
units = st.sampled_from(["mg", "mcg", "g", "unit", "mEq", "mmol", "%"])
plain = st.builds(Strength, amounts, units, st.just(Fraction(1)), st.just(""))
concentrations = st.builds(
    Strength,
    amounts,
    st.sampled_from(["mg", "mcg", "unit"]),
    st.sampled_from([Fraction(1), Fraction(5), Fraction(1, 2)]),
    st.just("mL"),
)
times = st.integers(2, 23).map("every {} hours".format) | st.sampled_from(
    ["", "once daily", "twice daily", "every 4 to 6 hours", "every other day", "weekly", "at bedtime", "every morning"]
    + ["three times daily before meals", "four times daily before meals and at bedtime", "every 2 weeks"]
)


@st.composite
def drug_strings(draw):
    names = draw(st.lists(st.sampled_from(["alfadrug", "betadrug", "gammadrug"]), min_size=1, max_size=3, unique=True))
    kinds = draw(st.sampled_from([plain, concentrations]))
    strengths = draw(st.lists(kinds, min_size=len(names), max_size=len(names)) | st.just([]))
    # Parts of one string are in the same.
    strengths = [strength._replace(per=strengths[0].per) for strength in strengths]
    return DrugString(
        tuple(map(DrugName, names)),
        tuple(strengths),
        draw(st.sampled_from(["", *WORDS["form"]])),
        draw(st.sampled_from(["", *WORDS["release"]])),
        draw(st.sampled_from([0, 12, 24])),
        draw(st.sampled_from(["", *WORDS["route"]])),
        draw(times),
        draw(st.booleans()),
    )


@settings(max_examples=300)
@given(drug_strings())
def test_a_reading_is_read_as_it_is_written(reading):
    again = read_drug(str(reading))
    implied = WORDS["route of"].get(reading.form, "")
    assert again == reading._replace(route=reading.route or implied)
    assert read_drug(str(again)) == again


pieces = st.lists(st.sampled_from("mg q h / - 5 0 x 1 ( [ ) # tab po % per ml 1.2.3 , drug and of".split()))


@settings(max_examples=300)
@given(st.text(max_size=40) | pieces.map(" ".join))
def test_any_text_is_read(text):
    reading = read_drug(text)
    assert isinstance(str(reading), str)
    assert all(strength.equals(strength) for strength in reading.strengths)


@pytest.mark.parametrize("field", ["form", "route", "release", "frequency"])
def test_all_words_of_a_field_are_read(field):
    for canonical, written in WORDS[field].items():
        for words in written:
            reading = read_drug(f"alfadrug 10 mg {words}")
            read = reading.frequency if field == "frequency" else getattr(reading, field)
            assert read == canonical, words
