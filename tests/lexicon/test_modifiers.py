"""What words around a mention say of it."""

import pytest

from spacy_sapbert.lexicon.modifiers import Modifiers, read_modifiers, read_modifiers_before


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("left left ", Modifiers(side="left")),
        ("severe severe ", Modifiers(severity="severe")),
        ("left right ", Modifiers(side="bilateral")),
    ],
)
def test_a_word_that_stands_twice_before_a_mention_counts_once(before, expected):
    text = f"{before}pain"
    assert read_modifiers_before(text, len(before), "en") == expected
    assert read_modifiers(text, [(len(before), len(text))], "en") == [expected]
