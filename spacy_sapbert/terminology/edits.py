"""Add concepts and names to a terminology, or remove them. The result is a new terminology."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..columns import CodedColumn, NumberColumn, TextColumn
from ..errors import NO_LIST
from ..ragged import make_offsets
from ..text import normalize_name
from .builder import TerminologyBuilder, complete
from .records import (
    ConceptRecord,
    NameRecord,
    RetiredRecord,
    make_concepts,
    make_names,
    make_retired,
    unite_concepts,
    unite_names,
    unite_retired,
)
from .rows import Table
from .table import SEARCH_COST, Terminology

NO_PAIRS = (
    '{found}, but names have to be a list of pairs of the concept\'s id and the name, as in [("C0009443", "head '
    'cold")]. `add_names` takes a Terminology as well, with types, definitions and languages.'
)


class Edit(NamedTuple):
    """An edited terminology, and the row of each old name in it, or -1 if it was removed; int64."""

    terminology: Terminology
    name_rows: np.ndarray


def check_pairs(names: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Check pairs of a concept's id and a name."""
    if not isinstance(names, Iterable):
        raise TypeError(NO_PAIRS.format(found=f"{names!r:.80} was given"))
    for item, pair in enumerate(names):
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise TypeError(NO_PAIRS.format(found=f"Item {item} is {pair!r:.80}"))
        yield pair[0], pair[1]


def collect_names(
    names: Iterable[tuple[str, str]], *, language: str = "ENG", source: str = "", term_type: str = ""
) -> Terminology:
    """Make a terminology of names for `add_terminology`."""
    builder = TerminologyBuilder()
    for concept_id, name in check_pairs(names):
        builder.add_name(concept_id, name, language=language, source=source, term_type=term_type)
    return builder.assemble()


def add_terminology(terminology: Terminology, added: Terminology) -> Edit:
    """Add concepts and names. The result equals that of one builder with the records of both terminologies. A known
    concept keeps its canonical name and definition. Its types, codes and parents, and the sources of a known name, are
    united."""
    ids = added.concepts["id"].to_list()
    old_rows = _find_exactly(terminology.concepts["id"], ids)
    concepts, names = {}, []
    for row, (id_, old_row) in enumerate(zip(ids, old_rows.tolist(), strict=True)):
        records = [_read_concept(terminology, old_row)] if old_row >= 0 else []
        written = _read_names(terminology, old_row) if old_row >= 0 else []
        concepts[id_] = unite_concepts([*records, _read_concept(added, row)])
        names.append(unite_names([*written, *_read_names(added, row)]))
    order = _order_rows(terminology.concepts["id"], ids, old_rows)
    merged = terminology.concepts.take(order, make_concepts(concepts))
    # The new rows of old concepts, and of added ones.
    moved, placed = _find_places(order, old_rows, len(terminology))
    merged_names, offsets = _merge_names(terminology, make_names(names), order)
    # Of each concept, old names come first, in their order.
    concept = terminology.name_concept
    name_rows = offsets[moved[concept]] + np.arange(terminology.n_names) - terminology.name_offsets[concept]
    n_added = merged_names.height - terminology.n_names
    dropped = added.report.get("dropped", {})
    counts = {
        "concepts_added": merged.height - len(terminology),
        "names_added": n_added,
        "duplicate_names": dropped.get("duplicate_names", 0) + added.n_names - n_added,
        "empty_names": dropped.get("empty_names", 0),
        "normalized_names": added.report.get("normalized_names", 0),
    }
    report = _count_edits(terminology, counts)
    if sources := added.report.get("sources"):
        report["sources"] = {**sources, **report.get("sources", {})}
    relations = _unite_relations([(terminology, moved), (added, placed)])
    retired = _unite_retired(terminology, added, ids)
    return Edit(complete(merged, merged_names, retired, report, relations), name_rows)


