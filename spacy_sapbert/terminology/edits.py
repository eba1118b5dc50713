"""Add concepts and names to a terminology, or remove them. The result is a new terminology."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..errors import NO_LIST
from ..text import normalize_name
from .builder import TerminologyBuilder, complete
from .names import find_rows, unite_names, unite_relations, unite_retired, unite_rows
from .table import Terminology

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
    concepts = _merge_concepts(terminology.concepts, added.concepts)
    old = _place_names(terminology, concepts["id"]).with_row_index("old_row")
    new = _place_names(added, concepts["id"])
    # Most concepts get no names, and uniting only the names of the others is much faster.
    gets_names = pl.col("concept").is_in(new["concept"].unique().implode())
    united = unite_names(pl.concat([old.filter(gets_names), new], how="diagonal"))
    names = pl.concat([old.filter(~gets_names), united]).sort("concept", maintain_order=True)
    is_old = names["old_row"].is_not_null().to_numpy()
    n_added = int((~is_old).sum())
    name_rows = np.full(old.height, -1)
    name_rows[names["old_row"].drop_nulls().to_numpy()] = np.flatnonzero(is_old)
    dropped = added.report.get("dropped", {})
    counts = {
        "concepts_added": concepts.height - len(terminology),
        "names_added": n_added,
        "duplicate_names": dropped.get("duplicate_names", 0) + added.n_names - n_added,
        "empty_names": dropped.get("empty_names", 0),
        "normalized_names": added.report.get("normalized_names", 0),
    }
    return _make_edit(terminology, concepts, names, name_rows, counts, added)


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
    new_rows = pl.Series("concept", _renumber(is_kept)[terminology.name_concept[name_is_kept]].astype(np.uint32))
    names = terminology.names.filter(name_is_kept).with_columns(new_rows)
    counts = {"concepts_removed": int((~is_kept).sum()), "names_removed": int((~name_is_kept).sum())}
    return _make_edit(terminology, terminology.concepts.filter(is_kept), names, _renumber(name_is_kept), counts)


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
    canonical = terminology.concepts["canonical_name"].clone()
    for row in rows:
        places = range(*offsets[row : row + 2].tolist())
        if canonical[row] in {strings[place] for place in places if not is_kept[place]}:
            left = [place for place in places if is_kept[place]]
            best = min(left, key=lambda place: (strings[place] != canonical[row], not preferred[place]))
            canonical = canonical.scatter(row, strings[best])
    concepts = terminology.concepts.with_columns(canonical_name=canonical)
    counts = {"names_removed": int((~is_kept).sum())}
    return _make_edit(terminology, concepts, terminology.names.filter(is_kept), _renumber(is_kept), counts)


def _renumber(is_kept: np.ndarray) -> np.ndarray:
    """Number the rows that are kept; the others get -1."""
    return np.where(is_kept, np.cumsum(is_kept) - 1, -1)


def _merge_concepts(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    is_shared = pl.col("id").is_in(new["id"].implode())
    return pl.concat([old.filter(~is_shared), unite_rows([old.filter(is_shared), new])]).sort("id")


def _place_names(terminology: Terminology, ids: pl.Series) -> pl.DataFrame:
    rows = find_rows(terminology.concepts["id"], ids)[terminology.name_concept]
    return terminology.names.with_columns(pl.Series("concept", rows, dtype=pl.UInt32()))


def _make_edit(
    old: Terminology,
    concepts: pl.DataFrame,
    names: pl.DataFrame,
    name_rows: np.ndarray,
    counts: dict[str, int],
    added: Terminology | None = None,
) -> Edit:
    report: dict[str, Any] = old.report
    known: dict[str, int] = report.get("edits", {})
    report["edits"] = {key: known.get(key, 0) + counts.get(key, 0) for key in known | counts}
    ids, retired, both = concepts["id"], old.retired, [old]
    if added is not None:
        both.append(added)
        retired = unite_retired([old.retired, added.retired], ids)
        if sources := added.report.get("sources"):
            report["sources"] = {**sources, **report.get("sources", {})}
    relations = unite_relations(((one.relations, one.concepts["id"]) for one in both), ids)
    terminology = complete(concepts, names, retired, report, relations)
    return Edit(terminology, name_rows.astype(np.int64))
