"""Link equal concepts of several terminologies by ids and one-to-one cross-references."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .codes import Key, equal_prefix, is_cui, make_key
from .readers.lines import MAX_EXAMPLES
from .table import SOURCE_SEPARATOR, Concept, Terminology

# The position of a terminology in the list, and the id of one of its concepts.
Node = tuple[int, str]
# The ids of a concept and of a concept in another terminology that it refers to.
Edge = tuple[str, str]


@dataclass
class Links:
    """The links between concepts of several terminologies.

    owners (dict[str, str]): For each joined id, the id of the merged concept.
    used (int): The number of cross-references that joined two concepts.
    used_by_name (int): How many of these are not one to one, and were chosen because the names agree.
    refused (Counter[str]): The number of refused cross-references, by reason.
    examples (dict[str, list[str]]): The first refused cross-references, by reason.
    """

    owners: dict[str, str] = field(default_factory=dict)
    used: int = 0
    used_by_name: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def refuse(self, reason: str, text: str) -> None:
        """Count a refused link."""
        self.refused[reason] += 1
        if len(self.examples[reason]) < MAX_EXAMPLES:
            self.examples[reason].append(text)

    def describe(self) -> dict[str, Any]:
        """Describe the links for a report."""
        examples = {reason: self.examples[reason] for reason in sorted(self.refused)}
        return {
            "used": self.used,
            "used_by_name": self.used_by_name,
            "refused": dict(sorted(self.refused.items())),
            "refused_examples": examples,
        }


def names_agree(one: Concept, other: Concept) -> bool:
    """Check whether the canonical name of one concept is a name of the other, ignoring case."""
    names = [{name.casefold() for name in concept.names} for concept in (one, other)]
    return one.canonical_name.casefold() in names[1] or other.canonical_name.casefold() in names[0]


def own_prefixes(keys: Iterable[Key | None], sources: Iterable[str]) -> set[str]:
    """Collect the sources that contribute concepts or names to a terminology."""
    named = {equal_prefix(part) for joined in sources for part in joined.split(SOURCE_SEPARATOR)}
    return named | {key[0] for key in keys if key}


def find_links(terminologies: Sequence[Terminology]) -> Links:
    """Join concepts by cross-references.

    A concept A of one terminology refers to a concept B of another if A has a code that is the id or a code of B in B's
    own source. A and B are joined if A refers to no other concept of B's terminology, and no other concept of A's
    terminology refers to B. A concept with several CUIs refers to several concepts, even if the other terminology has
    only one of them. Of references by CUI that are not one to one, those between concepts whose names agree join them
    (see `names_agree`) if these are one to one. Two CUIs, two ids with the same prefix and two concepts of one
    terminology are never joined. Mutual references are used first, the others in the order of the terminologies and of
    the concepts' ids.
    """
    links = Links()
    lookups = [_Lookup(place, terminology) for place, terminology in enumerate(terminologies)]
    # Whether a reference was chosen by name.
    directed: dict[tuple[Node, Node], bool] = {}
    for source in lookups:
        for target in lookups:
            if source is not target:
                directed.update(_choose_references(source, target, links))
    pairs = {min((start, end), (end, start)): (end, start) in directed for start, end in directed}
    joined = _Joined(lookups)
    for (one, other), _ in sorted(pairs.items(), key=lambda item: (not item[1], item[0][0][0], item[0][1][0], item[0])):
        reason = joined.join(one[1], other[1])
        if reason is None:
            links.used += 1
            links.used_by_name += all(directed.get(edge, True) for edge in ((one, other), (other, one)))
        else:
            links.refuse(reason, f"{one[1]} - {other[1]}")
    links.owners = joined.owners()
    return links


class _Lookup:
    """One terminology's concepts by the keys that refer to them, and the keys that they refer to."""

    def __init__(self, place: int, terminology: Terminology) -> None:
        self.place = place
        self.terminology = terminology
        self.ids: list[str] = terminology.concepts["id"].to_list()
        sources = terminology.names["source"].unique().to_list()
        keys = [make_key(concept_id) for concept_id in self.ids]
        self.own = own_prefixes(keys, sources)
        self.keys: dict[Key, set[str]] = defaultdict(set)
        self.codes: list[tuple[str, Key]] = []
        for concept_id, key, codes in zip(self.ids, keys, terminology.concepts["codes"].to_list(), strict=True):
            if key:
                self.keys[key].add(concept_id)
            for other in {make_key(code) for code in codes} - {None, key}:
                assert other is not None
                self.codes.append((concept_id, other))
                # A CUI other than the concept's id is a cross-reference, even where UMLS is an own source.
                if other[0] in self.own and other[0] != "UMLS":
                    self.keys[other].add(concept_id)


