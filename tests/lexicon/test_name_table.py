"""The table of names against a loop over them."""

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spacy_sapbert import TerminologyBuilder
from spacy_sapbert.lexicon.languages import ENGLISH, get_language
from spacy_sapbert.lexicon.names import LINKED, Lexicon
from spacy_sapbert.lexicon.scan import MULTIPLIER, key_names, key_texts, scan, scan_names
from spacy_sapbert.ragged import KeyTable

# Words, punctuation and signs at the ends of parts or between them, numerals, white space, and letters without a hash.
PARTS = (
    "Fever fevers type Type, I ii v V, x (I) -i a + - +- & / , (a) (b a) a, [a],b a/b a-b a- -a a' 'a -5 5- A- (-) <5 "
    "4'-x a's TNF-α É e\u0301 Ⅴ ʼ ʼ,a ™ _ _a a_ \u200ba a\u2060, 角 a\tb a- A-\nBB \n dolores náuseas, 1 I-a"
).split(" ")
NAMES = st.lists(st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=5).map(" ".join), max_size=9)
ENDS = "a &|a|& a|a & b|a / b|a, (b|a ,(b|a,(b)|a - b|a b -|(a b|a b)|ʼ, a|- &|a ʼ,b|a- , b|a, -b|a , b".split("|")
NUMERALS = ["type i", "type 1", "type I, a", "type, I", "i", "type Ⅴ", "type 5", "a i", "factor\tv", "factor 5"]
LINES = "A- \nBB|A- \n BB|A-\nBB|A- BB|a\n \nb|a\n\nb|a b|a  b|a \nb| a|a\u00a0b|| ".split("|")


def read_key(name, language):
    """Make the key of a name word by word; 0 without words."""
    key = 0
    for place, (word, mark) in enumerate(zip(*(scan(name, language).words[n].tolist() for n in (0, 3)), strict=True)):
        for value in (mark, word) if place and mark else (word,):
            key = (key * int(MULTIPLIER) + value) % (1 << 64)
    return key


@example(["Abscess(es) of liver", "deposit(s)", "caf&eacute; au lait", "Crohn 's disease"], "ENG")
@example(["hueso(s) roto", "dolor(es)"], "SPA")
@example(["groupe à risque", "hépatite à virus", "vitamine À"], "FRE")
@example(ENDS, "ENG")
@example(NUMERALS, "ENG")
@example(LINES, "ENG")
@given(NAMES, st.sampled_from(["ENG", "SPA", ""]))
def test_names_that_a_loop_reads_alike_share_an_entry(names, code):
    language = get_language(code)
    expected: dict[int, list[int]] = {}
    for row, name in enumerate(names):
        if key := read_key(name, language):
            expected.setdefault(key, []).append(row)
    keys = key_names(pl.Series(names, dtype=pl.String()), language).ordered
    table = KeyTable.make(keys, np.arange(len(names)))
    assert sorted(table.rows_of(entry).tolist() for entry in range(len(table.keys))) == sorted(expected.values())
    entries = table.find(key_texts(names, language)).tolist()
    assert [row for row, entry in enumerate(entries) if entry < 0 or row not in table.rows_of(entry)] == sorted(
        set(range(len(names))).difference(*expected.values())
    )


@pytest.mark.parametrize("code", ["ENG", "SPA", ""])
def test_names_are_looked_up_as_they_are(code):
    builder = TerminologyBuilder()
    names = [*PARTS, *ENDS, *NUMERALS, *LINES]
    for place, name in enumerate([*names, *names[:9]]):
        builder.add_name(f"C{place}", name)
    terminology = builder.build()
    listed = terminology.names["name"].to_list()
    lexicon = Lexicon.build(terminology, get_language(code))
    for text in (*names, *map(str.upper, names), "another"):
        assert lexicon.find_equal(text) == [row for row, name in enumerate(listed) if name == text]


@given(st.lists(st.tuples(st.integers(0, 3) | st.just(2**64 - 1), st.integers(0, 2**32 - 1))))
def test_rows_are_arranged_by_key(pairs):
    expected: dict[int, list[int]] = {}
    for key, row in sorted(pairs):
        if key:
            expected.setdefault(key, []).append(row)
    keys = np.array([key for key, _ in pairs], dtype=np.uint64)
    table = KeyTable.make(keys, np.array([row for _, row in pairs], dtype=np.int64))
    assert table.keys.tolist() == [*expected]
    assert [table.rows_of(entry).tolist() for entry in range(len(table.keys))] == [*expected.values()]
    assert table.offsets[-1] == sum(map(len, expected.values())) and table.keys.dtype == np.uint64
    assert table.find(keys).tolist() == [[*expected].index(key) if key else -1 for key, _ in pairs]


@example(["Abscess(es) of liver", "caf&eacute; au lait", "Crohn 's disease", "type a, b"], "ENG")
@example(["hueso(s) roto", "dolor(es)", "grupo e"], "SPA")
@example(["groupe à risque", "hépatite à virus", "vitamine À"], "FRE")
@given(NAMES, st.sampled_from(["ENG", "SPA", "FRE", ""]))
def test_words_of_content_are_those_of_each_name_alone(names, code):
    language = get_language(code)
    for words, offsets in scan_names(pl.Series(names, dtype=pl.String()), language):
        hashes, owner = words.list_content(offsets)
        alone = [scan(name, language).read_content().hashes.tolist() for name in names]
        assert [hashes[owner == row].tolist() for row in range(len(names))] == alone


TURNED = {
    "lymphoma, Hodgkin′s": "Hodgkin's lymphoma",
    "congenital hemolytic anemia": "Anemia, hemolytic, congenital",
    "disease, Legg–Calvé–Perthes": "Legg-Calve-Perthes disease",
    "diabetes mellitus type II": "Diabetes Mellitus, Type 2",
}
# What a sign belongs to, and other words that are not from the same word on.
OTHER = {
    "CD8+ CD4-": "CD4+ CD8-",
    "PR+, ER-": "ER+, PR-",
    "FVC/FEV1": "FEV1/FVC",
    "B- type A": "type A- B",
    "metastasis from lung to brain": "metastasis from brain to lung",
}


@pytest.mark.parametrize("text, name", [*TURNED.items(), *OTHER.items()])
def test_a_label_may_have_the_words_of_a_name_from_another_word_on(text, name):
    builder = TerminologyBuilder()
    builder.add_name("C", name)
    (answer,) = Lexicon.build(builder.build(), ENGLISH).ask([text])
    assert (answer.how, answer.rows) == (("turned", [0]) if text in TURNED else ("", []))
    assert Lexicon.build(builder.build(), ENGLISH).ask([text], LINKED) == [([], "")]
