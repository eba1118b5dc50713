"""Names and mentions in one form, words in one form for all of their spellings; runs that a tokenizer is slow for."""

import itertools
import re
import unicodedata
from collections import Counter

import polars as pl
import pytest
from case_tables import cases
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_sapbert.terminology.names import normalize_names
from spacy_sapbert.text import (
    MAX_RUN,
    list_letters,
    list_marks,
    measure_run,
    normal_words,
    normalize_name,
    normalize_writing,
    to_american,
    to_arabic,
    to_singular,
    write_plainly,
)

ZWSP, ZWNJ, ZWJ, BOM, SOFT_HYPHEN = "\u200b", "\u200c", "\u200d", "\ufeff", "\u00ad"


@pytest.mark.parametrize(
    "text, normal",
    [
        ("heart attack", "heart attack"),
        ("\t heart \n\u00a0\u2009attack\u3000", "heart attack"),
        (f"heart{ZWSP} {BOM} attack", "heart attack"),
        (f"hyper{SOFT_HYPHEN}tension", "hypertension"),
        ("\x00fe\x07ver\x7f\x9f", "fever"),
        ("\u202efever\u202c\u2060\u2066", "fever"),
        ("Erka\u0308ltung", "Erkältung"),
        (f"e{ZWSP}\u0301", "é"),
        ("\u212b", "\u00c5"),
        (ZWSP + SOFT_HYPHEN + "\x01", ""),
        # Joiners: they mean something in Persian, Hindi and Malayalam, and nothing in Latin script or beside a space.
        (f"می{ZWNJ}روم", f"می{ZWNJ}روم"),
        (f"می{ZWNJ}{ZWNJ}{ZWJ}روم", f"می{ZWNJ}روم"),
        (f"क्{ZWJ}ष", f"क्{ZWJ}ष"),
        (f"ന്{ZWJ}", f"ന്{ZWJ}"),
        (f"{ZWNJ}می", "می"),
        (f"heart{ZWJ}beat{ZWNJ}", "heartbeat"),
        # Format characters that are drawn.
        ("\u06dd12", "\u06dd12"),
    ],
)
def test_what_is_kept_and_what_is_not(text, normal):
    assert normalize_name(text) == normal
    assert normalize_names(pl.Series([text, "a"]))[0].to_list() == [normal, "a"]


invisible = st.sampled_from(
    [ZWSP, ZWNJ, ZWJ, BOM, SOFT_HYPHEN, "\u202e", "\x00", "\x1f", "\x85", " ", "\u0301", "ي", "्"]
)
texts = st.lists(st.characters(exclude_categories=("Cs",)) | invisible, max_size=12).map("".join)


def drawn(text):
    """Count the visible characters of a text, letters and marks apart."""
    return Counter(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c)[0] not in "CZ")


@settings(max_examples=300, deadline=None)
@given(texts)
@example(f"ب\u0301{ZWSP}\u064b{ZWNJ}")
@example(f"ب\u0301{ZWNJ}\u064b{ZWNJ}")
def test_normalizing_twice_changes_nothing_and_no_visible_character_is_lost(text):
    normal = normalize_name(text)
    assert normalize_name(normal) == normal == " ".join(normal.split())
    assert unicodedata.is_normalized("NFC", normal)
    assert drawn(normal) == drawn(text)
    assert not any(unicodedata.category(c) == "Cc" for c in normal)
    assert not set(normal) & {ZWSP, BOM, SOFT_HYPHEN, "\u202e"}


@given(st.lists(texts, max_size=6))
def test_a_column_is_normalized_like_single_names(names):
    normal, n_changed = normalize_names(pl.Series(names, dtype=pl.String()))
    assert normal.to_list() == list(map(normalize_name, names))
    assert n_changed == sum(normalize_name(name) != name.strip() for name in names)


@cases("unified_writings")
def test_writings_are_unified(text, expected):
    assert normalize_writing(text) == expected


@given(st.text())
def test_unified_writing_is_stable(text):
    once = normalize_writing(normalize_name(text))
    assert normalize_writing(once) == once and once == once.strip()


@cases("plain_texts")
def test_entities_and_plurals_in_brackets_are_written_plainly(text, plain):
    assert write_plainly(text) == plain.replace("_", "\u2060")


