"""Which concepts a terminology does not tell apart, so that their names should not be pushed apart; and opposites."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations

import polars as pl

from spacy_sapbert.lexicon.scan import list_words
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.names import list_distinct_names

# A mention is often annotated with an ancestor that is so near.
STEPS = 3


class Relatedness:
    """Concepts that may be the same or contain each other: they share a name, in any order and spelling of its words,
    or one is an ancestor of the other, at most `STEPS` above.
    """

    def __init__(self, terminology: Terminology) -> None:
        self._terminology = terminology
        self._parents = dict(zip(*terminology.concepts.to_polars().select("id", "parents"), strict=True))
        self._ancestors = cache(self._find_ancestors)
        self._words = cache(self._list_words)

    def is_related(self, left: str, right: str) -> bool:
        """Check two concepts."""
        is_above = right in self._ancestors(left) or left in self._ancestors(right)
        return is_above or not self._words(left).isdisjoint(self._words(right))

    def _find_ancestors(self, id_: str) -> set[str]:
        ancestors: set[str] = set()
        last = {id_}
        for _ in range(STEPS):
            last = {parent for child in last for parent in self._parents.get(child, ())} - ancestors
            ancestors |= last
        return ancestors

    def _list_words(self, id_: str) -> set[str]:
        """List the names of a concept as sorted normal words; names without words as they are written."""
        if id_ not in self._terminology:
            return set()
        return {" ".join(sorted(list_words(name))) or name.lower() for name in self._terminology[id_].names}


# Normal forms of words (`list_words`). A name and its opposite differ in one of them.
_WORDS = """
male boy man masculine / female girl woman feminine, high / low, left / right, increased increase elevated elevation
raised excessive / decreased decrease reduced reduction lowered diminished deficient, acute / chronic, with / without,
upper / lower, anterior / posterior, superior / inferior, dorsal / ventral, medial / lateral, proximal / distal,
internal inner / external outer, primary / secondary, benign / malignant, dominant / recessive, positive / negative,
congenital / acquired, adult / childhood child pediatric juvenile infantile, systolic / diastolic,
mild / severe profound, early / late, long / short, large / small, unilateral / bilateral, maternal / paternal,
agonist / antagonist
"""
# Beginnings of words, and the shortest rest of a word behind one.
_PREFIXES = (("hypo", "hyper"), ("brady", "tachy"), ("micro", "macro"), ("oligo", "poly"))
_SHORTEST_STEM = 4
_PAIRS = [[side.split() for side in pair.split("/")] for pair in _WORDS.split(",")]
TYPE_1_OR_2, NUMBERED = "type 1/type 2", "numbered"
# A kind of opposites is called by the first words of its sides.
KINDS = [f"{left[0]}/{right[0]}" for left, right in _PAIRS]
_SIDES = {
    word: (kind, side) for kind, pair in zip(KINDS, _PAIRS, strict=True) for side in (0, 1) for word in pair[side]
}
KINDS += [*("/".join(pair) for pair in _PREFIXES), TYPE_1_OR_2, NUMBERED]
# A number at the end of a name, or behind one of these words, tells siblings apart.
_COUNTED = frozenset("type class grade group stage factor form subtype variant".split())
_NUMBER = re.compile(r"\d{1,3}[a-z]?")
_LETTER = re.compile(r"[a-h]")
_SLOT = "\0"
# The kind of opposites, the words of a name but one (or but its beginning), and what was taken out.
Slot = tuple[str, str, str]


def find_slots(name: str) -> Iterator[Slot]:
    """Find the words of a name that tell it from its opposites: names with the same frame and another side."""
    words = list_words(name)
    for place, word in enumerate(words):
        before = words[:place]
        behind = words[place + 1 :]
        kind, side = _SIDES.get(word) or (_find_number(words, place), word)
        if kind and len(words) > 1:
            yield kind, " ".join((*before, _SLOT, *behind)), str(side)
        for pair in _PREFIXES:
            for number, start in enumerate(pair):
                if word.startswith(start) and len(word) >= len(start) + _SHORTEST_STEM:
                    yield "/".join(pair), " ".join((*before, _SLOT + word.removeprefix(start), *behind)), str(number)


def _find_number(words: Sequence[str], place: int) -> str:
    """Return the kind of a number or letter that counts siblings; nothing for other words."""
    word = words[place]
    before = words[place - 1] if place else ""
    if before == "type" and word in ("1", "2"):
        return TYPE_1_OR_2
    is_last = 0 < place == len(words) - 1
    is_number = (before in _COUNTED or is_last) and _NUMBER.fullmatch(word)
    return NUMBERED if is_number or (before in _COUNTED and _LETTER.fullmatch(word)) else ""


def find_opposites(terminology: Terminology) -> list[tuple[str, str]]:
    """Find opposites by rule: ids of a concept and of its opposite, sorted by kind and id.

    A name and its opposite's name have the same normal words but one. Two concepts are not opposites if they share a
    name or a code, or one is the other's parent. Of a concept's opposites of one kind, one is drawn, by ids and names.
    """
    table = list_distinct_names(terminology.names.to_polars())
    ids = terminology.concepts["id"].to_list()
    names: dict[int, list[str]] = defaultdict(list)
    frames: dict[tuple[str, str], dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    for row, name in table.filter(~table["name"].is_duplicated()).iter_rows():
        names[row].append(name)
        for kind, frame, side in find_slots(name):
            frames[kind, frame][side].append((row, name))
    shared = _find_shared(terminology, table)
    choices: dict[tuple[str, int], set[tuple[str, str]]] = defaultdict(set)
    for (kind, _), sides in frames.items():
        for left, right in combinations(sides, 2):
            # "1" and "1a" are not opposites: one may contain the other.
            if left.startswith(right) or right.startswith(left):
                continue
            for row, name in sides[left]:
                for other, opposite in sides[right]:
                    if row != other and (min(row, other), max(row, other)) not in shared:
                        choices[kind, row].add((name, ids[other]))
                        choices[kind, other].add((opposite, ids[row]))
    drawn = []
    for (kind, row), of_concept in choices.items():
        mention, opposite = random.Random(f"0 {kind} {ids[row]}").choice(sorted(of_concept))
        words = sorted(list_words(mention))
        # A concept needs another name in other words, or its pairs teach nothing about the one that differs.
        if any(sorted(list_words(name)) != words for name in names[row]):
            drawn.append((KINDS.index(kind), ids[row], opposite))
    return [(concept, opposite) for _, concept, opposite in sorted(drawn)]


def _find_shared(terminology: Terminology, names: pl.DataFrame) -> set[tuple[int, int]]:
    """Find the concepts that share a name or a code, or are parent and child: they may be the same or overlap."""
    concepts = terminology.concepts.to_polars().select("id", "codes", "parents").with_row_index("row")
    parents = concepts.explode("parents").join(concepts.select("id", parent="row"), left_on="parents", right_on="id")
    groups = [
        names.group_by("name").agg("concept")["concept"],
        concepts.explode("codes").drop_nulls("codes").group_by("codes").agg("row")["row"],
        parents.select(both=pl.concat_list("row", "parent"))["both"],
    ]
    several = [rows for group in groups for rows in group.filter(group.list.len() > 1).to_list()]
    return {pair for rows in several for pair in combinations(sorted(set(rows)), 2)}
