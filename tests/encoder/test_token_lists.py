"""Token ids of many strings in two arrays, and the groups of equal ones."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.encoder.token_lists import TokenLists
from spacy_sapbert.retrieval.encoding import group_keys, make_keys

# Short and of few tokens, so that many are equal.
LISTS = st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=30)


def as_lists(tokens):
    return [ids.tolist() for ids in tokens]


@given(LISTS, st.randoms(use_true_random=False))
def test_strings_are_those_that_were_given(lists, random):
    tokens = TokenLists.make(lists)
    assert len(tokens) == len(lists) and as_lists(tokens) == lists
    rows = [random.randrange(len(lists)) for _ in range(10)] if lists else []
    assert as_lists(tokens.take(np.array(rows, dtype=np.int64))) == [lists[row] for row in rows]
    cut = random.randrange(len(lists) + 1)
    parts = [TokenLists.make(part) for part in (lists[:cut], [], lists[cut:])]
    assert as_lists(TokenLists.join(parts)) == lists
    assert as_lists(TokenLists.join([])) == []


@given(LISTS)
def test_equal_strings_have_one_key_and_one_group_in_their_order(lists):
    keys = make_keys(TokenLists.make(lists))
    first, group = group_keys(keys)
    distinct = [*dict.fromkeys(map(tuple, lists))]
    assert [tuple(lists[row]) for row in first.tolist()] == distinct
    assert group.tolist() == [distinct.index(tuple(ids)) for ids in lists]
    assert len(set(keys.tolist())) == len(distinct)
