"""Merge several terminologies into one, joining equal concepts by ids and one-to-one cross-references."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import Any

import polars as pl

from ..errors import NO_LIST
from ..forking import check_polars
from .assembly import complete_frames
from .codes import SOURCE_SEPARATOR, Key, equal_prefix, is_cui, make_key
from .names import (
    place_rows,
    split_columns,
    unite_concept_frames,
    unite_name_frames,
    unite_relations,
    unite_retired_frames,
)
from .readers.lines import MAX_EXAMPLES
from .table import Concept, Terminology

# The position of a terminology in the list, and the id of one of its concepts.
Node = tuple[int, str]
# The ids of a concept and of a concept in another terminology that it refers to.
Edge = tuple[str, str]


def merge(terminologies: Iterable[Terminology], *, cross_references: bool = True) -> Terminology:
    """Merge several terminologies, such as ontologies that refer to each other, into one.

    Concepts with the same id become one, and so do concepts with one-to-one cross-references. The id
    of a merged concept is a UMLS CUI if there is one, else the id in the first terminology; its other ids become codes.
    Canonical names, definitions and term types are taken from the first terminology that has them, but for the lesser
    scopes of a name, such as RELATED, only if no other has it; types, codes, parents and the sources of a name are
    united in the order of the list.

    terminologies (Iterable[Terminology]): The terminologies, the most trusted first.
    cross_references (bool): Whether to join concepts by cross-references, too.
    RETURNS (Terminology): The merged terminology. Its report counts the links that were used and refused.
    RAISES (ValueError): If the list is empty.
    RAISES (TypeError): If an item is not a terminology.
    """
    check_polars("merge terminologies")
    inputs = _list_inputs(terminologies)
    owners, links = _link(inputs if cross_references else [])
    of_concepts = [one.concepts.to_polars() for one in inputs]
    concepts = _stack((frame.rename({"id": "own_id"}) for frame in of_concepts), owners)
    concepts = concepts.sort("id", "place", "own_id", maintain_order=True)
    of_names = (
        one.names.to_polars().with_columns(own_id=frame["id"].gather(one.name_concept))
        for one, frame in zip(inputs, of_concepts, strict=True)
    )
    names = _stack(of_names, owners)
    own = _own_prefixes(map(make_key, concepts["own_id"].to_list()), names["source"].unique().to_list())
    columns = split_columns(concepts)
    columns["codes"] = _list_codes(concepts, columns["codes"], own)
    columns["parents"] = columns["parents"].with_columns(_owner(pl.col("parents"), owners))
    merged, n_self_parents = unite_concept_frames(concepts["id"].unique().sort(), columns)
    merged_names = _merge_names(names, merged["id"])
    report = {
        "merged_from": [_describe(terminology) for terminology in inputs],
        "links": links,
        "concepts_with_equal_ids": concepts.height - concepts["own_id"].n_unique(),
        "dropped": {"self_parents": n_self_parents, "duplicate_names": names.height - merged_names.height},
        "sources": _union(inputs, "sources"),
        "semantic_types": _union(inputs, "semantic_types"),
    }
    all_retired = (terminology.retired.to_polars() for terminology in inputs)
    retired = unite_retired_frames(all_retired, merged["id"]).with_columns(
        _owner(pl.col("replaced_by"), owners), pl.col("consider").list.eval(_owner(pl.element(), owners))
    )
    new_ids = (frame.select(_owner(pl.col("id"), owners))["id"] for frame in of_concepts)
    tables = ((one.relations.to_polars(), ids) for one, ids in zip(inputs, new_ids, strict=True))
    return complete_frames(merged, merged_names, retired, report, unite_relations(tables, merged["id"]))


def _list_inputs(terminologies: object) -> list[Terminology]:
    if isinstance(terminologies, Terminology) or not isinstance(terminologies, Iterable):
        found = f"a {type(terminologies).__name__} was given"
        raise TypeError(NO_LIST.format(function="merge", what="terminologies", found=found))
    inputs = list(terminologies)
    for item, terminology in enumerate(inputs):
        if not isinstance(terminology, Terminology):
            found = f"item {item} is {terminology!r:.80}"
            raise TypeError(NO_LIST.format(function="merge", what="terminologies", found=found))
    if not inputs:
        raise ValueError("There is nothing to merge: no terminology was given. Pass one or more.")
    return inputs


def _describe(terminology: Terminology) -> dict[str, Any]:
    report = {key: value for key, value in terminology.report.items() if key in ("files", "source_version")}
    counts = {"concepts": len(terminology), "names": terminology.n_names}
    return {**counts, "fingerprint": terminology.fingerprint, **report}


def _stack(frames: Iterable[pl.DataFrame], owners: dict[str, str]) -> pl.DataFrame:
    """Join tables, with the place of each one and the ids that concepts get."""
    joined = pl.concat(frame.with_columns(place=pl.lit(place)) for place, frame in enumerate(frames))
    return joined.with_columns(id=_owner(pl.col("own_id"), owners))


def _owner(ids: pl.Expr, owners: dict[str, str]) -> pl.Expr:
    return ids.replace_strict(owners, default=ids, return_dtype=pl.String()) if owners else ids


def _list_codes(concepts: pl.DataFrame, codes: pl.DataFrame, own: set[str]) -> pl.DataFrame:
    """List codes: first the replaced ids, then codes in merged sources, then codes in other sources."""
    ids = concepts.filter(pl.col("own_id") != pl.col("id")).select("id", codes="own_id")
    distinct = codes.select(pl.col("codes").unique(maintain_order=True))["codes"]
    keys = [make_key(code) or ("", "") for code in distinct.to_list()]
    far = pl.Series("far", [prefix not in own for prefix, _ in keys], dtype=pl.Boolean())
    cui = pl.Series("cui", [code if prefix == "UMLS" else None for prefix, code in keys], dtype=pl.String())
    kinds = pl.DataFrame([distinct, far, cui])
    codes = codes.join(kinds, on="codes", how="left", maintain_order="left")
    # A concept's own id, in any spelling, is not one of its codes.
    itself = (pl.col("codes") == pl.col("id")) | (pl.col("cui") == pl.col("id")).fill_null(False)
    codes = codes.filter(~itself).sort("id", "far", maintain_order=True)
    return pl.concat([ids, codes.select("id", "codes")])


def _merge_names(names: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    # Within a terminology, names keep their order; terminologies are in the order of the list.
    placed = place_rows(names.drop("concept"), ids)
    return unite_name_frames(placed.sort("concept", "place", "own_id", maintain_order=True))


def _union(terminologies: Sequence[Terminology], key: str) -> dict[str, Any]:
    together: dict[str, Any] = {}
    # Reversed, so that entries of the first terminology win.
    for terminology in reversed(terminologies):
        together.update(terminology.report.get(key) or {})
    return dict(sorted(together.items()))


def _link(terminologies: Sequence[Terminology]) -> tuple[dict[str, str], dict[str, Any]]:
    """Join concepts by cross-references. Return the id of the merged concept for each joined id, and counts.

    A concept A of one terminology refers to a concept B of another if A has a code that is the id or a code of B in
    B's own source. A and B are joined if A refers to no other concept of B's terminology, and no other concept of
    A's terminology refers to B. A concept with several CUIs refers to several concepts, even if the other
    terminology has only one of them. References by CUI that are not one to one still join two concepts whose names
    agree, if neither agrees with another concept. Two CUIs, two ids with the same prefix and two concepts of one
    terminology are never joined. Mutual references are used first, the others in the order of the terminologies and of
    the concepts' ids.
    """
    lookups = [_Lookup(place, terminology) for place, terminology in enumerate(terminologies)]
    refused: dict[str, list[str]] = defaultdict(list)
    # Whether a reference was chosen by name.
    directed: dict[tuple[Node, Node], bool] = {}
    for source, target in permutations(lookups, 2):
        for start, end, is_named in _choose(source, target, refused):
            directed[(source.place, start), (target.place, end)] = is_named
    pairs = {min((start, end), (end, start)): (end, start) in directed for start, end in directed}
    joined = _Joined(lookups)
    by_name = []
    for one, other in sorted(pairs, key=lambda pair: (not pairs[pair], pair[0][0], pair[1][0], pair)):
        if reason := joined.join(one[1], other[1]):
            refused[reason].append(f"{one[1]} - {other[1]}")
        else:
            by_name.append(all(directed.get(edge, True) for edge in ((one, other), (other, one))))
    return joined.owners(), {
        "used": len(by_name),
        # How many of them are not one to one, and were chosen because the names agree.
        "used_by_name": sum(by_name),
        "refused": {reason: len(texts) for reason, texts in sorted(refused.items())},
        "refused_examples": {reason: texts[:MAX_EXAMPLES] for reason, texts in sorted(refused.items())},
    }


def _choose(source: _Lookup, target: _Lookup, refused: dict[str, list[str]]) -> Iterator[tuple[str, str, bool]]:
    """Choose the references that join two concepts, and say for each whether it was chosen by name."""
    targets: dict[str, set[str]] = defaultdict(set)
    sources: dict[str, set[str]] = defaultdict(set)
    by_cui: set[Edge] = set()
    # References by anything but one of several CUIs.
    certain: set[Edge] = set()
    for start, key in source.codes:
        for end in target.keys.get(key, ()) if key[0] in target.own else ():
            sources[end].add(start)
            # A concept with the same id in both terminologies needs no link.
            if start == end:
                continue
            targets[start].add(end)
            if key[0] == "UMLS":
                by_cui.add((start, end))
            if key[0] != "UMLS" or len(source.cuis[start]) == 1:
                certain.add((start, end))
    plain = {(a, b) for a, b in certain if len(targets[a]) == len(sources[b]) == 1}
    agreeing = {(a, b) for a, b in by_cui - plain if _names_agree(source.terminology[a], target.terminology[b])}
    starts, ends = Counter(a for a, _ in agreeing), Counter(b for _, b in agreeing)
    named = {(a, b) for a, b in agreeing if starts[a] == ends[b] == 1}
    for start, end in sorted(plain | named):
        yield start, end, (start, end) in named
    for start in sorted(targets.keys() - {start for start, _ in plain | named}):
        found = sorted(targets[start])
        rivals = sorted(sources[found[0]] - {start})
        if len(found) > 1:
            refused["points_to_several"].append(f"{start} -> {', '.join(found[:5])}")
        elif rivals:
            text = f"{start} -> {found[0]} (as do: {', '.join(rivals[:5])})"
            refused["pointed_to_by_several"].append(text)
        else:
            cuis = ", ".join(sorted(source.cuis[start])[:5])
            refused["one_of_several_cuis"].append(f"{start} -> {found[0]} (of: {cuis})")


class _Lookup:
    """One terminology's concepts by the keys that refer to them, and the keys that they refer to."""

    def __init__(self, place: int, terminology: Terminology) -> None:
        self.place = place
        self.terminology = terminology
        self.ids: list[str] = terminology.concepts["id"].to_list()
        keys = [make_key(concept_id) for concept_id in self.ids]
        self.own = _own_prefixes(keys, terminology.names["source"].values.to_list())
        self.keys: dict[Key, set[str]] = defaultdict(set)
        self.codes: list[tuple[str, Key]] = []
        self.cuis: dict[str, set[str]] = defaultdict(set)
        for concept_id, key, codes in zip(self.ids, keys, terminology.concepts["codes"].to_list(), strict=True):
            if key:
                self.keys[key].add(concept_id)
            for other in {make_key(code) for code in codes} - {None, key}:
                assert other is not None
                self.codes.append((concept_id, other))
                if other[0] == "UMLS":
                    # A CUI other than the concept's id is a cross-reference, even where UMLS is an own source.
                    self.cuis[concept_id].add(other[1])
                elif other[0] in self.own:
                    self.keys[other].add(concept_id)


