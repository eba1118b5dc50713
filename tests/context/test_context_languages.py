"""What notes of other languages than English say of their mentions."""

import pytest
from case_tables import cases
from context_rows import read

from spacy_sapbert.context.cues import list_cue_languages, read_cues


@cases("contexts_de")
def test_german(text, expected):
    assert read(text, "de") == expected


@cases("contexts_es")
def test_spanish(text, expected):
    assert read(text, "es") == expected


@cases("contexts_fr")
def test_french(text, expected):
    assert read(text, "fr") == expected


@cases("contexts_it")
def test_italian(text, expected):
    assert read(text, "it") == expected


@cases("contexts_nl")
def test_dutch(text, expected):
    assert read(text, "nl") == expected


@cases("contexts_pt")
def test_portuguese(text, expected):
    assert read(text, "pt") == expected


@pytest.mark.parametrize("language", list_cue_languages())
def test_each_key_lists_a_phrase_once(language):
    lists = [phrases for phrases in read_cues(language).values() if isinstance(phrases, list)]
    assert [len(phrases) for phrases in lists] == [len(set(phrases)) for phrases in lists]
