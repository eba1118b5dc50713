"""The table of names has each name, with those that are written like it."""

import numpy as np
import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_sapbert.retrieval.name_table import NameTable, _combine, _list_keys, read_hashes
from spacy_sapbert.terminology import TerminologyBuilder

WORDS = "renal failure acute type ii of , / kidney".split()
NAMES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), min_size=1, max_size=12)

WRITTEN = st.sampled_from(
    "a Ab type ii IIa x I of 5 5' -3 (+)- ER+ a-b b's , ( ) / α ™ ½ é e\u0301 \u200b ' - ' (a, b), 2-".split(" ")
)
WRITTEN |= st.text(st.characters(codec="utf-8"), max_size=4)


def make_terminology(names):
    builder = TerminologyBuilder()
    for number, name in enumerate(names):
        builder.add_name(f"C{number:07d}", name)
    return builder.build()


@settings(max_examples=500)
@given(st.lists(st.lists(WRITTEN, max_size=5).map(" ".join), min_size=1, max_size=6))
@example([", a", "a ,", "a, (b)", "a- -b", "5 -3", "II x, type II", "type  ii", "x- (y", "- ()", "™ a"])
def test_keys_out_of_parts_are_those_of_whole_names(names):
    keys, rows = _list_keys(pl.Series(names), np.arange(len(names)))
    expected = {row: _combine(read_hashes(name)) for row, name in enumerate(names)}
    assert dict(zip(rows.tolist(), keys.tolist(), strict=True)) == {row: key for row, key in expected.items() if key}


@given(NAMES)
def test_every_name_has_its_rows(names):
    terminology = make_terminology(names)
    table = NameTable.build(terminology.names["name"])
    listed = terminology.names["name"].to_list()
    for row, name in enumerate(listed):
        (entry,) = table.find_whole([name])
        if not read_hashes(name):
            assert entry == -1
            continue
        assert row in table.rows_of(entry)
        alike = {other for other in listed if read_hashes(other) == read_hashes(name)}
        assert {listed[other] for other in table.rows_of(entry)} == alike
    assert table.find_whole(["", "gout"]).tolist() == [-1, -1]


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