class _Joined:
    """Disjoint sets of ids of the same concept, joined link by link."""

    def __init__(self, lookups: Sequence[_Lookup]) -> None:
        # The set of each id: one id for each terminology (by position), and one for each prefix.
        self._sets: dict[str, dict[int | str, str]] = defaultdict(dict)
        self._places: dict[str, int] = {}
        for lookup in lookups:
            for concept_id in lookup.ids:
                self._places.setdefault(concept_id, lookup.place)
                self._sets[concept_id][lookup.place] = concept_id
                if key := make_key(concept_id):
                    self._sets[concept_id][key[0]] = concept_id

    def join(self, one: str, other: str) -> str | None:
        """Join the sets of two ids, or return the reason for not joining them."""
        mine, others = self._sets[one], self._sets[other]
        if mine is others:
            return None
        clashes = {label for label in mine.keys() & others.keys() if mine[label] != others[label]}
        if clashes:
            return "would_join_two_cuis" if "UMLS" in clashes else "would_join_two_ids_of_a_source"
        mine.update(others)
        self._sets.update(dict.fromkeys(others.values(), mine))
        return None

    def owners(self) -> dict[str, str]:
        """Choose an id for all ids of a set of several: the CUI, else the id from the first terminology."""
        owners = {}
        for concept_id, ids in self._sets.items():
            members = set(ids.values())
            if len(members) > 1:
                owners[concept_id] = min(members, key=lambda one: (not is_cui(one), self._places[one], one))
        return owners


def _names_agree(one: Concept, other: Concept) -> bool:
    names = [{name.casefold() for name in concept.names} for concept in (one, other)]
    return one.canonical_name.casefold() in names[1] or other.canonical_name.casefold() in names[0]


def _own_prefixes(keys: Iterable[Key | None], sources: Iterable[str]) -> set[str]:
    """Collect the normalized prefixes of the sources that contribute ids (by their keys) or names to a terminology."""
    named = {equal_prefix(part) for joined in sources for part in joined.split(SOURCE_SEPARATOR)}
    return named | {key[0] for key in keys if key}