def remove_concepts(terminology: Terminology, ids: Iterable[str]) -> Edit:
    """Remove concepts with all their names. Other concepts keep removed parents in their lists."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise TypeError(NO_LIST.format(function="remove_concepts", what="ids", found=f"{ids!r:.80} was given"))
    is_kept = np.ones(len(terminology), dtype=bool)
    for concept_id in ids:
        if (current := terminology.concept(row := terminology.row(concept_id)).id) != concept_id:
            raise KeyError(
                f"'{concept_id}' is retired, and '{current}' took its place. To remove that, give its own id."
            )
        is_kept[row] = False
    if not is_kept.any():
        reason = "nothing would be left to link to. Use `nlp.remove_pipe`, or `initialize` with another terminology."
        raise ValueError(f"Can't remove these {len(terminology)} concepts: {reason}")
    name_is_kept = is_kept[terminology.name_concept]
    names = _keep_names(terminology, name_is_kept, _renumber(is_kept))
    counts = {"concepts_removed": int((~is_kept).sum()), "names_removed": int((~name_is_kept).sum())}
    concepts = terminology.concepts.take(np.flatnonzero(is_kept))
    relations = _unite_relations([(terminology, _renumber(is_kept))])
    report = _count_edits(terminology, counts)
    left = complete(concepts, names, terminology.retired, report, relations)
    return Edit(left, _renumber(name_is_kept))


def remove_names(terminology: Terminology, names: Iterable[tuple[str, str]]) -> Edit:
    """Remove names of concepts, in all languages. A concept whose canonical name goes gets its first preferred name, or
    else its first one, as canonical name.
    """
    strings, preferred = terminology.names["name"], terminology.names["preferred"]
    offsets = terminology.name_offsets
    is_kept = np.ones(terminology.n_names, dtype=bool)
    for concept_id, name in check_pairs(names):
        row = terminology.row(concept_id)
        wanted = normalize_name(name)
        found = [place for place in range(*offsets[row : row + 2].tolist()) if strings[place] == wanted]
        if not found:
            has = ", ".join(map(repr, terminology[concept_id].names[:10]))
            raise KeyError(f"The concept '{concept_id}' has no name {name!r} to remove. It has, exactly: {has}.")
        is_kept[found] = False
        if not is_kept[slice(*offsets[row : row + 2])].any():
            raise ValueError(
                f"The concept '{concept_id}' would be left without names. Use `remove_concepts` to remove it."
            )
    # Concepts whose canonical name is no longer one of their names.
    rows = np.unique(terminology.name_concept[~is_kept]).tolist()
    ids, canonical = terminology.concepts["id"], terminology.concepts["canonical_name"]
    renamed: dict[str, ConceptRecord] = {}
    for row in rows:
        places = range(*offsets[row : row + 2].tolist())
        if canonical[row] in {strings[place] for place in places if not is_kept[place]}:
            others = [place for place in places if is_kept[place]]
            best = min(others, key=lambda place: (strings[place] != canonical[row], not preferred[place]))
            renamed[ids[row]] = _read_concept(terminology, row)._replace(canonical_name=strings[best])
    order = np.arange(len(terminology))
    order[terminology.find_rows(renamed)] = len(terminology) + np.arange(len(renamed))
    concepts = terminology.concepts.take(order, make_concepts(renamed)) if renamed else terminology.concepts
    names_left = _keep_names(terminology, is_kept, np.arange(len(terminology)))
    report = _count_edits(terminology, {"names_removed": int((~is_kept).sum())})
    left = complete(concepts, names_left, terminology.retired, report, terminology.relations)
    return Edit(left, _renumber(is_kept))


def _renumber(is_kept: np.ndarray) -> np.ndarray:
    """Number the rows that are kept; the others get -1."""
    return np.where(is_kept, np.cumsum(is_kept) - 1, -1)


def _read_concept(terminology: Terminology, row: int) -> ConceptRecord:
    return ConceptRecord(*terminology.concepts.row(row)[1:])


def _read_names(terminology: Terminology, row: int) -> list[NameRecord]:
    rows = terminology.names_of(row).rows()
    return [NameRecord(name, *rest) for name, _, *rest in rows]


def _find_exactly(ids: TextColumn, wanted: Sequence[str]) -> np.ndarray:
    """Find the rows of ids among sorted ones; -1 where there is none. A retired id is another one."""
    searched = ids if SEARCH_COST * len(wanted) < len(ids) else ids.to_list()
    pairs = ((bisect_left(searched, id_), id_) for id_ in wanted)
    rows = (place if place < len(searched) and searched[place] == id_ else -1 for place, id_ in pairs)
    return np.fromiter(rows, np.int64, len(wanted))


def _order_rows(ids: TextColumn, wanted: Sequence[str], rows: np.ndarray) -> np.ndarray:
    """Order rows with sorted ids, and those of other ids behind them, of which some take the places of old rows."""
    others = len(ids) + np.arange(len(wanted))
    order = np.arange(len(ids))
    is_old = rows >= 0
    order[rows[is_old]] = others[is_old]
    places = [bisect_left(ids, id_) for id_, old in zip(wanted, is_old.tolist(), strict=True) if not old]
    return np.insert(order, np.array(places, dtype=np.int64), others[~is_old])


def _find_places(order: np.ndarray, rows: np.ndarray, n_old: int) -> tuple[np.ndarray, np.ndarray]:
    """Find where old rows are in an order, and the others, of which some take the places of old rows."""
    places = np.empty(n_old + len(rows), dtype=np.int64)
    places[order] = np.arange(len(order))
    old, new = places[:n_old], places[n_old:]
    old[rows[rows >= 0]] = new[rows >= 0]
    return old, new


def _merge_names(terminology: Terminology, names: Table, order: np.ndarray) -> tuple[Table, np.ndarray]:
    """Give concepts their names, given how old concepts and those of other names are ordered. Return where those of
    each concept begin, too."""
    n_old = terminology.n_names
    counts = np.bincount(names["concept"].to_numpy(), minlength=int((order >= len(terminology)).sum()))
    starts = np.concatenate([terminology.name_offsets[:-1], n_old + make_offsets(counts)[:-1]])[order]
    lengths = np.concatenate([np.diff(terminology.name_offsets), counts])[order]
    offsets = make_offsets(lengths)
    rows = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    concept = np.repeat(np.arange(len(order), dtype=np.uint32), lengths)
    return terminology.names.take(rows, names).replace(concept=NumberColumn(concept)), offsets


def _keep_names(terminology: Terminology, is_kept: np.ndarray, concepts: np.ndarray) -> Table:
    """Keep some names, given the new row of each concept."""
    rows = np.flatnonzero(is_kept)
    concept = concepts[terminology.name_concept[rows]].astype(np.uint32)
    return terminology.names.take(rows).replace(concept=NumberColumn(concept))


def _unite_relations(placed: Sequence[tuple[Terminology, np.ndarray]]) -> Table:
    """Unite the relations of terminologies, given the new row of each concept, or -1: sorted, and each once. Relations
    of a concept to itself, and to one that is not there, go."""
    tables = [terminology.relations for terminology, _ in placed]
    head, tail = (
        np.concatenate([rows[terminology.relations[end].to_numpy()] for terminology, rows in placed])
        for end in ("head", "tail")
    )
    kept = np.flatnonzero((head >= 0) & (tail >= 0) & (head != tail))
    label = CodedColumn.take_rows([table["label"] for table in tables], kept)
    head, tail = head[kept], tail[kept]
    order = np.lexsort((tail, label.codes, head))
    columns = head[order], label.codes[order].astype(np.int64), tail[order]
    is_new = np.logical_or.reduce([np.diff(column, prepend=-1) != 0 for column in columns])
    order = order[is_new]
    ends = {name: NumberColumn(rows[order].astype(np.uint32)) for name, rows in (("head", head), ("tail", tail))}
    return Table({"head": ends["head"], "label": label[order], "tail": ends["tail"]})


def _unite_retired(terminology: Terminology, added: Terminology, living: Sequence[str]) -> Table:
    """Unite the retired ids of two terminologies, given the ids of added concepts. One that a concept has is not
    retired."""
    old = terminology.retired
    is_added = {*living}
    revived = _find_exactly(old["id"], living)
    is_kept = np.ones(old.height, dtype=bool)
    is_kept[revived[revived >= 0]] = False
    ids = added.retired["id"].to_list()
    alive = _find_exactly(terminology.concepts["id"], ids)
    rows = [row for row, id_ in enumerate(ids) if alive[row] < 0 and id_ not in is_added]
    wanted = [ids[row] for row in rows]
    old_rows = _find_exactly(old["id"], wanted)
    records = {}
    for id_, row, old_row in zip(wanted, rows, old_rows.tolist(), strict=True):
        listed = [old.row(old_row)] if old_row >= 0 else []
        records[id_] = unite_retired([RetiredRecord(*values[1:]) for values in (*listed, added.retired.row(row))])
    order = _order_rows(old["id"], wanted, old_rows)
    order = order[np.append(is_kept, np.ones(len(wanted), dtype=bool))[order]]
    return old.take(order, make_retired(records))


def _count_edits(terminology: Terminology, counts: Mapping[str, int]) -> dict[str, Any]:
    report: dict[str, Any] = terminology.report
    before: dict[str, int] = report.get("edits", {})
    report["edits"] = {key: before.get(key, 0) + counts.get(key, 0) for key in {**before, **counts}}
    return report
