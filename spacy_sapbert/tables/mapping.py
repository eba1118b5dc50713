"""Mappings of a table's labels to concepts, in the terms of SSSOM (Simple Standard for Sharing Ontological Mappings):
what was linked, how, and what a person decided."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import polars as pl

from .. import __version__
from ..concept_pages import PAGES
from ..terminology.codes import equal_prefix, is_cui
from .link import COLUMNS, JOINED, JOINT

_FOLDER = Path(__file__).parent
MODEL: dict[str, Any] = json.loads((_FOLDER / "sssom_model.json").read_text(encoding="utf8"))


def _read_lines(name: str) -> list[list[str]]:
    """Read the lines of a table of the package. polars must not read it, because a forked process may import this."""
    return [line.split("\t") for line in (_FOLDER / name).read_text(encoding="utf8").splitlines()]


# The IRI of each prefix in capital letters, as `equal_prefix` writes it. OBO ontologies have the IRIs of their pages.
PREFIXES = {prefix: page.removesuffix("{}") for prefix, page in PAGES.items() if page.endswith("{}")}
PREFIXES |= dict(_read_lines("prefixes.tsv"))
# The columns that each mapping has.
CORE = (
    *("subject_id", "subject_label", "subject_type", "predicate_id", "predicate_modifier", "object_id", "object_label"),
    *("mapping_justification", "reviewer_id", "reviewer_label", "mapping_date", "review_date", "confidence", "comment"),
    # Not of SSSOM: what a person decided (see `DECIDED`), and how and beside what a label was linked.
    *("mapping_status", "linked_how", "linked_second", "linked_second_why", "linked_others"),
)
LITERAL = "rdfs literal"
NOT = "Not"
NO_TERM = "sssom:NoTermFound"
EXACT = "skos:exactMatch"
CLOSE = "skos:closeMatch"
BROAD = "skos:broadMatch"
NARROW = "skos:narrowMatch"
RELATED = "skos:relatedMatch"
PREDICATES = (EXACT, CLOSE, BROAD, NARROW, RELATED)
MANUAL = "semapv:ManualMappingCuration"
UNSPECIFIED = "semapv:UnspecifiedMatching"
# Justifications and states that only persons give.
BY_PERSONS = (MANUAL, "semapv:MappingReview")
APPROVED = "APPROVED"
REJECTED = "REJECTED"
DECIDED = (APPROVED, REJECTED, "IGNORED")
# How a label was linked: the predicate, the justification, and why. A label with any other way is a close match.
WAYS = {how: way for how, *way in _read_lines("ways.tsv")[1:]}
# A BROAD synonym means more than its concept, so that the concept is the narrower one of the two.
SCOPES = {"BROAD": NARROW, "NARROW": BROAD, "RELATED": RELATED}
# The ways that may link a label to several concepts.
_SEVERAL = ("names", "text", "code")
# What stands between several concepts of which a label may mean only one. Dutch "of" is left out, an English word too.
_ALTERNATIVES = "|".join(word for _, word in _read_lines("alternatives.tsv")[1:])
# "w/" stands for "with".
_EITHER = rf"\w\w\s*/\s*\w\w|\s(?:{_ALTERNATIVES})\s"
_SCOPE = rf"(?:^|; )a ({'|'.join(SCOPES)})\b[^;]* synonym$"
_CURIE = r"^[A-Za-z_][\w.-]*:[^\s\"<>\\^`{|}]+$"
# What stays as it is in the local part of a CURIE; all else is written as in URLs.
_SAFE = "/:.,;=()+*'!$&@~?#-_"
# The columns of a linked table that become slots.
TURNED = ("linked_id", "linked_name", "linked_score", "linked_note")
# What a label says beyond its concept.
_BEYOND = ("linked_side", "linked_severity", "linked_site")
# Where an id begins in `linked_others`.
_OTHER = re.compile(r"; (?=\S*[\d:]\S* )")


class MappingSet(NamedTuple):
    """A mapping. `frame` has texts only, null for nothing: the columns of `CORE`, others of SSSOM, and those of the
    file that it comes from. `metadata` is what SSSOM says of the whole set."""

    frame: pl.DataFrame
    metadata: dict[str, Any]


def complete_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Make all cells texts without white space around, null if nothing is left, and add the columns of `CORE`."""
    texts = frame.select(pl.all().cast(pl.String).str.strip_chars().replace("", None))
    missing = [name for name in CORE if name not in texts.columns]
    return texts.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)