@given(st.text() | st.lists(st.sampled_from("&#39; &nbsp; &amp; &#0; &#xd800; (s) s a ; # &".split())).map("".join))
def test_plain_text_has_the_same_length_and_stays(text):
    plain = write_plainly(text)
    assert len(plain) == len(text)
    assert plain == text or "&" in text or "s)" in text


def test_greek_letters_have_their_names():
    for letter in "αβγδεζηθικλμνξοπρστυφχψω":
        # Unicode writes one name as Greeks do today.
        name = unicodedata.name(letter).removeprefix("GREEK SMALL LETTER ").lower().replace("lamda", "lambda")
        assert normalize_writing(f"{letter} (x)") == f"{name} (x)"
        assert normalize_writing(f"({letter.upper()})") == f"({name.capitalize()})"


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


@pytest.mark.parametrize(
    "normalize, changed, same", [(to_singular, PLURALS, NO_PLURALS), (to_american, BRITISH, AMERICAN)]
)
def test_words_have_one_number_and_one_spelling(normalize, changed, same):
    for pair in changed.split(","):
        word, expected = pair.split()
        assert normalize(word) == expected == normalize(expected)
    for word in same.split():
        assert normalize(word) == word


def to_roman(number):
    ones = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
    return "x" * (number // 10) + ones[number % 10]


def test_roman_numerals_become_arabic():
    for number, letter in itertools.product(range(1, 40), ("", "a", "b", "c")):
        assert to_arabic(to_roman(number) + letter, "type") == f"{number}{letter}"
    for word in ("", "a", "iiii", "vv", "xxxx", "iix", "mix", "civil", "vid", "ivy", "viid", "2", "c"):
        assert to_arabic(word, "type") == word
    # Single letters are numerals after some words only.
    for word in ("i", "v", "x", "xa", "vb"):
        assert to_arabic(word) == to_arabic(word, "linked") == word != to_arabic(word, "type")


@cases("spellings_of_names")
def test_spellings_of_one_name_have_one_form(text, other):
    assert normal_words(text) == normal_words(other)


def test_different_names_have_different_forms():
    for text, other in (("type 1", "type 2"), ("X-linked", "10-linked"), ("male", "female"), ("i.v.", "4.5")):
        assert normal_words(text) != normal_words(other)


@given(st.text())
def test_any_text_has_words_without_spaces_and_punctuation(text):
    assert all(word and not any(c.isspace() or c in ".,;-_()" for c in word) for word in normal_words(text))


@cases("letters")
def test_letters_of_scripts_whose_words_a_vocabulary_lacks(tokens, letters):
    ids = {token: id_ for id_, token in enumerate(tokens.split())}
    assert {ids[token] for token in letters.split()} == list_letters(ids)
    # A few words among many do not make a script known.
    many = {f"word{number}": len(ids) + number for number in range(2000)}
    found = list_letters({**ids, **many}) - set(many.values())
    assert found == {ids[token] for token in tokens.split() if re.search("[α-ωά\u0600-\u06ffぁ-ー]", token)}


def test_all_marks_are_listed():
    marks = filter(lambda character: unicodedata.category(character)[0] == "M", map(chr, range(0x300, 0x10000)))
    assert list_marks() == "".join(marks)


def test_what_takes_long_is_measured_and_ordinary_texts_pass_at_any_length():
    for unit in ("(", "$", "😀", "'s", "（", "a:", "http:中", "\u200b"):
        assert measure_run(f"a {unit * 100_000} b") > MAX_RUN
    assert measure_run("ab (((( abc\t((\n") == 4
    for text in (
        "",
        "患者发热，咳嗽三天，体温38.5℃，血压120/80mmHg。",
        "患者は三日前からの発熱とカレーのような咳を訴える。",
        "ผู้ป่วยมีไข้และไอมาสามวัน",
        "She has a racing heart (120/min), headaches and a low platelet count.\n",
        "-" * 132 + "\n" + "_" * 200 + "\u3000" + "=" * 200 + "\n",
    ):
        assert measure_run((text * 20_000)[:20_000]) <= MAX_RUN
