"""How concepts and terminologies look in a notebook and in a terminal."""

import pickle
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from conftest import build_terminology

from spacy_sapbert.terminology import Concept

FEVER = Concept(
    id="HP:0001945",
    canonical_name="Fever",
    names=("Fever", "Hyperthermia"),
    types=("T184",),
    definition="Body temperature\nelevated above normal.",
    codes=("MSH:D005334",),
    parents=("HP:0004370",),
)
TEXT = """Fever (HP:0001945)
names       Fever; Hyperthermia
types       T184
definition  Body temperature elevated above normal.
parents     HP:0004370
codes       MSH:D005334"""
# Names come from files. They would run a script, end an attribute, write an entity, colour a terminal, clear it, turn
# the direction of reading. What is shown of each:
ODD = {
    "<script>alert(1)</script>": "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>": "\"'><img src=x onerror=alert(1)>",
    "&lt;b&gt;": "&lt;b&gt;",
    "\x1b[31mred": "[31mred",
    "\x9b2J": "2J",
    "a\u202eb\n": "ab",
}


class Reader(HTMLParser):
    """Read tags, their attributes, and the texts of cells."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.texts = set(), set(), []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(attrs)

    def handle_data(self, data):
        self.texts.append(data)


def make_large():
    """Make a concept with many and long values."""
    names = tuple(f"name {number} {'x' * 2000}" for number in range(2000))
    return Concept("C" * 2000, "y" * 2000, names, names, "z" * 100_000, names, names)


def test_a_concept_is_readable():
    assert repr(FEVER) == "Concept('HP:0001945', 'Fever', ...)" and str(FEVER) == TEXT
    read = Reader(FEVER._repr_html_())
    title, *cells = read.texts
    rows = [" ".join(line.split()) for line in TEXT.splitlines()]
    assert [title, *map(" ".join, zip(cells[::2], cells[1::2], strict=True))] == rows


def test_a_concept_without_more_than_a_name_shows_no_empty_rows():
    bare = Concept("C1", "a", ("a",), (), None, (), ())
    assert str(bare) == "a (C1)\nnames  a" and Reader(bare._repr_html_()).texts == ["a (C1)", "names", "a"]


def test_large_concepts_are_shown_in_short():
    large = make_large()
    assert len(repr(large)) < 1000 and len(str(large)) < 20_000 and len(large._repr_html_()) < 20_000
    assert str(large).count("and 1,990 more") == large._repr_html_().count("and 1,990 more") == 4
    assert str(large).splitlines()[3].endswith("zzz...")


@pytest.mark.parametrize("odd, shown", ODD.items())
@pytest.mark.parametrize("field", ["id", "canonical_name", "names", "types", "definition", "codes", "parents"])
def test_what_comes_from_a_file_is_neither_html_nor_steers_a_terminal(field, odd, shown):
    concept = replace(FEVER, **{field: odd if field in ("id", "canonical_name", "definition") else (odd,)})
    read = Reader(concept._repr_html_())
    assert read.tags == {"table", "tr", "th", "td"} and {name for name, _ in read.attributes} <= {"colspan", "style"}
    assert repr(concept).isprintable() and all(line.isprintable() for line in str(concept).splitlines())
    assert len(str(concept).splitlines()) == len(TEXT.splitlines())
    assert any(shown in text for text in read.texts) and shown in str(concept)


def test_looks_change_neither_equality_nor_hash_nor_pickle():
    copied = pickle.loads(pickle.dumps(FEVER))
    assert copied == FEVER and hash(copied) == hash(FEVER) and copied is not FEVER
    assert replace(FEVER, names=("Fever",)) != FEVER


@pytest.mark.parametrize("count, last", [(1, "name 00"), (10, "name 09"), (11, "and 1 more")])
def test_a_terminology_shows_how_large_it_is_and_its_first_concepts(count, last):
    terminology = build_terminology([(f"C{number:02}", f"name {number:02}") for number in range(count)])
    title, *cells = Reader(terminology._repr_html_()).texts
    assert title == f"{count} concepts, {count} names" and len(cells) == 2 * min(count, 10) + (count > 10)
    assert cells[:2] == ["C00", "name 00"] and cells[-1] == last


def test_names_of_a_terminology_are_no_html():
    odd = [text for text in ODD if text.isprintable()]
    read = Reader(build_terminology([(f"<b>{number}", text) for number, text in enumerate(odd)])._repr_html_())
    assert read.tags == {"table", "tr", "th", "td"} and {"<b>0", *odd} < {*read.texts}
