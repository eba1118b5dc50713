"""Names and texts in other languages than English: words that names are not made of, plurals, heads, joins."""

import copy
import pickle

import numpy as np
import pytest
from case_tables import cases

from spacy_sapbert import TerminologyBuilder
from spacy_sapbert.columns import CodedColumn
from spacy_sapbert.lexicon.bags import BagTable
from spacy_sapbert.lexicon.derived import read_list
from spacy_sapbert.lexicon.find import NameFinder
from spacy_sapbert.lexicon.languages import ENGLISH, LANGUAGES, UNKNOWN, find_language, get_language, get_reader
from spacy_sapbert.lexicon.scan import key_names, key_texts, scan
from spacy_sapbert.text import strip_accents


def build_in(language, names):
    """Build a terminology of names, each of a concept of its own."""
    builder = TerminologyBuilder()
    for number, name in enumerate(names):
        builder.add_name(f"C{number}", name, language=language)
    return builder.build()


def find(language, names, text):
    """Find names in a text: what is found, and the name."""
    terminology = build_in(language, names)
    allowed = np.ones(len(names), dtype=bool)
    table = BagTable.of(terminology, get_language(language))
    rules = {"is_exact": False, "own_case_length": 5, "skip_names": ()}
    found = NameFinder(table, terminology, allowed, (), **rules).find([text])[0]
    return {(text[hit.start : hit.end], terminology.names["name"][hit.rows[0]]) for hit in found}


@cases("forms", "unspaced_forms", "words_for_names")
def test_names_in_other_numbers_and_with_other_function_words(language, name, text):
    assert (text, name) in find(language, [name], text)


@cases("unspaced_forms")
def test_names_of_languages_without_spaces_are_found_inside_sentences(language, name, text):
    for before, behind in [("患者有", "，没有发热。"), ("再", "と診断された"), ("ＣＴ：", "\n")]:
        assert find(language, [name], before + text + behind) == {(text, name)}


OTHERS = [code for code, language in LANGUAGES.items() if len(code) == 2 and language is not ENGLISH]


@cases("no_forms")
def test_what_is_no_other_form_of_a_name(language, name, text):
    assert find(language, [name], text) == set()


@cases("numbers")
def test_a_mention_in_another_number_is_the_name(language, name, text):
    names = build_in(language, [name, "x"]).names
    of_names = find_language(names["language"])
    keys = key_names(names["name"], of_names).ordered.tolist()
    of_text, of_name, other = key_texts([text, name, "y"], of_names).tolist()
    assert of_text == of_name and of_name in keys and other not in keys


@pytest.mark.parametrize("language", [*LANGUAGES.values(), UNKNOWN], ids=[*LANGUAGES, "unknown"])
def test_a_copy_of_a_language_is_the_same_one(language):
    assert pickle.loads(pickle.dumps(language)) is language is copy.deepcopy(language)


@pytest.mark.parametrize("code", [code for code in LANGUAGES if "synonyms" in LANGUAGES[code].lists])
def test_the_lists_of_words_that_stand_for_others_have_several_on_a_line(code):
    language = LANGUAGES[code]
    for kind, least in [("synonyms", 200), ("derived_words", 100)]:
        lines = read_list(kind, language)
        assert len({*map(tuple, lines)}) == len(lines) > least
        readings = [[tuple(scan(name, language).read_content().hashes) for name in line] for line in lines]
        assert all(len(line) > 1 and () not in line for line in readings)
        # Several numbers or spellings of a name may be one to a reader, but not what is derived from it.
        assert kind == "synonyms" or all(words[0] not in words[1:] for words in readings)


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_lists_of_a_language_contradict_neither_each_other_nor_themselves(code):
    language = LANGUAGES[code]
    words = [*map(strip_accents, " ".join([language.function, language.links, language.joins]).split())]
    assert sorted(words) == sorted(language.word_kinds) == sorted(map(str.lower, words))
    assert all(get_reader(language)(word).kind == kind for word, kind in language.word_kinds.items())
    assert len(language.abnormal) == len(set(language.abnormal.tolist()))
    assert bool(len(language.abnormal)) == bool(language.kinds) == language.is_spaced
    # A singular stays as it is, or becomes what its plural becomes.
    for ending, other in language.endings.items():
        assert language.to_singular(f"metamorf{ending}") == language.to_singular(f"metamorf{other}")


@pytest.mark.parametrize("code", [*OTHERS, "pl"])
@cases("english_forms")
def test_no_english_form_is_one_in_another_language(code, text, name):
    assert (text, name) in find("ENG", [name], text)
    assert (text, name) not in find(code, [name], text)
    names = build_in(code, [name]).names["name"]
    assert key_texts([text], get_language(code)) not in key_names(names, get_language(code)).ordered


def test_the_language_is_that_of_the_pipeline_or_of_most_names():
    names = build_in("SPA", ["uno", "dos"]).names["language"]
    assert find_language(names) is LANGUAGES["SPA"] is LANGUAGES["es"]
    assert find_language(names[:0]) is ENGLISH is LANGUAGES["en"]
    assert find_language(build_in("", ["one"]).names["language"]) is UNKNOWN
    mixed = CodedColumn.make([*names, "ENG", "ENG", "ENG"])
    assert find_language(mixed) is find_language(mixed, "xx") is find_language(names, "en") is ENGLISH
    assert find_language(mixed, "es") is LANGUAGES["SPA"] and find_language(mixed, "pl") is UNKNOWN


# A name that is an English word, and a common one or not: what a text in another language says is that, too.
def test_english_names_beside_others_are_as_probable_as_in_english():
    builder = TerminologyBuilder()
    words = ["hat", "person", "seizure", "men", "multiple endocrine neoplasia"]
    for number, word in enumerate(words):
        builder.add_name(f"C{min(number, 3)}", word, language="ENG")
        builder.add_name(f"D{number}", f"{word}o", language="SPA")
    terminology = builder.build()
    english, spanish = (BagTable.of(terminology, get_language(code)) for code in ("en", "es"))
    for row, name in enumerate(terminology.names["name"]):
        assert name not in words or spanish.trust[row] == english.trust[row]
    named = terminology.names["name"].to_list()
    assert spanish.trust[named.index("hat")] < spanish.trust[named.index("hato")]
    assert [named[row] for row in spanish.acronyms] == ["men"]


def test_no_english_list_is_for_names_in_another_language():
    # "Defect" and "malformation" are one class, "hypertensive" is hypertension, and "renal" the kidney's, in English.
    for name, text in [("defect heart", "heart malformation"), ("Hypertension", "hypertensive"), ("of heart", "heart")]:
        assert find("CZE", [name, "heart of heart"], text) == set() != find("ENG", [name], text)