def is_left_empty() -> pl.Expr:
    """Say of each row if a person has left it empty, with a comment such as "not a lab test"."""
    is_empty = pl.col("object_id", "predicate_id", "mapping_justification").is_null()
    return pl.all_horizontal(is_empty, pl.col("comment").is_not_null())


def is_decided() -> pl.Expr:
    """Say of each row if a person has decided it."""
    by_person = pl.col("mapping_justification").is_in(BY_PERSONS)
    is_reviewed = pl.col("reviewer_id").is_not_null() | pl.col("reviewer_label").is_not_null()
    # Not null in turn, because null is neither true nor false.
    is_settled = pl.col("mapping_status").is_in(DECIDED).fill_null(False)
    return by_person.fill_null(False) | is_reviewed | is_settled | is_left_empty()


def has_object() -> pl.Expr:
    """Say of each row if it maps to a concept, and does not say that it must not."""
    is_term = pl.col("object_id").is_not_null() & (pl.col("object_id") != NO_TERM)
    return is_term.fill_null(False) & pl.col("predicate_modifier").is_null()


def count_rows(mapping: MappingSet) -> dict[str, int]:
    """Count the rows of a mapping, by what they say."""
    is_rejected = pl.col("predicate_modifier").is_not_null()
    counts = mapping.frame.select(
        has_object().sum().alias("with a concept"),
        (~has_object() & ~is_rejected).sum().alias("without"),
        is_rejected.sum().alias("rejected"),
        is_decided().sum().alias("decided by persons"),
    )
    return {"rows": mapping.frame.height, **counts.row(0, named=True)}


def make_subject_key() -> pl.Expr:
    """Make what tells subjects apart: the id, or else the label."""
    label = pl.lit("\0") + pl.col("subject_label").fill_null("")
    return pl.coalesce("subject_id", label).alias("subject_key")


def is_curie(text: str) -> bool:
    """Check the form of a CURIE, such as "HP:0001250"."""
    return re.match(_CURIE, text, re.ASCII) is not None


def find_iri(prefix: str, curie_map: Mapping[str, str]) -> str | None:
    """Find the IRI that a prefix stands for, in a map of one's own or among the known ones."""
    return curie_map.get(prefix) or PREFIXES.get(equal_prefix(prefix))


def split_curie(curie: str) -> tuple[str, str]:
    """Split a CURIE into its prefix and what the source itself writes."""
    prefix, _, local = curie.partition(":")
    return prefix, unquote(local)


def make_curies(ids: pl.Series, prefix: str, curie_map: Mapping[str, str], option: str) -> pl.Series:
    """Make CURIEs of ids. CURIEs with a known prefix stay, and CUIs get the prefix UMLS; others get `prefix`, and what
    a CURIE must not have in it is written as in URLs."""
    distinct = ids.drop_nulls().unique(maintain_order=True)
    written = [_make_curie(id_, prefix, curie_map) for id_ in distinct]
    if None in written:
        wrong = distinct[written.index(None)]
        row = ids.eq(wrong).arg_max()
        raise ValueError(
            f"Row {(row or 0) + 1} has the id {wrong!r:.80} in {ids.name!r}, which names no source, as 'HP:0001250' "
            f"does. Say with {option} which prefix ids have."
        )
    curies: pl.Series = ids.replace_strict(distinct, written, return_dtype=pl.String).alias(ids.name)
    return curies


def _make_curie(id_: str, prefix: str, curie_map: Mapping[str, str]) -> str | None:
    own, _, local = id_.partition(":")
    has_source = bool(local) and is_curie(f"{own}:x")
    if has_source and (not prefix or own == prefix or find_iri(own, curie_map)):
        # A CURIE may have been written like this before.
        return f"{own}:{quote(local, safe=_SAFE + '%')}"
    if not prefix and is_cui(id_):
        return f"UMLS:{id_}"
    return f"{prefix}:{quote(id_, safe=_SAFE)}" if prefix else None