class _References:
    """All references from the concepts of one terminology to those of another."""

    def __init__(self, source: _Lookup, target: _Lookup) -> None:
        self.targets: dict[str, set[str]] = defaultdict(set)
        self.sources: dict[str, set[str]] = defaultdict(set)
        self.cuis: dict[str, set[str]] = defaultdict(set)
        self.by_cui: set[Edge] = set()
        # References by anything but one of several CUIs.
        self.certain: set[Edge] = set()
        for start, key in source.codes:
            if key[0] == "UMLS":
                self.cuis[start].add(key[1])
        for start, key in source.codes:
            if key[0] not in target.own or key not in target.keys:
                continue
            for end in target.keys[key]:
                self.sources[end].add(start)
                # A concept with the same id in both terminologies needs no link.
                if start == end:
                    continue
                self.targets[start].add(end)
                if key[0] == "UMLS":
                    self.by_cui.add((start, end))
                if key[0] != "UMLS" or len(self.cuis[start]) == 1:
                    self.certain.add((start, end))

    def explain(self, start: str) -> tuple[str, str]:
        """Tell why the references of a concept join nothing, and list them."""
        ends = sorted(self.targets[start])
        rivals = sorted(self.sources[ends[0]] - {start})
        if len(ends) > 1:
            return "points_to_several", f"{start} -> {', '.join(ends[:5])}"
        if rivals:
            return "pointed_to_by_several", f"{start} -> {ends[0]} (as do: {', '.join(rivals[:5])})"
        return "one_of_several_cuis", f"{start} -> {ends[0]} (of: {', '.join(sorted(self.cuis[start])[:5])})"


def _choose_references(source: _Lookup, target: _Lookup, links: Links) -> Iterator[tuple[tuple[Node, Node], bool]]:
    """Choose the references that join two concepts, and say for each whether it was chosen by name."""
    found = _References(source, target)
    plain = {(a, b) for a, b in found.certain if len(found.targets[a]) == len(found.sources[b]) == 1}
    others = found.by_cui - plain
    named = _one_to_one({(a, b) for a, b in others if names_agree(source.terminology[a], target.terminology[b])})
    for start, end in sorted(plain | named):
        yield ((source.place, start), (target.place, end)), (start, end) in named
    for start in sorted(found.targets.keys() - {start for start, _ in plain | named}):
        links.refuse(*found.explain(start))


def _one_to_one(edges: set[Edge]) -> set[Edge]:
    starts, ends = Counter(start for start, _ in edges), Counter(end for _, end in edges)
    return {(start, end) for start, end in edges if starts[start] == ends[end] == 1}


class _Joined:
    """Disjoint sets of ids of the same concept, joined link by link."""

    def __init__(self, lookups: Sequence[_Lookup]) -> None:
        self._parent: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}
        # For each set, its id in each terminology (by position) and with each prefix.
        self._labels: dict[str, dict[int | str, str]] = defaultdict(dict)
        self._places: dict[str, int] = {}
        for lookup in lookups:
            for concept_id in lookup.ids:
                self._places.setdefault(concept_id, lookup.place)
                self._labels[concept_id][lookup.place] = concept_id
                key = make_key(concept_id)
                if key:
                    self._labels[concept_id][key[0]] = concept_id

    def join(self, one: str, other: str) -> str | None:
        """Join the sets of two ids, or return the reason for not joining them."""
        one, other = self._find(one), self._find(other)
        if one == other:
            return None
        mine, others = self._labels[one], self._labels[other]
        clashes = {label for label in mine.keys() & others.keys() if mine[label] != others[label]}
        if clashes:
            return "would_join_two_cuis" if "UMLS" in clashes else "would_join_two_ids_of_a_source"
        self._parent[other] = one
        mine.update(others)
        self._members[one] = self._members.get(one, [one]) + self._members.pop(other, [other])
        return None

    def owners(self) -> dict[str, str]:
        """Choose the id of each set: the CUI, else the id from the first terminology."""
        owners = {}
        for members in self._members.values():
            best = min(members, key=lambda member: (not is_cui(member), self._places[member], member))
            owners.update(dict.fromkeys(members, best))
        return owners

    def _find(self, concept_id: str) -> str:
        while (parent := self._parent.get(concept_id)) is not None:
            concept_id = parent
        return concept_id
