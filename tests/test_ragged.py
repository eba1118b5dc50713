"""Ragged arrays against lists of lists."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert import ragged

LISTS = st.lists(st.lists(st.integers(-(2**31), 2**31), max_size=4), max_size=8)


def flatten(lists):
    return [value for values in lists for value in values]


@given(LISTS, st.data())
def test_ragged_arrays_are_lists_of_lists(lists, data):
    values, n = np.array(flatten(lists), dtype=np.int64), len(lists)
    offsets = ragged.make_offsets([*map(len, lists)])
    assert [values[start:end].tolist() for start, end in zip(offsets[:-1], offsets[1:], strict=True)] == lists
    owners = ragged.list_owners(offsets)
    assert owners.tolist() == flatten([number] * len(of_list) for number, of_list in enumerate(lists))
    shuffled = np.array(data.draw(st.permutations(owners.tolist())), dtype=np.int64)
    assert ragged.count_offsets(shuffled, n).tolist() == offsets.tolist()
    assert ragged.sum_lists(values, offsets).tolist() == [*map(sum, lists)]
    is_positive = [any(value > 0 for value in of_list) for of_list in lists]
    assert (ragged.sum_lists(values > 0, offsets) > 0).tolist() == is_positive
    numbers = data.draw(st.lists(st.integers(0, n - 1), max_size=6) if n else st.just([]))
    places, taken = ragged.take_lists(offsets, np.array(numbers, dtype=np.int64))
    assert values[places].tolist() == flatten(lists[number] for number in numbers)
    assert np.diff(taken).tolist() == [len(lists[number]) for number in numbers]
    groups: dict[tuple[int, int], list[int]] = {}
    for place, key in enumerate(zip((values % 5).tolist(), owners.tolist(), strict=True)):
        groups.setdefault(key, []).append(place)
    order, starts = ragged.group_values(values % 5, owners)
    bounds = pairwise([*starts.tolist(), len(order)])
    assert [order[start:end].tolist() for start, end in bounds] == [groups[key] for key in sorted(groups)]
    row = np.dtype([("value", np.int64), ("parts", np.float32, (2,))])
    parts = np.stack([values, -values], axis=1).astype(np.float32)
    packed = ragged.pack_lists([values, parts], offsets, row)
    (kept, of_kept), again = ragged.unpack_lists([packed[number] for number in numbers], row)
    assert kept.tolist() == values[places].tolist()
    assert of_kept.tolist() == parts[places].tolist()
    assert again.tolist() == taken.tolist()


@given(LISTS, st.integers(1, 5), st.data())
def test_token_lists_are_lists_of_numbers(lists, size, data):
    lists = [[value % 1000 for value in of_list] for of_list in lists]
    tokens = ragged.TokenLists.make(lists)
    assert [ids.tolist() for ids in tokens] == lists
    assert [tokens[-number].tolist() for number in range(1, len(lists) + 1)] == lists[::-1]
    assert [ids.tolist() for ids in ragged.TokenLists.join(tokens.split(size))] == lists
    assert tokens.places.tolist() == flatten(range(len(of_list)) for of_list in lists)
    assert [ids.tolist() for ids in tokens.cut(size)] == [of_list[:size] for of_list in lists]
    numbers = data.draw(
        st.lists(st.lists(st.integers(0, len(lists) - 1), max_size=3), max_size=4) if lists else st.just([])
    )
    replaced = ragged.TokenLists.make(numbers).replace(tokens)
    assert [ids.tolist() for ids in replaced] == [flatten(lists[number] for number in of_list) for of_list in numbers]