def split_others(text: str | None) -> list[tuple[str, str]]:
    """Split the ids and names of `linked_others`, "HP:1 cold; HP:2 fever". Names may have semicolons in them."""
    parts = [part.partition(" ") for part in _OTHER.split(text or "") if part]
    return list(dict.fromkeys((id_, name) for id_, _, name in parts))


def make_mapping(
    linked: pl.DataFrame,
    column: str = "label",
    *,
    id_column: str | None = None,
    subject_prefix: str = "",
    object_prefix: str = "",
    curie_map: Mapping[str, str] | None = None,
    day: date | None = None,
    keep: bool = False,
) -> MappingSet:
    """Make a mapping of a table that `link_table`, `link_drugs` or `link_laboratory_table` has linked. Equal rows
    become one, and a label with several concepts has a row for each.

    How a label was linked says the predicate: see `ways.tsv`. A name that is a BROAD, NARROW or RELATED synonym makes
    the concept narrower, broader or related. The concept is broader than a label that says a side, a severity or a
    site as well, or several concepts; it is only related if the label may mean just one of these ("fever or cough"),
    or is about something else ("family history of asthma"). A label without a concept is mapped to sssom:NoTermFound.
    Without a column of ids, labels are literals, which have no id.

    linked (pl.DataFrame): The table, with its linked columns.
    column (str): The column of labels.
    id_column (str | None): The column of the labels' own ids.
    subject_prefix (str): The prefix of these ids, such as "mimic" for "mimic:51221".
    object_prefix (str): The prefix of concepts' ids that have none.
    curie_map (Mapping[str, str] | None): The IRIs of prefixes that are not known.
    day (date | None): The date of the mapping; None for today.
    keep (bool): Keep the other columns of the table, and equal rows.
    RETURNS (MappingSet): The mapping. Rows with neither an id nor a label are left out.
    RAISES (ValueError): If a column is missing, an id has no prefix, or a row has not as many names as ids.
    """
    for name in (column, id_column, "linked_id", "linked_how"):
        if name is not None and name not in linked.columns:
            columns = ", ".join(linked.columns)
            raise ValueError(
                f"The table has no column {name!r}. Its columns are: {columns}. Link it first, or give the names of "
                "the columns with labels and ids."
            )
    curies = dict(curie_map or {})
    cells = _split_concepts(complete_frame(linked))
    nothing = pl.Series([None] * cells.height, dtype=pl.String)
    subjects = make_curies(cells[id_column], subject_prefix, curies, "--subject-prefix") if id_column else nothing
    objects = make_curies(cells["linked_id"], object_prefix, curies, "--object-prefix")
    used = {column, id_column, *TURNED, *(name for name in CORE if not name.startswith("linked_"))}
    others = [name for name in linked.columns if name not in used and (keep or name.startswith("linked_"))]
    frame = cells.with_columns(subjects.alias("subject_id"), objects.alias("object_id"))
    frame = frame.with_columns(
        _prefix_others(frame[name], object_prefix, curies) for name in ("linked_others", "linked_second")
    )
    frame = frame.with_columns(**_turn_columns(column, day or date.today()))
    slots = [name for name in frame.columns if name in MODEL["mapping_slots"]]
    order = dict.fromkeys((*slots, *others, *CORE))
    frame = frame.select(list(order)).filter(pl.coalesce("subject_id", "subject_label").is_not_null())
    metadata = {"curie_map": curies} if curies else {}
    return MappingSet(frame if keep else frame.unique(maintain_order=True), metadata)


