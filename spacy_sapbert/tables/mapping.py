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

_FOLDER = Path(__file__).parent
MODEL: dict[str, Any] = json.loads((_FOLDER / "sssom_model.json").read_text(encoding="utf8"))
_LINES = (_FOLDER / "prefixes.tsv").read_text(encoding="utf8").splitlines()
# The IRI of each prefix in capital letters, as `equal_prefix` writes it. OBO ontologies have the IRIs of their pages.
PREFIXES = {prefix: page.removesuffix("{}") for prefix, page in PAGES.items() if page.endswith("{}")}
PREFIXES |= dict(line.split("\t") for line in _LINES)
# The columns that each mapping has.
CORE = (
    *("subject_id", "subject_label", "subject_type", "predicate_id", "predicate_modifier", "object_id", "object_label"),
    *("mapping_justification", "reviewer_id", "reviewer_label", "mapping_date", "review_date", "confidence", "comment"),
    # Not of SSSOM: what a person decided (see `DECIDED`), and how and beside what a label was linked.
    *("mapping_status", "linked_how", "linked_others"),
)
LITERAL = "rdfs literal"
NOT = "Not"
NO_TERM = "sssom:NoTermFound"
EXACT = "skos:exactMatch"
CLOSE = "skos:closeMatch"
PREDICATES = (EXACT, CLOSE, "skos:broadMatch", "skos:narrowMatch", "skos:relatedMatch")
MANUAL = "semapv:ManualMappingCuration"
UNSPECIFIED = "semapv:UnspecifiedMatching"
# Justifications and states that only persons give.
BY_PERSONS = (MANUAL, "semapv:MappingReview")
APPROVED = "APPROVED"
REJECTED = "REJECTED"
DECIDED = (APPROVED, REJECTED, "IGNORED")
# How a label was linked: the predicate and the justification. A label with any other way is a close match.
WAYS = {
    "name": (EXACT, "semapv:LexicalMatching"),
    "form of a name": (EXACT, "semapv:LexicalMatching"),
    "code": (EXACT, "semapv:BackgroundKnowledgeBasedMatching"),
    "vectors": (CLOSE, "semapv:SemanticSimilarityThresholdMatching"),
    "text": (CLOSE, "semapv:CompositeMatching"),
}
# A BROAD synonym means more than its concept, so that the concept is the narrower one of the two.
SCOPES = {"BROAD": "skos:narrowMatch", "NARROW": "skos:broadMatch", "RELATED": "skos:relatedMatch"}
_SCOPE = rf"(?:^|; )a ({'|'.join(SCOPES)})\b[^;]* synonym$"
_CURIE = r"^[A-Za-z_][\w.-]*:[^\s\"<>\\^`{|}]+$"
# What stays as it is in the local part of a CURIE; all else is written as in URLs.
_SAFE = "/:.,;=()+*'!$&@~?#-_"
# The columns of a linked table that become slots.
_TURNED = ("linked_id", "linked_name", "linked_score", "linked_note")


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
    """Make a mapping of a table that `link_table` has linked. Equal rows become one.

    A name of a concept, or a form of one, is an exact match, unless the name is a BROAD, NARROW or RELATED synonym:
    then the concept is narrower, broader or related. What vectors have linked is a close match. A label without a
    concept is mapped to sssom:NoTermFound. Without a column of ids, labels are literals, which have no id.

    linked (pl.DataFrame): The table, with the columns of `link_table`.
    column (str): The column of labels.
    id_column (str | None): The column of the labels' own ids.
    subject_prefix (str): The prefix of these ids, such as "mimic" for "mimic:51221".
    object_prefix (str): The prefix of concepts' ids that have none.
    curie_map (Mapping[str, str] | None): The IRIs of prefixes that are not known.
    day (date | None): The date of the mapping; None for today.
    keep (bool): Keep the other columns of the table, and equal rows.
    RETURNS (MappingSet): The mapping. Rows with neither an id nor a label are left out.
    RAISES (ValueError): If a column is missing, or an id has no prefix.
    """
    for name in (column, id_column, *_TURNED, "linked_how"):
        if name is not None and name not in linked.columns:
            columns = ", ".join(linked.columns)
            raise ValueError(f"The table has no column {name!r}. Link it first, or name its columns: {columns}.")
    curies = dict(curie_map or {})
    cells = complete_frame(linked)
    nothing = pl.Series([None] * cells.height, dtype=pl.String)
    subjects = make_curies(cells[id_column], subject_prefix, curies, "--subject-prefix") if id_column else nothing
    objects = make_curies(cells["linked_id"], object_prefix, curies, "--object-prefix")
    used = {column, id_column, *_TURNED, *CORE[:-2]}
    others = [name for name in linked.columns if name not in used and (keep or name.startswith("linked_"))]
    frame = cells.with_columns(subjects.alias("subject_id"), objects.alias("object_id"))
    frame = frame.with_columns(**_turn_columns(column, day or date.today()))
    slots = [name for name in frame.columns if name in MODEL["mapping_slots"]]
    order = dict.fromkeys((*slots, *others, *CORE))
    frame = frame.select(list(order)).filter(pl.coalesce("subject_id", "subject_label").is_not_null())
    metadata = {"curie_map": curies} if curies else {}
    return MappingSet(frame if keep else frame.unique(maintain_order=True), metadata)


def _turn_columns(column: str, day: date) -> dict[str, pl.Expr]:
    """Make the slots of SSSOM of the columns of a linked table."""
    has_concept = pl.col("object_id").is_not_null()
    scope = pl.col("linked_note").str.extract(_SCOPE).replace_strict(SCOPES, default=None, return_dtype=pl.String)
    predicates, justifications = ({how: way[place] for how, way in WAYS.items()} for place in (0, 1))
    how = pl.col("linked_how")
    predicate = pl.coalesce(scope, how.replace_strict(predicates, default=CLOSE, return_dtype=pl.String))
    justification = how.replace_strict(justifications, default=UNSPECIFIED, return_dtype=pl.String)
    reason = pl.concat_str(how, pl.col("linked_note"), separator="; ", ignore_nulls=True)
    score = pl.col("linked_score").cast(pl.Float64, strict=False).clip(0, 1).cast(pl.String)
    return {
        "subject_label": pl.col(column),
        "subject_type": pl.when(pl.col("subject_id").is_null()).then(pl.lit(LITERAL)),
        "predicate_id": pl.when(has_concept).then(predicate).otherwise(pl.lit(EXACT)),
        "object_id": pl.col("object_id").fill_null(NO_TERM),
        "object_label": pl.col("linked_name"),
        "mapping_justification": pl.when(has_concept).then(justification).otherwise(pl.lit(UNSPECIFIED)),
        "mapping_tool": pl.lit("spacy-sapbert"),
        "mapping_tool_version": pl.lit(__version__),
        "mapping_date": pl.lit(day.isoformat()),
        "confidence": pl.when(has_concept).then(score),
        "comment": pl.when(has_concept).then(pl.col("linked_note")).otherwise(reason),
    }
