"""The script `said_languages` of the project open_terminology: which phrases of six languages are packed."""

import lzma

import pytest
import spacy
from conftest import build_terminology
from project_scripts import import_scripts

from spacy_sapbert.lexicon.languages import get_language
from spacy_sapbert.lexicon.said import Phrases

with import_scripts("open_terminology"):
    import said_languages as project

ROWS = """\
language	phrase	name	english	kind
de	Kopfweh	Kopfschmerzen	headache	lay
de	Kopfschmerzen	Kopfschmerzen	headache	name
de	mir tut der Schädel weh	Kopfschmerzen	headache	verb
de	Kater	Kater	hangover	name
de	HWI	Harnwegsinfekt	urinary tract infection	short
de	RR 90	Hypotonie	hypotension	clin
de	Kopfschmerzen	Migräne	migraine	lay
de	Nase zu	verstopfte Nase	nasal obstruction	lay
de	Trübsinn	Niedergeschlagenheit	depressed mood	lay
fr	toux	toux	cough	name
fr	Wilson	maladie de Wilson	Wilson disease	clin
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The files that are made of a terminology that knows headaches and knee pain."""
    nlp, folder = spacy.blank("en"), tmp_path_factory.mktemp("phrases")
    terminology = build_terminology({"1": ["Headache", "Cephalgia"], "2": ["Knee pain"]})
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology, phrases=[])
    nlp.to_disk(folder / "nlp")
    (folder / "phrases.tsv.xz").write_bytes(lzma.compress(ROWS.encode()))
    project.main(folder / "phrases.tsv.xz", str(folder / "nlp"), folder)
    return {code: Phrases.read([folder / f"said_{code}.tsv.xz"]) for code in ("de", "fr")}


def test_phrases_are_packed_with_names_of_their_language_and_english_ones(packed):
    (place,) = [place for place, names in enumerate(packed["de"].names) if "headache" in names]
    assert packed["de"].names[place][:2] == ["Kopfschmerzen", "headache"]
    assert packed["de"].phrases[place] == ["Kopfweh", "Kopfschmerzen", "mir tut der Schädel weh", "tut Schädel weh"]
    assert "toux" in {phrase for of in packed["fr"].phrases for phrase in of}


def test_what_is_ordinary_or_short_or_a_number_is_left_out(packed):
    phrases = {phrase for of_language in packed.values() for of in of_language.phrases for phrase in of}
    assert phrases.isdisjoint(["Kater", "HWI", "RR 90", "Wilson"])
    # The matcher would look for "Nase".
    assert "Nase zu" not in phrases
    assert not [names for names in packed["de"].names if "migraine" in names]


def test_what_the_human_phenotype_ontology_calls_it_is_a_further_name(packed):
    (names,) = [names for names in packed["de"].names if "depressed mood" in names]
    assert names == ["Niedergeschlagenheit", "depressed mood", "Depression"]


def test_findings_have_sites_in_compounds_and_as_words(packed):
    (of_knee,) = [
        of for of, names in zip(packed["de"].phrases, packed["de"].names, strict=True) if "knee pain" in names
    ]
    assert {"knieschmerzen", "kniegelenksschmerzen", "schmerzen knie", "schmerzt knie"} <= {*of_knee}


def test_findings_and_sites_that_mean_something_else_are_left_out():
    of_breast = {line.phrase for line in project.combine_sites("es") if line.english == "breast abscess"}
    # "En el seno de un absceso" is said of any other site as well.
    assert "absceso mama" in of_breast and "absceso seno" not in of_breast


def test_small_words_go_if_enough_is_left():
    small = {"me", "la"}
    lines = [project.Line(text, "x", "x", "verb") for text in ("me duele la cabeza", "me duele")]
    kept = [line.phrase for line in project.shorten(lines, get_language("es"), small)]
    assert kept == ["me duele la cabeza", "duele cabeza", "me duele"]


def test_the_english_name_stands_before_other_names_of_its_concept(tmp_path):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=build_terminology({"1": ["Hepatitis B", "Hepatitis"]}), phrases=[])
    nlp.to_disk(tmp_path / "nlp")
    names = project.list_names(str(tmp_path / "nlp"), ["hepatitis"])
    assert names["hepatitis"][0] == "hepatitis"
