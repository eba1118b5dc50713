"""Findings and where texts say that they are: names of both, the pieces of mentions, and sites."""

import time

import pytest
import spacy
from case_tables import cases
from conftest import build_terminology
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.lexicon.languages import ENGLISH, LANGUAGES
from spacy_sapbert.lexicon.names import Lexicon
from spacy_sapbert.lexicon.place_reader import LISTS, get_place_words, read_place_lists
from spacy_sapbert.matcher import FixedMatcher, MatcherSettings
from spacy_sapbert.retrieval.filters import FilterTable

NAMES = [
    *("pain", "swelling", "edema", "tenderness", "weakness", "rash", "ulcer", "fracture", "effusion", "numbness"),
    *("mass", "headache", "drug allergy", "allergy", "penicillin allergy", "latex allergy", "nut allergy"),
    *("knee pain", "hip pain", "elbow pain", "back pain", "low back pain", "chest pain", "abdominal pain"),
    *("foot pain", "ankle pain", "neck pain", "shoulder pain", "joint pain", "painful jaw"),
    *("knee swelling", "swelling of ankle", "knee stiffness", "knee effusion", "arm weakness", "leg weakness"),
    *("finger numbness", "leg edema", "unsteady gait", "foot ulcer", "abdominal distension", "abdominal tenderness"),
    *("ankle tenderness", "wrist fracture", "ankle fracture", "breast mass", "slurred speech", "blurred vision"),
]


@pytest.fixture(scope="module")
def find():
    """Return a function that finds the names above in a text."""
    terminology = build_terminology((f"C{number:07d}", name) for number, name in enumerate(NAMES))
    lexicon = Lexicon.build(terminology, ENGLISH)
    nlp = spacy.blank("en")

    def find(text, **settings):
        settings = MatcherSettings(min_trust=0, **settings)
        matcher = FixedMatcher(settings, lexicon, FilterTable(terminology), ConceptFilter())
        concepts = terminology.name_concept
        return [(span, hit, NAMES[concepts[hit.rows[0]]]) for span, hit in matcher.find([nlp.make_doc(text)])[0]]

    return find


@cases("places")
def test_findings_are_put_together_with_their_sites(find, text, expected):
    assert [(span.text, name) for span, _, name in find(text)] == expected


@pytest.mark.parametrize(
    "text, pieces",
    [
        ("pain under the left kneecap", ["pain under the left kneecap"]),
        ("The knee is not swollen.", ["knee", "swollen"]),
        ("Feet: ulcers", ["Feet", "ulcers"]),
        ("allergic to penicillin", ["allergic to penicillin"]),
    ],
)
def test_mentions_have_the_pieces_that_say_them(find, text, pieces):
    ((_, hit, _),) = find(text)
    assert hit.how == "place" and [text[start:end] for start, end in hit.pieces] == pieces


@pytest.mark.parametrize(
    "text, sites",
    [
        ("rash on her chest and back", ["chest", "back"]),
        ("pain in the upper back", ["upper back"]),
        ("numbness of the lateral aspect of the left foot", ["lateral aspect of the left foot"]),
        ("left knee pain", ["left knee"]),
        ("fracture of the neck of the femur", ["neck of the femur"]),
        ("pain in the knee and the left hip", ["left hip"]),
        ("ABDOMEN: no rash", ["ABDOMEN"]),
        ("back pain, numbness", []),
        ("rash. Her chest is clear", []),
    ],
)
def test_findings_have_their_sites(find, text, sites):
    hit = find(text)[-1][1]
    assert [text[start:end] for start, end in hit.sites] == sites


def test_names_of_a_finding_have_one_of_its_sites(find):
    text = "rash and pain of both knees, the left hip and her chin"
    sites = [(name, [text[start:end] for start, end in hit.sites]) for _, hit, name in find(text)]
    every = ["both knees", "left hip", "chin"]
    assert sites == [("rash", every), ("knee pain", every[:1]), ("hip pain", every[1:2])]


@pytest.mark.parametrize("words, n", [("allergic to nuts and ", 400), ("back ", 4_000)])
def test_long_lines_are_read_in_time(find, words, n):
    """Each word has few others to look at."""
    start = time.process_time()
    find(words * n)
    assert time.process_time() - start < 2


def test_what_the_settings_exclude_is_not_put_together(find):
    text = "mild pain under her kneecap"
    assert find(text)[0][2] == "knee pain"
    for excluding in ({"words": "exact"}, {"skip_names": ["pain of knee"]}, {"ids": ["C0000000"]}):
        assert [name for *_, name in find(text, skip_outside=False, **excluding)] == ["pain"]


WORDS = [
    "pain",
    "swelling",
    "tender",
    "hurts",
    "in",
    "the",
    "left",
    "knee",
    "back",
    "and",
    "is",
    ",",
    ". ",
    "\n\n",
    ": ",
]


@settings(deadline=None, max_examples=150)
@given(st.lists(st.sampled_from(WORDS), max_size=14))
def test_only_what_is_mentioned_again_has_a_site_in_another_sentence(find, words):
    text = " ".join(words)
    for _, hit, name in find(text):
        assert all(0 <= start < end <= len(text) for start, end in (*hit.pieces, *hit.sites))
        between = text[min(start for start, _ in hit.pieces) : max(end for _, end in hit.pieces)]
        if hit.how == "place" and ("." in between or "\n\n" in between):
            assert name.endswith("pain")


@pytest.mark.parametrize("code", [*read_place_lists()])
def test_the_lists_of_a_language_fit_together(code):
    listed = read_place_lists()[code]
    assert code in {language.code for language in LANGUAGES.values()}
    assert {*LISTS, "heads", "sites", "broader", "wholes", "plurals", "recalled", "vague", "allergies"} == {*listed}
    sites, heads = listed["sites"], listed["heads"]
    assert {*listed["broader"], *listed["broader"].values(), *listed["vague"].split(", ")} <= {*sites}
    assert {*listed["recalled"].split(", ")} <= {*heads}
    for pair in listed["wholes"].values():
        head, _, site = pair.partition(" ")
        assert head in heads and site in sites
    words = get_place_words(LANGUAGES[code])
    for site in sites:
        chain = [site]
        while broader := words.broader.get(chain[-1]):
            assert broader not in chain
            chain.append(broader)


def test_languages_without_lists_put_nothing_together():
    assert get_place_words(LANGUAGES["de"]) is None