def _split_concepts(cells: pl.DataFrame) -> pl.DataFrame:
    """Give each concept of a label a row of its own, and add the columns of `link_table` that a table lacks."""
    missing = [name for name in COLUMNS if name not in cells.columns]
    cells = cells.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)
    n_ids, n_names = (pl.col(name).str.split(JOINT).list.len() for name in ("linked_id", "linked_name"))
    # An id with such a sign of its own has one name.
    is_several = ((n_ids > 1) & (n_names > 1)).fill_null(False)
    wrong = cells.select(is_several & (n_ids != n_names)).to_series()
    if wrong.any():
        row = wrong.arg_max() or 0
        raise ValueError(
            f"Row {row + 1} has the ids {cells['linked_id'][row]!r:.80} and the names "
            f"{cells['linked_name'][row]!r:.80}, which are not as many, with {JOINT!r} between them. Link the table "
            "with --explode."
        )
    count = pl.when(is_several).then(n_ids).otherwise(1)
    parts = {}
    for name in JOINED:
        split = pl.col(name).str.split(JOINT)
        whole = pl.when(is_several).then(pl.lit(None, pl.String)).otherwise(name).repeat_by(count)
        parts[name] = pl.when(is_several & (split.list.len() == count)).then(split).otherwise(whole)
    return complete_frame(cells.with_columns(**parts).explode(JOINED))


def _prefix_others(listed: pl.Series, prefix: str, curie_map: Mapping[str, str]) -> pl.Series:
    """Give ids in front of names, such as those of `linked_others`, the prefix that the ids of concepts get."""
    texts = listed.drop_nulls().unique()
    written = [
        "; ".join(f"{_make_curie(id_, prefix, curie_map) or id_} {name}" for id_, name in split_others(text))
        for text in texts
    ]
    curies: pl.Series = listed.replace_strict(texts, written, default=None, return_dtype=pl.String)
    return curies


def _choose_predicate(column: str) -> pl.Expr:
    """Choose the predicate of each row with a concept."""
    how, label = pl.col("linked_how"), pl.col(column)
    by_way = how.replace_strict({how: way[0] for how, way in WAYS.items()}, default=CLOSE, return_dtype=pl.String)
    scope = pl.col("linked_note").str.extract(_SCOPE).replace_strict(SCOPES, default=None, return_dtype=pl.String)
    n_concepts = pl.col("object_id").filter(how.is_in(_SEVERAL)).n_unique().over("subject_id", column)
    is_several = how.is_in(_SEVERAL) & (n_concepts > 1)
    n_words, n_read = (text.str.count_matches(r"\w+") for text in (label, pl.col("linked_match")))
    says_more = pl.any_horizontal(pl.col(_BEYOND).is_not_null())
    return (
        pl.when(pl.col("linked_context").is_not_null() | (is_several & label.str.contains(_EITHER)))
        .then(pl.lit(RELATED))
        .when(is_several | (says_more & (by_way == CLOSE)))
        .then(pl.lit(BROAD))
        .when((how == "text") & (n_words <= n_read))
        .then(pl.lit(CLOSE))
        .otherwise(pl.coalesce(scope, by_way))
    )


def _turn_columns(column: str, day: date) -> dict[str, pl.Expr]:
    """Make the slots of SSSOM of the columns of a linked table."""
    has_concept = pl.col("object_id").is_not_null()
    how = pl.col("linked_how")
    reasons = {how: way[1] for how, way in WAYS.items()}
    justification = how.replace_strict(reasons, default=UNSPECIFIED, return_dtype=pl.String)
    reason = pl.concat_str(how, pl.col("linked_note"), separator="; ", ignore_nulls=True)
    score = pl.col("linked_score").cast(pl.Float64, strict=False).clip(0, 1).cast(pl.String)
    return {
        "subject_label": pl.col(column),
        "subject_type": pl.when(pl.col("subject_id").is_null()).then(pl.lit(LITERAL)),
        "predicate_id": pl.when(has_concept).then(_choose_predicate(column)).otherwise(pl.lit(EXACT)),
        "object_id": pl.col("object_id").fill_null(NO_TERM),
        "object_label": pl.col("linked_name"),
        "mapping_justification": pl.when(has_concept).then(justification).otherwise(pl.lit(UNSPECIFIED)),
        "mapping_tool": pl.lit("spacy-sapbert"),
        "mapping_tool_version": pl.lit(__version__),
        "mapping_date": pl.lit(day.isoformat()),
        "confidence": pl.when(has_concept).then(score),
        "comment": pl.when(has_concept).then(pl.col("linked_note")).otherwise(reason),
    }
