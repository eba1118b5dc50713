"""Words that are derived from names: the shipped lists, and adjectives by their endings."""

import pytest
from case_tables import cases

from spacy_sapbert.lexicon.derived import list_adjectives, list_bases, read_list
from spacy_sapbert.lexicon.languages import LANGUAGES
from spacy_sapbert.text import normal_words


def test_shipped_words_are_not_what_they_are_derived_from_and_stand_in_one_group():
    derived, groups = read_list("derived_words"), read_list("word_groups")
    assert len({*map(tuple, derived)}) == len(derived) > 100
    assert all(len({*map(normal_words, words)}) == len(words) > 1 for words in derived)
    grouped = [word for group in groups for word in group]
    assert len({*grouped}) == len(grouped) > 40 and all(len(group) > 1 for group in groups)


@cases("adjectives")
def test_adjectives_go_by_the_ending_and_back(noun, adjectives):
    assert list_adjectives(noun) == adjectives
    assert all(noun.lower() in list_bases(adjective) for adjective in adjectives)


@cases("bases")
def test_names_that_a_text_is_derived_from(text, bases):
    assert list_bases(text) == bases and list_bases("") == []


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
def test_every_listed_word_leads_back_to_its_names(language):
    for name, *others in read_list("derived_words", language):
        assert all(name in list_bases(other, language) for other in others)
    # English endings are for English alone.
    assert ("photophobia" in list_bases("photophobic", language)) is language.is_english
