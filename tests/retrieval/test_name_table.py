"""The table of names finds what a search through a plain dictionary finds."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.retrieval.name_table import NameTable, read_words
from spacy_sapbert.terminology import TerminologyBuilder

WORDS = "renal failure acute type ii of , / kidney".split()
NAMES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), min_size=1, max_size=12)


def make_terminology(names):
    builder = TerminologyBuilder()
    for number, name in enumerate(names):
        builder.add_name(f"C{number:07d}", name)
    return builder.build()


def find_plainly(names, text):
    """All pairs of words, looked up one after the other."""
    words = read_words(text)
    keys = {tuple(read_words(name).hashes.tolist()) for name in names} - {()}
    hashes = words.hashes.tolist()
    places = [(i, j) for i in range(len(hashes)) for j in range(i, len(hashes)) if tuple(hashes[i : j + 1]) in keys]
    found = [(int(words.starts[i]), int(words.ends[j])) for i, j in places]
    return sorted(place for place in found if -1 not in place)


@given(NAMES, st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_all_names_are_found_and_nothing_else(names, text):
    table = NameTable.build(make_terminology(names).names["name"])
    starts, ends, entries = table.find(read_words(text))
    assert sorted(zip(starts.tolist(), ends.tolist(), strict=True)) == find_plainly(names, text)
    for start, end, entry in zip(starts, ends, entries, strict=True):
        assert table.find_whole([text[start:end]]) == [entry]


@given(NAMES)
def test_every_name_has_its_rows(names):
    terminology = make_terminology(names)
    table = NameTable.build(terminology.names["name"])
    listed = terminology.names["name"].to_list()
    for row, name in enumerate(listed):
        (entry,) = table.find_whole([name])
        if not len(read_words(name).hashes):
            assert entry == -1
            continue
        assert row in table.rows_of(entry)
        alike = {other for other in listed if read_words(other).hashes.tolist() == read_words(name).hashes.tolist()}
        assert {listed[other] for other in table.rows_of(entry)} == alike
    marked = table.mark(np.arange(len(listed)) == 0)
    assert marked.sum() == (table.find_whole(listed[:1]) >= 0).sum()


@given(NAMES, NAMES, st.data())
def test_an_edited_table_finds_what_a_new_one_finds(before, after, data):
    old, new = make_terminology(before).names["name"], make_terminology(after).names["name"]
    kept = data.draw(st.lists(st.integers(0, len(old) - 1), unique=True, max_size=len(new)))
    moved = np.full(len(old), -1)
    moved[kept] = data.draw(st.permutations(range(len(new))))[: len(kept)]
    names = new.to_list()
    for row in kept:
        names[moved[row]] = old[row]
    built = NameTable.build(pl.Series(names))
    edited = NameTable.build(old).edited(pl.Series(names), moved)
    for text in {*before, *names}:
        (expected,), (found,) = built.find_whole([text]), edited.find_whole([text])
        assert (expected < 0) == (found < 0)
        if found >= 0:
            assert edited.rows_of(found).tolist() == built.rows_of(expected).tolist()
