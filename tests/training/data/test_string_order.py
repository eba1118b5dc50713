"""Numbers of strings against Python's own sorting."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.folders import join_strings, number_strings

ALPHABET = st.sampled_from(["a", "b", "\0", "é", "\U0001f600", " ", "aaaaaaaa", "aaaaaaab"])
TEXTS = st.lists(ALPHABET, max_size=5).map("".join)


@given(st.lists(TEXTS, max_size=40))
def test_distinct_strings_are_in_the_order_of_their_bytes(texts):
    strings = pl.Series(texts, dtype=pl.String())
    table, numbers = number_strings(strings)
    assert table.to_list() == sorted(set(texts), key=lambda text: text.encode("utf8"))
    assert table.equals(strings.unique().sort())
    assert table.gather(numbers).to_list() == texts


@pytest.mark.parametrize("texts", [[], [""], ["", "ü", "", "long enough not to be part of a view"]])
def test_joined_strings_are_bytes_and_positions(texts):
    strings = pl.Series(["dropped", *texts], dtype=pl.String()).slice(1)
    content, offsets = join_strings(strings)
    assert [bytes(content[a:b]).decode("utf8") for a, b in zip(offsets, offsets[1:], strict=False)] == texts
    assert offsets[0] == 0 and offsets[-1] == len(content) and len(offsets) == len(texts) + 1
