"""Parts of names, found in their bytes, against splitting each name as a string."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spacy_sapbert.columns import CHUNK, TextColumn
from spacy_sapbert.lexicon.scan import _find_punctuation
from spacy_sapbert.splitting import number_parts

# Punctuation behind and before a word.
BEHIND = re.compile(r"(?<=[0-9A-Za-z])([,;:)\]]+)(?= |$)", re.MULTILINE)
BEFORE = re.compile(r"(?<![^ \n])([(\[]+)(?=[0-9A-Za-z])")
NAMES = st.lists(st.text(st.sampled_from("aZ5 ,;)][(\n\0\x0fé日𝄞-"), max_size=24), max_size=9)
ENDS = [
    "",
    "(",
    ")",
    " ",
    "\n",
    "a)",
    "(a",
    "a) ",
    " (a",
    "a)\n",
    "\n(a",
    "((a),)",
    "a),(b",
    "é)",
    "(é",
    "a)é",
    "s",
    ")",
]
# Texts whose first eight bytes are the same, and those that differ in zeros only.
LONG = [
    "abcdefgh",
    "abcdefgh\0",
    "abcdefghi",
    "abcdefg\x0f",
    "abcdefg",
    "abcdefgh" * 3,
    "abcdefgh" * 3 + "i",
    "\0",
    "\0\0",
]


def split_alone(name):
    return BEFORE.sub(r"\1 ", BEHIND.sub(r" \1", name)).split(" ")


def read_parts(names, *find_cuts):
    parts, numbers = number_parts(names, *find_cuts)
    assert len({*parts}) == len(parts)
    return [[parts[number] for number in of_name.tolist()] for of_name in numbers]


@example(ENDS)
@example(LONG)
@given(NAMES)
def test_bytes_are_split_as_strings_are(names):
    for texts in (names, TextColumn.make(["a", *names, "é"])[1:-1]):
        assert read_parts(texts) == [name.split(" ") for name in names]
        assert read_parts(texts, _find_punctuation) == [*map(split_alone, names)]


@pytest.mark.parametrize("n_names", [CHUNK - 1, CHUNK, CHUNK + 1])
def test_parts_have_one_number_in_all_chunks(n_names):
    names = [f"type {row % 7}" for row in range(n_names)]
    parts, numbers = number_parts(names)
    assert sorted(parts) == [*"0123456", "type"]
    assert len(numbers) == n_names
    assert [parts[number] for number in numbers[-1].tolist()] == names[-1].split()
