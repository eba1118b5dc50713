"""Link equal concepts of several terminologies by ids and one-to-one cross-references."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .readers.malformed import MAX_EXAMPLES
from .table import SOURCE_SEPARATOR, Terminology

_CUI = re.compile(r"C\d{7}")
# Sources have several names: their own, the UMLS abbreviation, and those in OBO files. Case is ignored.
EQUAL_PREFIXES = {
    "HPO": "HP",
    "ICDO": "ICD-O",
    "MEDDRA": "MDR",
    "MESH": "MSH",
    "MSH2024": "MSH",
    "NCIT": "NCI",
    "NCI_THESAURUS": "NCI",
    "OMIMPS": "MIMPS",
    "OMIM": "MIM",
    "ORDO": "ORPHANET",
    "ORPHA": "ORPHANET",
    "SCTID": "SNOMEDCT_US",
    "SNOMED_CT": "SNOMEDCT_US",
    "SNOMEDCT": "SNOMEDCT_US",
    "UMLS_CUI": "UMLS",
}
Key = tuple[str, str]
# The position of a terminology in the list, and the id of one of its concepts.
Node = tuple[int, str]


@dataclass
class Links:
    """The links between concepts of several terminologies.

    owners (dict[str, str]): For each joined id, the id of the merged concept.
    used (int): The number of cross-references that joined two concepts.
    refused (Counter[str]): The number of refused cross-references, by reason.
    examples (dict[str, list[str]]): The first refused cross-references, by reason.
    """

    owners: dict[str, str] = field(default_factory=dict)
    used: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def refuse(self, reason: str, text: str) -> None:
        """Count a refused link.

        reason (str): The reason.
        text (str): The link, as an example for the report.
        """
        self.refused[reason] += 1
        if len(self.examples[reason]) < MAX_EXAMPLES:
            self.examples[reason].append(text)

    def describe(self) -> dict[str, Any]:
        """Describe the links for a report.

        RETURNS (dict[str, Any]): The counts and examples as plain JSON data.
        """
        examples = {reason: self.examples[reason] for reason in sorted(self.refused)}
        return {"used": self.used, "refused": dict(sorted(self.refused.items())), "refused_examples": examples}


def is_cui(concept_id: str) -> bool:
    """Check whether an id has the form of a UMLS CUI: C and seven digits.

    concept_id (str): The id.
    RETURNS (bool): Whether it does.
    """
    return _CUI.fullmatch(concept_id) is not None


def equal_prefix(prefix: str) -> str:
    """Normalize the prefix of a code, so that equal sources have equal prefixes.

    prefix (str): The prefix of a code or the name of a source, such as "MESH".
    RETURNS (str): The normalized prefix, such as "MSH".
    """
    upper = prefix.upper()
    return EQUAL_PREFIXES.get(upper, upper)


def make_key(code: str) -> Key | None:
    """Normalize a code or an id, so that equal ones have equal keys.

    code (str): The code, such as "MESH:D1", "HPO:HP:0000001" (the form in UMLS) or a CUI.
    RETURNS (Key | None): Normalized prefix and local id, or None if the code has no prefix.
    """
    if is_cui(code):
        return "UMLS", code
    prefix, _, rest = code.partition(":")
    if not prefix or not rest:
        return None
    prefix = equal_prefix(prefix)
    inner, separator, last = rest.partition(":")
    return (prefix, last) if separator and equal_prefix(inner) == prefix else (prefix, rest)


def own_prefixes(keys: Iterable[Key | None], sources: Iterable[str]) -> set[str]:
    """Collect the sources that contribute concepts or names to a terminology.

    keys (Iterable[Key | None]): The keys of its concepts' ids.
    sources (Iterable[str]): The sources of its names.
    RETURNS (set[str]): The normalized prefixes of these sources.
    """
    named = {equal_prefix(part) for joined in sources for part in joined.split(SOURCE_SEPARATOR)}
    return named | {key[0] for key in keys if key}


def find_links(terminologies: Sequence[Terminology]) -> Links:
    """Join concepts by cross-references.

    A concept A of one terminology refers to a concept B of another if A has a code that is the id or a code of B in B's
    own source. A and B are joined if A refers to no other concept of B's terminology, and no other concept of A's
    terminology refers to B. Two CUIs, two ids with the same prefix and two concepts of one terminology are never
    joined. Mutual references are used first, the others in the order of the terminologies and of the concepts' ids.

    terminologies (Sequence[Terminology]): The terminologies. Concepts with the same id need no link.
    RETURNS (Links): The joined ids and the refused links.
    """
    links = Links()
    lookups = [_Lookup(place, terminology) for place, terminology in enumerate(terminologies)]
    directed: set[tuple[Node, Node]] = set()
    for source in lookups:
        for target in lookups:
            if source is not target:
                directed.update(_one_to_one(source, target, links))
    pairs: dict[tuple[Node, Node], bool] = {}
    for start, end in directed:
        pair = min((start, end), (end, start))
        pairs[pair] = (end, start) in directed
    joined = _Joined(lookups)
    for (one, other), _ in sorted(pairs.items(), key=lambda item: (not item[1], item[0][0][0], item[0][1][0], item[0])):
        reason = joined.join(one[1], other[1])
        if reason is None:
            links.used += 1
        else:
            links.refuse(reason, f"{one[1]} - {other[1]}")
    links.owners = joined.owners()
    return links


class _Lookup:
    """One terminology's concepts by the keys that refer to them, and the keys that they refer to."""

    def __init__(self, place: int, terminology: Terminology) -> None:
        self.place = place
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


def _one_to_one(source: _Lookup, target: _Lookup, links: Links) -> Iterator[tuple[Node, Node]]:
    """Find the one-to-one references from one terminology to another."""
    pointers: dict[Key, set[str]] = defaultdict(set)
    for concept_id, key in source.codes:
        if key[0] in target.own and key in target.keys:
            pointers[key].add(concept_id)
    targets: dict[str, set[str]] = defaultdict(set)
    sources: dict[str, set[str]] = defaultdict(set)
    for key, concept_ids in pointers.items():
        for concept_id in concept_ids:
            # A concept with the same id in both terminologies needs no link.
            targets[concept_id] |= target.keys[key] - {concept_id}
            for other in target.keys[key]:
                sources[other].add(concept_id)
    for concept_id in sorted(targets):
        others = sorted(targets[concept_id])
        if len(others) > 1:
            links.refuse("points_to_several", f"{concept_id} -> {', '.join(others[:5])}")
        elif others and len(sources[others[0]]) > 1:
            rivals = sorted(sources[others[0]] - {concept_id})
            links.refuse("pointed_to_by_several", f"{concept_id} -> {others[0]} (as do: {', '.join(rivals[:5])})")
        elif others:
            yield (source.place, concept_id), (target.place, others[0])


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
