"""Which concepts a terminology does not tell apart, so that their names should not be pushed apart; and opposites."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.names import list_distinct_names
from spacy_sapbert.text import normal_words

# A mention is often annotated with an ancestor that is so near.
STEPS = 3


class Relatedness:
    """Concepts that may be the same or contain each other: they share a name, in any order and spelling of its words,
    or one is an ancestor of the other.

    terminology (Terminology): Concepts with names and parents.
    steps (int): How far up ancestors count.
    """

    def __init__(self, terminology: Terminology, *, steps: int = STEPS) -> None:
        self.steps = steps
        ids, parents = (terminology.concepts[column].to_list() for column in ("id", "parents"))
        self._ids = ids
        self._row_of = {id_: row for row, id_ in enumerate(ids)}
        self._parents = dict(zip(ids, parents, strict=True))
        self._names, self._offsets = terminology.names["name"], terminology.name_offsets
        self._ancestors: dict[str, frozenset[str]] = {}
        self._words: dict[str, frozenset[str]] = {}

    def is_related(self, left: str, right: str) -> bool:
        """Check two concepts."""
        return (
            right in self._find_ancestors(left)
            or left in self._find_ancestors(right)
            or not self._list_words(left).isdisjoint(self._list_words(right))
        )

    def _find_ancestors(self, id_: str) -> frozenset[str]:
        if id_ not in self._ancestors:
            found: set[str] = set()
            last = {id_}
            for _ in range(self.steps):
                last = {parent for child in last for parent in self._parents.get(child, ())} - found
                found |= last
            self._ancestors[id_] = frozenset(found)
        return self._ancestors[id_]

    def _list_words(self, id_: str) -> frozenset[str]:
        """List the names of a concept as sorted normal words; names without words as they are written."""
        if id_ not in self._words:
            row = self._row_of.get(id_)
            names: pl.Series = pl.Series(dtype=pl.String())
            if row is not None:
                names = self._names[int(self._offsets[row]) : int(self._offsets[row + 1])]
            self._words[id_] = frozenset(" ".join(sorted(normal_words(name))) or name.lower() for name in names)
        return self._words[id_]


# Normal forms of words (`normal_words`), the sides of each kind. A name and its opposite differ in one of them.
WORDS: dict[str, tuple[str, str]] = {
    "male/female": ("male boy man masculine", "female girl woman feminine"),
    "high/low": ("high", "low"),
    "left/right": ("left", "right"),
    "increased/decreased": (
        "increased increase elevated elevation raised excessive",
        "decreased decrease reduced reduction lowered diminished deficient",
    ),
    "acute/chronic": ("acute", "chronic"),
    "with/without": ("with", "without"),
    "upper/lower": ("upper", "lower"),
    "anterior/posterior": ("anterior", "posterior"),
    "superior/inferior": ("superior", "inferior"),
    "dorsal/ventral": ("dorsal", "ventral"),
    "medial/lateral": ("medial", "lateral"),
    "proximal/distal": ("proximal", "distal"),
    "internal/external": ("internal inner", "external outer"),
    "primary/secondary": ("primary", "secondary"),
    "benign/malignant": ("benign", "malignant"),
    "dominant/recessive": ("dominant", "recessive"),
    "positive/negative": ("positive", "negative"),
    "congenital/acquired": ("congenital", "acquired"),
    "adult/childhood": ("adult", "childhood child pediatric juvenile infantile"),
    "systolic/diastolic": ("systolic", "diastolic"),
    "mild/severe": ("mild", "severe profound"),
    "early/late": ("early", "late"),
    "long/short": ("long", "short"),
    "large/small": ("large", "small"),
    "unilateral/bilateral": ("unilateral", "bilateral"),
    "maternal/paternal": ("maternal", "paternal"),
    "agonist/antagonist": ("agonist", "antagonist"),
}
# Beginnings of words.
PREFIXES: dict[str, tuple[str, str]] = {
    "hypo/hyper": ("hypo", "hyper"),
    "brady/tachy": ("brady", "tachy"),
    "micro/macro": ("micro", "macro"),
    "oligo/poly": ("oligo", "poly"),
}
TYPE_1_OR_2, NUMBERED = "type 1/type 2", "numbered"
KINDS = (*WORDS, *PREFIXES, TYPE_1_OR_2, NUMBERED)
# A number at the end of a name, or behind one of these words, tells siblings apart.
_COUNTED = frozenset("type class grade group stage factor form subtype variant".split())
_NUMBER = re.compile(r"\d{1,3}[a-z]?")
_LETTER = re.compile(r"[a-h]")
# The shortest rest of a word behind a prefix.
SHORTEST_STEM = 4
SLOT = "\0"

_SIDES = {
    word: (kind, str(side))
    for kind, sides in WORDS.items()
    for side, words in enumerate(sides)
    for word in words.split()
}
_STARTS = [(kind, str(side), start) for kind, sides in PREFIXES.items() for side, start in enumerate(sides)]


class Slot(NamedTuple):
    """A name with one word, or the beginning of one, taken out.

    kind (str): The kind of opposites.
    frame (str): The other words.
    side (str): What was taken out: names with the same frame and another side are opposites.
    """

    kind: str
    frame: str
    side: str


def find_slots(name: str) -> Iterator[Slot]:
    """Find the words of a name that tell it from its opposites."""
    words = normal_words(name)
    if len(words) > 1:
        for place, word in enumerate(words):
            if word in _SIDES:
                kind, side = _SIDES[word]
                yield Slot(kind, _frame(words, place), side)
            elif kind := _count(words, place):
                yield Slot(kind, _frame(words, place), word)
    for place, word in enumerate(words):
        for kind, side, start in _STARTS:
            if word.startswith(start) and len(word) >= len(start) + SHORTEST_STEM:
                yield Slot(kind, _frame(words, place, word.removeprefix(start)), side)


def are_opposite(left: str, right: str) -> bool:
    """Tell whether two sides of one frame are opposites. "1" and "1a" are not: one may contain the other."""
    return not (left.startswith(right) or right.startswith(left))


def _frame(words: tuple[str, ...], place: int, stem: str = "") -> str:
    return " ".join((*words[:place], SLOT + stem, *words[place + 1 :]))


def _count(words: tuple[str, ...], place: int) -> str:
    """Return the kind of a number or letter that counts siblings; nothing for other words."""
    word, is_behind = words[place], place > 0 and words[place - 1] in _COUNTED
    if is_behind and words[place - 1] == "type" and word in ("1", "2"):
        return TYPE_1_OR_2
    is_last = 0 < place == len(words) - 1
    counts = (is_behind and _LETTER.fullmatch(word)) or ((is_behind or is_last) and _NUMBER.fullmatch(word))
    return NUMBERED if counts else ""


# Two concepts by kind, each with the names that differ in one word.
Opponents = dict[tuple[str, int, int], list[str]]


def find_opposites(terminology: Terminology, *, seed: int = 0) -> list[tuple[str, str]]:
    """Find opposites by rule: ids of a concept and of its opposite, sorted by kind and id.

    A name and its opposite's name have the same normal words but one. Two concepts are no opposites if they share a
    name or a code, or one is the other's parent. Of a concept's opposites of one kind, one is drawn, by ids and names.
    """
    table = list_distinct_names(terminology.names)
    is_shared = table["name"].is_duplicated()
    own = table.filter(~is_shared).group_by("concept", maintain_order=True).agg("name")
    names: dict[int, list[str]] = dict(zip(own["concept"].to_list(), own["name"].to_list(), strict=True))
    ids = terminology.concepts["id"].to_list()
    choices: dict[tuple[str, int], set[tuple[str, str]]] = defaultdict(set)
    for (kind, left, right), mentions in _find_opponents(names, terminology).items():
        choices[kind, left] |= {(mention, ids[right]) for mention in mentions}
    drawn = []
    for (kind, row), of_concept in choices.items():
        mention, opposite = random.Random(f"{seed} {kind} {ids[row]}").choice(sorted(of_concept))
        words = sorted(normal_words(mention))
        # A concept needs another name in other words, or its pairs teach nothing about the one that differs.
        if any(sorted(normal_words(name)) != words for name in names[row]):
            drawn.append((KINDS.index(kind), ids[row], opposite))
    return [(concept, opposite) for _, concept, opposite in sorted(drawn)]


def _find_opponents(names: Mapping[int, Sequence[str]], terminology: Terminology) -> Opponents:
    """Find all opposite concepts with the names of the first one that show it, in both directions."""
    frames: dict[tuple[str, str], dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    for row, of_concept in names.items():
        for name in of_concept:
            for kind, frame, side in find_slots(name):
                frames[kind, frame][side].append((row, name))
    shared = _find_shared(terminology)
    opponents: Opponents = defaultdict(list)
    for (kind, _), sides in frames.items():
        for left, right in combinations(sides, 2):
            if not are_opposite(left, right):
                continue
            for row, name in sides[left]:
                for other, opposite in sides[right]:
                    if row != other and (min(row, other), max(row, other)) not in shared:
                        opponents[kind, row, other].append(name)
                        opponents[kind, other, row].append(opposite)
    return opponents


def _find_shared(terminology: Terminology) -> set[tuple[int, int]]:
    """Find the concepts that share a name or a code, or are parent and child: they may be the same or overlap."""
    concepts = terminology.concepts.select("id", "codes", "parents").with_row_index("row")
    groups = [
        list_distinct_names(terminology.names).group_by("name").agg("concept")["concept"],
        concepts.explode("codes").drop_nulls("codes").group_by("codes").agg("row")["row"],
    ]
    pairs = {pair for group in groups for rows in group.filter(group.list.len() > 1).to_list() for pair in _pair(rows)}
    rows = concepts.explode("parents").join(concepts.select("id", parent="row"), left_on="parents", right_on="id")
    return pairs | {pair for both in rows.select("row", "parent").iter_rows() for pair in _pair(both)}


def _pair(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    return combinations(sorted(set(rows)), 2)
