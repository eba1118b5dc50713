"""The normal form of words: equal for spellings of one word, different for different words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.spelling import normal_words, to_american, to_arabic, to_singular

PLURALS = """
epilepsies epilepsy, metastases metastasis, diagnoses diagnosis, fibroses fibrosis, carcinomata carcinoma,
carcinomas carcinoma, headaches headache, viruses virus, abscesses abscess, areas area, vertebrae vertebra,
testes testis, reflexes reflex, rashes rash, causes cause, diseases disease, thrombi thrombus, indices index,
bacteria bacterium, crises crisis, prostheses prosthesis, doses dose, hdls hdl
"""
NO_PLURALS = "diabetes herpes pancreas lupus virus measles series ascites stenosis loss gas pus aids biceps feces"
BRITISH = """
oedema edema, tumour tumor, tumours tumors, haemorrhage hemorrhage, anaemia anemia, leukaemic leukemic,
ischaemia ischemia, hypercalcaemia hypercalcemia, diarrhoea diarrhea, apnoea apnea, oesophagus esophagus,
paediatric pediatric, orthopaedic orthopedic, gynaecology gynecology, anaesthesia anesthesia, foetal fetal,
oestrogen estrogen, coeliac celiac, faecal fecal, caecum cecum, aetiology etiology, sulphate sulfate, colour color,
behavioural behavioral, fibre fiber, centres centers, generalised generalized, localisation localization,
haemolyse hemolyze, aluminium aluminum
"""
AMERICAN = "aerobic aerosol four hour raised diseased coenzyme shoe pore acre anesthesia edema fiber vertebrae does our"


def read(pairs):
    return [tuple(pair.split()) for pair in pairs.split(",")]


@pytest.mark.parametrize("word, expected", read(PLURALS))
def test_plurals_become_singulars(word, expected):
    assert to_singular(word) == expected == to_singular(expected)


@pytest.mark.parametrize("word", NO_PLURALS.split())
def test_words_that_end_like_plurals_stay(word):
    assert to_singular(word) == word


@pytest.mark.parametrize("word, expected", read(BRITISH))
def test_british_spelling_becomes_american(word, expected):
    assert to_american(word) == expected == to_american(expected)


@pytest.mark.parametrize("word", AMERICAN.split())
def test_other_words_keep_their_spelling(word):
    assert to_american(word) == word


def to_roman(number):
    ones = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
    return "x" * (number // 10) + ones[number % 10]


@pytest.mark.parametrize("letter", ["", "a", "b", "c"])
@pytest.mark.parametrize("number", range(1, 40))
def test_roman_numerals_become_arabic(number, letter):
    assert to_arabic(to_roman(number) + letter, "type") == f"{number}{letter}"


@pytest.mark.parametrize("word", ["", "a", "iiii", "vv", "xxxx", "iix", "mix", "civil", "vid", "ivy", "viid", "2", "c"])
def test_other_words_are_no_numerals(word):
    assert to_arabic(word, "type") == word


@pytest.mark.parametrize("word", ["i", "v", "x", "xa", "vb"])
def test_single_letters_are_numerals_after_some_words_only(word):
    assert to_arabic(word) == to_arabic(word, "linked") == word != to_arabic(word, "type")


@pytest.mark.parametrize(
    "text, other",
    [
        ("Crohn's disease", "CROHN DISEASE"),
        ("Alzheimer’s diseases", "alzheimer disease"),
        ("type II diabetes", "Type 2 Diabetes"),
        ("Factor-V deficiency", "factor 5 deficiencies"),
        ("mucopolysaccharidosis IIIB", "Mucopolysaccharidosis, 3b"),
        ("tumours of the oesophagus", "Tumor of the Esophagus"),
        ("TNF-α", "tnf alpha"),
        ("haemorrhages", "hemorrhage"),
        ("ﬁbrosis", "fibroses"),
    ],
)
def test_spellings_of_one_name_have_one_form(text, other):
    assert normal_words(text) == normal_words(other)


@pytest.mark.parametrize(
    "text, other", [("type 1", "type 2"), ("X-linked", "10-linked"), ("male", "female"), ("i.v.", "4.5")]
)
def test_different_names_have_different_forms(text, other):
    assert normal_words(text) != normal_words(other)


def test_nothing_but_punctuation_has_no_words():
    assert normal_words("") == normal_words("--, (+)") == ()


@given(st.text())
def test_any_text_has_words_without_spaces_and_punctuation(text):
    assert all(word and not any(c.isspace() or c in ".,;-_()" for c in word) for word in normal_words(text))
