"""Columns answer as lists of the same values do, wherever their parts begin, and however they are asked."""

import copy
import pickle
import random

import numpy as np
import pytest

from spacy_sapbert.columns import CHUNK, CodedColumn, ListColumn, NumberColumn, TextColumn

TEXTS = ["", "a", "ß", "ab\0", "日本", "a longer text"]
LISTS = [["b"], [], ["a", "ß"], ["a"], [""]]
COLUMNS = {
    "texts": (TextColumn.make, TEXTS),
    "optional texts": (TextColumn.make, ["a", None, "", None, "b"]),
    "few texts": (CodedColumn.make, ["b", "a", "b", "c"]),
    "lists": (lambda values: ListColumn.make(TextColumn, values), LISTS),
    "lists of few texts": (lambda values: ListColumn.make(CodedColumn, values), LISTS),
    "numbers": (lambda values: NumberColumn(np.array(values)), [3, 1, 2]),
}


@pytest.fixture(params=COLUMNS)
def make_and_values(request):
    return COLUMNS[request.param]


def test_a_column_answers_as_a_list(make_and_values):
    make, values = make_and_values
    column = make([values[0], *values, values[0]])[1:-1]
    assert column.to_list() == [*column] == values or [one.to_list() for one in column] == values
    assert column.equals(make(values)) and not column.equals(make(values[1:]))
    for part in (slice(1, None), slice(None, None, -1), slice(3, 1), slice(-2, None)):
        assert column[part].to_list() == values[part]
    for rows in ([2, 0, 0], [-1], [], range(1, 3)):
        assert column[np.array(rows, dtype=np.int64)].to_list() == [values[row] for row in rows]
    is_wanted = np.arange(len(values)) % 2 == 1
    assert column[is_wanted].to_list() == values[1::2]
    with pytest.raises(IndexError):
        column[len(values)]


def test_a_column_is_copied(make_and_values):
    make, values = make_and_values
    column = make(values)[1:]
    for other in (pickle.loads(pickle.dumps(column)), copy.deepcopy(column)):
        assert other.equals(column) and other.to_list() == values[1:]


def test_rows_of_several_columns_are_joined():
    rng = random.Random(0)
    for _ in range(100):
        lists = [rng.choices([*TEXTS, None], k=rng.randint(1, 5)) for _ in range(3)]
        values = sum(lists, [])
        rows = rng.choices(range(len(values)), k=6)
        joined = TextColumn.take_rows([*map(TextColumn.make, lists)], np.array(rows))
        assert joined.equals(TextColumn.make([values[row] for row in rows]))


# Texts are compared in chunks.
@pytest.mark.parametrize("place", [1, 5, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 2])
@pytest.mark.parametrize("earlier", [0, 1])
def test_it_notices_texts_that_do_not_ascend(place, earlier):
    texts = [f"{row:08}" for row in range(2 * CHUNK + 3)]
    assert TextColumn.make(texts).ascends()
    texts[place] = texts[place - 1][: 8 - earlier]
    assert not TextColumn.make(texts).ascends()
