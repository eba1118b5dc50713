"""What people say in six more languages, by the files of the package."""

import lzma
from functools import cache

import pytest
import spacy
from case_tables import cases
from conftest import build_terminology

from spacy_sapbert.lexicon.languages import LANGUAGES, get_language
from spacy_sapbert.lexicon.mentions import find_shared
from spacy_sapbert.lexicon.said import FOLDER, PACKAGE, Phrases

NAMES = (
    "Headache|Vomiting|Fever|Dyspnea|Knee pain|Hip pain|Ankle fracture|Epigastric pain|Hypertension|Heart failure|Gout"
    "|Chronic obstructive pulmonary disease|Renal insufficiency|Weight loss|Weight gain|Blindness|Chorea|Pallor|Nevus"
    "|Anxiety|Rabies|Confusion|Skin rash|Laceration|Fall|Gunshot wound|Graves disease|Hangover|Memory impairment"
)
CODES = ("de", "es", "fr", "it", "nl", "pt")
# The most bytes of a file.
LARGEST = 350_000


@cache
def make_nlp(code):
    nlp = spacy.blank(code)
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("terminology_matcher")
    terminology = build_terminology({name.replace(" ", "_"): [name] for name in NAMES.split("|")})
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
    return nlp


@cases("said_elsewhere")
def test_phrases_are_found_in_their_language(language, text, expected):
    assert [(ent.text, ent.kb_id_.replace("_", " ")) for ent in make_nlp(language)(text).ents] == expected


def test_phrases_stand_for_names_of_their_language_first():
    names = {"1": ["Fiebre"], "2": ["Fever"]}
    linker = spacy.blank("es").add_pipe("sapbert_linker")
    linker.initialize(terminology=build_terminology(names))
    assert linker.find(["calentura"], k=1)[0][0]["id"] == "1"
    linker.initialize(terminology=build_terminology(names), phrases=[])
    assert linker.find(["calentura"], k=1)[0][0]["score"] < 1


@pytest.mark.parametrize("code", CODES)
def test_the_file_of_a_language(code):
    language = get_language(code)
    path = FOLDER / language.lists["said"]
    assert path.stat().st_size < LARGEST
    phrases = Phrases.read([PACKAGE], language)
    assert phrases.phrases == Phrases.read([path]).phrases
    assert all(map(len, phrases.phrases)) and len(phrases.phrases) > 4_500
    assert len({names[-1].lower() for names in phrases.names}) > 4_000
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        said, names = line.split("\t")
        assert len({*said.split("|")}) == said.count("|") + 1 and len({*names.split("|")}) == names.count("|") + 1


@pytest.mark.parametrize("code", CODES)
def test_words_of_a_language_are_no_english_names(code):
    language = get_language(code)
    words = sorted(language.ambiguous)
    names = {str(number): [word.capitalize()] for number, word in enumerate([*words, "colitis"])}
    nlp = spacy.blank(code)
    nlp.add_pipe("terminology_matcher")
    nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(names), phrases=[])
    text = "; ".join([*words, *map(str.capitalize, words), "colitis"])
    assert [ent.text for ent in nlp(text).ents] == ["colitis"]
    # None of them is how the language says a finding.
    said = {phrase.lower() for phrases in Phrases.read([PACKAGE], language).phrases for phrase in phrases}
    assert said.isdisjoint(words) and words


def test_all_longest_parts_are_tried_first():
    (shared,) = find_shared("Herz- und Nierenversagen", get_language("de"))
    assert (shared.start, shared.end) == (0, 5)
    assert shared.forms[:4] == ["Herzrenversagen", "Herzenversagen", "Herznversagen", "Herzversagen"]
    assert shared.others[3] == (16, 24)


@pytest.mark.parametrize("code", sorted({language.code for language in LANGUAGES.values()} - {"de", "nl"}))
def test_words_share_no_parts_where_compounds_are_several_words(code):
    assert [*find_shared("Herz- und Nierenversagen, hart- en nierfalen", get_language(code))] == []


@pytest.mark.parametrize("code", ["de", "es", "fr"])
@pytest.mark.parametrize(
    ("general", "special"),
    [("hepatitis", "hepatitis a"), ("aortic aneurysm", "ruptured abdominal aortic aneurysm")],
)
def test_a_general_name_stands_before_more_special_ones(code, general, special):
    phrases = Phrases.read([PACKAGE], get_language(code))
    (names,) = [names for names in phrases.names if special in names]
    assert general in names[: names.index(special)]
