"""Opposites in a terminology: concepts that a name tells apart by one word, such as male and female breast cancer."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.names import list_distinct_names
from spacy_sapbert.text import normal_words

from ..errors import Errors
from .opposite_words import KINDS, are_opposite, find_slots
from .run_folder import write_text


@dataclass(frozen=True)
class OppositePair:
    """A concept and its opposite.

    kind (str): The kind of opposites, one of `KINDS`.
    concept (str): The concept's id.
    mention (str): One of its names.
    synonyms (list[str]): Its other names that are not written almost alike.
    opposite (str): The id of the opposite.
    opposite_names (list[str]): The names of the opposite. One of them differs from the mention in one word.
    """

    kind: str
    concept: str
    mention: str
    synonyms: Annotated[list[str], Field(min_length=1)]
    opposite: str
    opposite_names: Annotated[list[str], Field(min_length=1)]


PAIRS = TypeAdapter(Annotated[list[OppositePair], Field(min_length=1)])
# Pairs of a kind in a part: numbered siblings are half of all pairs.
LIMIT = 100
# Two concepts by kind, each with the names that differ in one word.
Opponents = dict[tuple[str, int, int], list[str]]


def find_opposites(terminology: Terminology, *, seed: int = 0) -> list[OppositePair]:
    """Find the opposites of concepts by rule."""
    table = list_distinct_names(terminology.names)
    is_shared = table["name"].is_duplicated()
    own = table.filter(~is_shared).group_by("concept", maintain_order=True).agg("name")
    names: dict[int, list[str]] = dict(zip(own["concept"].to_list(), own["name"].to_list(), strict=True))
    ids = terminology.concepts["id"].to_list()
    row_of = {id_: row for row, id_ in enumerate(ids)}
    choices: dict[tuple[str, int], set[tuple[str, str]]] = defaultdict(set)
    for (kind, left, right), mentions in _find_opponents(names, terminology).items():
        choices[kind, left] |= {(mention, ids[right]) for mention in mentions}
    drawn = []
    for (kind, row), of_concept in choices.items():
        mention, opposite = random.Random(f"{seed} {kind} {ids[row]}").choice(sorted(of_concept))
        words = sorted(normal_words(mention))
        synonyms = [name for name in names[row] if sorted(normal_words(name)) != words]
        if synonyms:
            drawn.append(OppositePair(kind, ids[row], mention, synonyms, opposite, names[row_of[opposite]]))
    return sorted(drawn, key=lambda pair: (KINDS.index(pair.kind), pair.concept))


def draw_opposites(
    pairs: Sequence[OppositePair], share: float, *, limit: int = LIMIT, seed: int = 0
) -> tuple[list[OppositePair], list[OppositePair]]:
    """Draw pairs to hold out, for development and for the test. Concepts that are linked by pairs stay together."""
    parts: tuple[list[OppositePair], list[OppositePair]] = [], []
    for pair, group in zip(pairs, _group(pairs), strict=True):
        drawn = random.Random(f"{seed} {group}").random()
        if drawn < share:
            parts[drawn >= share / 2].append(pair)
    return _limit(parts[0], limit, seed), _limit(parts[1], limit, seed)


def _group(pairs: Sequence[OppositePair]) -> list[str]:
    """Name the group of linked concepts of each pair by its first id."""
    ids = sorted({id_ for pair in pairs for id_ in (pair.concept, pair.opposite)})
    row_of = {id_: row for row, id_ in enumerate(ids)}
    lefts, rights = [row_of[pair.concept] for pair in pairs], [row_of[pair.opposite] for pair in pairs]
    links = coo_array((np.ones(len(pairs)), (lefts, rights)), shape=(len(ids), len(ids)))
    _, groups = connected_components(links, directed=False)
    firsts: dict[int, str] = {}
    for id_, group in zip(ids, groups.tolist(), strict=True):
        firsts.setdefault(group, id_)
    return [firsts[groups[left]] for left in lefts]


def _limit(pairs: Sequence[OppositePair], limit: int, seed: int) -> list[OppositePair]:
    kept = []
    for kind in KINDS:
        of_kind = [pair for pair in pairs if pair.kind == kind]
        kept += sorted(of_kind, key=lambda pair: random.Random(f"{seed} {pair.concept}").random())[:limit]
    return kept


def write_opposites(pairs: Sequence[OppositePair], path: str | Path) -> None:
    """Write pairs to a file of JSON."""
    write_text(Path(path), json.dumps([asdict(pair) for pair in pairs], ensure_ascii=False))


def read_opposites(path: str | Path) -> list[OppositePair]:
    """Read a file of `write_opposites`."""
    if not Path(path).is_file():
        raise FileNotFoundError(
            (
                f"Can't find the file {path}. Check the path: a relative one starts from the folder you run in "
                f"({Path.cwd()})."
            )
        )
    try:
        return PAIRS.validate_json(Path(path).read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
        raise ValueError(
            (
                f"{path} is no file of {'opposites'}: {reason}. Make it anew with `python -m training split`, or "
                "give the file that this command has written."
            )
        ) from error


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
