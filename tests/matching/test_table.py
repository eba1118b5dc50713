"""The table of names finds what a search through a plain dictionary finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.matching.table import NameTable
from spacy_sapbert.matching.words import read_words
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
    table = NameTable.build(make_terminology(names))
    starts, ends, entries = table.find(read_words(text))
    assert sorted(zip(starts.tolist(), ends.tolist(), strict=True)) == find_plainly(names, text)
    for start, end, entry in zip(starts, ends, entries, strict=True):
        assert table.find_whole(text[start:end]) == entry


@given(NAMES)
def test_every_name_has_its_rows(names):
    terminology = make_terminology(names)
    table = NameTable.build(terminology)
    listed = terminology.names["name"].to_list()
    for row, name in enumerate(listed):
        entry = table.find_whole(name)
        if not len(read_words(name).hashes):
            assert entry == -1
            continue
        assert row in table.rows_of(entry)
        alike = {other for other in listed if read_words(other).hashes.tolist() == read_words(name).hashes.tolist()}
        assert {listed[other] for other in table.rows_of(entry)} == alike
    marked = table.mark(np.arange(len(listed)) == 0)
    assert marked.sum() == (table.find_whole(listed[0]) >= 0)


def test_a_saved_table_is_the_same_and_has_no_names(tmp_path):
    table = NameTable.build(make_terminology(["renal failure", "acute renal failure", "renal"]))
    table.to_disk(tmp_path / "table")
    loaded = NameTable.from_disk(tmp_path / "table")
    for name in ("keys", "is_prefix", "offsets", "name_rows"):
        np.testing.assert_array_equal(getattr(table, name), getattr(loaded, name))
    assert loaded.fingerprint == table.fingerprint
    assert not any(b"renal" in path.read_bytes() for path in (tmp_path / "table").iterdir())


def test_a_damaged_table_is_refused(tmp_path):
    NameTable.build(make_terminology(["renal failure"])).to_disk(tmp_path)
    (tmp_path / "keys.npy").write_bytes(b"x")
    with pytest.raises(OSError, match="E504"):
        NameTable.from_disk(tmp_path)
