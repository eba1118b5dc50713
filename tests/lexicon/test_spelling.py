"""Typing errors: what a word may be with one, and which known word it is."""

from os.path import commonprefix

import numpy as np
import spacy
from case_tables import cases
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st
from spacy.strings import hash_string

from spacy_sapbert import link_table
from spacy_sapbert.lexicon.languages import ENGLISH
from spacy_sapbert.lexicon.names import LABELS, LINKED, MISSPELT, Lexicon
from spacy_sapbert.lexicon.scan import scan
from spacy_sapbert.lexicon.spelling import LEAST_LETTERS, Speller, hash_letters, list_edits

STRANGE = st.text("abqz", min_size=1, max_size=9)


def is_one_error(word, other):
    """Compare two words letter by letter, as `list_edits` does not."""
    if word[0] != other[0]:
        return False
    longer, shorter = sorted((word, other), key=len, reverse=True)
    if len(longer) == len(shorter):
        places = [place for place, pair in enumerate(zip(word, other, strict=True)) if pair[0] != pair[1]]
        swapped = len(places) == 2 and places[1] == places[0] + 1
        return len(places) < 2 or (
            swapped and word[places[0] : places[1] + 1] == other[places[0] : places[1] + 1][::-1]
        )
    is_shorter_by_one = len(longer) == len(shorter) + 1
    return is_shorter_by_one and any(longer[:at] + longer[at + 1 :] == shorter for at in range(1, len(longer)))


def to_letters(*words):
    return np.array([[*word.encode()] for word in words], dtype=np.uint8)


@given(st.text("abqz", min_size=3, max_size=9), STRANGE)
def test_edits_are_all_words_with_one_error(word, other):
    ours, theirs = set(), set()
    for edits in list_edits(to_letters(word, word[::-1])):
        ours |= {bytes(row).decode() for row in edits[0]}
        theirs |= {bytes(row).decode() for row in edits[1]}
    assert (other in ours) is is_one_error(word, other) or word == other
    assert (other in theirs) is is_one_error(word[::-1], other) or word[::-1] == other


@given(st.text("abcxyz", min_size=1, max_size=40))
def test_letters_have_the_hashes_of_strings(word):
    assert hash_letters(to_letters(word, word[::-1])).tolist() == [hash_string(word), hash_string(word[::-1])]


def test_words_of_any_number_and_length_are_read():
    words = [f"{'x' * n}{chr(97 + m % 26)}{chr(97 + m // 26)}yy" for n in range(10) for m in range(600)]
    known = np.unique(np.array([*map(hash_string, words)], dtype=np.uint64))
    text = " ".join([f"{word}y" for word in words if len(word) > 5] + ["z" * 100_000])
    reading = scan(text).read_content()
    misspelt = Speller(known).correct(text, reading)
    assert len(misspelt) == len(reading.hashes) - 1 > 4000


@given(st.lists(STRANGE, max_size=8), st.lists(STRANGE, max_size=5), st.sampled_from(["", "pain "]))
def test_words_are_put_right_where_one_known_word_is_nearest(known, words, first):
    vocabulary = np.unique(np.array([*map(hash_string, known)], dtype=np.uint64))
    text = first + " ".join(words)
    reading, spelt = scan(text).read_content(), text.split()
    misspelt = Speller(vocabulary).correct(text, reading)
    expected = []
    for word in spelt:
        near = {other for other in known if is_one_error(word, other)} if len(word) >= LEAST_LETTERS else set()
        shared = [len(commonprefix([word, other])) for other in near]
        nearest = [other for other, n in zip(near, shared, strict=True) if n == max(shared)]
        is_strange = word not in known and word != "pain"
        expected.append(nearest[0] if is_strange and len(nearest) == 1 else word)
    kept = [(place, word) for place, word in enumerate(expected) if word != "a"]
    assert reading.hashes.tolist() == [hash_string(word) for _, word in kept]
    assert misspelt == {n for n, (place, word) in enumerate(kept) if word != spelt[place]}


@cases("misspelt_labels")
def test_a_label_is_the_name_that_it_nearly_is(label, expected):
    names = ["Macrocephaly", "Microcephaly", "Glaucoma", "Diarrhea", "Optic atrophy", "Retinal detachment (left)"]
    names += ["Depression", "Tremor", "Myotonia", "Myotonic", "Hyperreflexia", "Hyporeflexia", "Pain"]
    terminology = build_terminology((f"C{n}", name) for n, name in enumerate(names))
    lexicon = Lexicon.build(terminology, ENGLISH)
    given, plain = lexicon.ask([label, "pain"], LINKED)
    found = [terminology.names["name"][row] for row in given.rows if given.how == MISSPELT]
    assert found == [expected][: len(expected)] and plain.how == "form"
    assert not found or not lexicon.ask([label], LABELS)[0].rows


def test_misspelt_labels_are_linked():
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=build_terminology([("C1", "Macrocephaly"), ("C2", "Microcephaly")]))
    assert [one["id"] for one in linker.find(["macrocepahly"], k=1)[0]] == ["C1"]
    assert [row["linked_id"] for row in link_table(nlp, ["microcehpaly", "macrocepahly"])] == ["C2", "C1"]
