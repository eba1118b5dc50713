"""Mappings of OMOP: the table SOURCE_TO_CONCEPT_MAP (CDM 5.4), and the mappings that Usagi saves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ..files import check_is_file, write_whole
from ..tables.checking import read_rows
from ..tables.mapping import (
    CLOSE,
    DECIDED,
    EXACT,
    MANUAL,
    NARROW,
    NO_TERM,
    NOT,
    RELATED,
    UNSPECIFIED,
    MappingSet,
    complete_frame,
    has_object,
    make_curies,
    make_mapping,
    split_curie,
)
from ..tables.renewal import read_targets
from ..tables.sssom import read_sssom
from ..terminology.codes import Key
from ..terminology.table import Terminology
from ..text import MARK
from .documents import ExchangeReport
from .fhir import CODE_SYSTEMS, normalize_source
from .omop import NO_CONCEPT, AthenaTables

SOURCE_MAP = (
    *("source_code", "source_concept_id", "source_vocabulary_id", "source_code_description", "target_concept_id"),
    *("target_vocabulary_id", "valid_start_date", "valid_end_date", "invalid_reason"),
)
READ_OF_SOURCE_MAP = ("source_code", "source_vocabulary_id", "source_code_description", "target_concept_id")
READ_OF_USAGI = ("sourceCode", "sourceName", "mappingStatus", "conceptId")
# The prefix of OMOP's own ids of concepts.
OMOP = "OMOP"
# The dates of rows that do not say since when they are valid, and until when.
FIRST_DAY = "1970-01-01"
LAST_DAY = "2099-12-31"
# The most characters of a code, of a vocabulary and of a description.
CODE_WIDTH = 50
VOCABULARY_WIDTH = 20
TEXT_WIDTH = 255
# What Usagi calls the relation of a code to its concept.
EQUIVALENCES = {
    "EQUAL": EXACT,
    "EQUIVALENT": CLOSE,
    "WIDER": "skos:broadMatch",
    "NARROWER": "skos:narrowMatch",
    "INEXACT": "skos:relatedMatch",
}
SIMILAR = "semapv:LexicalSimilarityThresholdMatching"
_PREFIX = re.compile(r"[^A-Za-z0-9_.-]+")


def read_mapping(
    path: Path,
    *,
    column: str = "label",
    id_column: str | None = None,
    subject_prefix: str = "",
    object_prefix: str = "",
    athena: AthenaTables | None = None,
    metadata: Path | None = None,
    curie_map: Mapping[str, str] | None = None,
    keep: bool = True,
) -> MappingSet:
    """Read a mapping of any kind, known by its columns: SSSOM, SOURCE_TO_CONCEPT_MAP, Usagi, or a linked table.

    path (Path): The file.
    column (str): The column of labels, of a linked table.
    id_column (str | None): The column of the labels' own ids, of a linked table.
    subject_prefix (str): The prefix of ids and codes of labels that have none.
    object_prefix (str): The prefix of concepts' ids that have none.
    athena (AthenaTables | None): Turns OMOP's ids of concepts into codes.
    metadata (Path | None): The metadata of SSSOM, if it stands in a file of another name.
    curie_map (Mapping[str, str] | None): The IRIs of prefixes that are not known.
    keep (bool): Keep the other columns and the equal rows of a linked table.
    RETURNS (MappingSet): The mapping, with all columns of a file of another kind.
    RAISES (ValueError): If the file is of no such kind.
    """
    check_is_file(path)
    names = _read_names(path)
    if "predicate_id" in names:
        mapping = read_sssom(path, metadata)
        curies = {**mapping.metadata.get("curie_map", {}), **(curie_map or {})}
        return mapping._replace(metadata={**mapping.metadata, "curie_map": curies})
    if "sourceCode" in names:
        return read_usagi(path, subject_prefix=subject_prefix, athena=athena, curie_map=curie_map)
    if "target_concept_id" in names:
        return read_source_map(path, subject_prefix=subject_prefix, athena=athena, curie_map=curie_map)
    if "linked_id" not in names:
        raise ValueError(f"{path} is no mapping: it is not SSSOM, SOURCE_TO_CONCEPT_MAP, of Usagi, or a linked table.")
    prefixes: dict[str, Any] = {"subject_prefix": subject_prefix, "object_prefix": object_prefix}
    rows = read_rows(path, ("linked_id", column), "Name the column of labels with --column.")
    frame = rows.frame
    if rows.delimiter:
        # As the file was written: see `write_linked`.
        added = [name for name in frame.columns if name.startswith("linked_")]
        frame = frame.with_columns(pl.col(added).str.strip_prefix(MARK))
    return make_mapping(frame, column, id_column=id_column, curie_map=curie_map, keep=keep, **prefixes)


def _read_names(path: Path) -> set[str]:
    """Read the names of the columns of a table."""
    if path.suffix.lower() == ".parquet":
        return {*pl.read_parquet_schema(path)}
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        line = next((line for line in file if not line.startswith("#")), "")
    return {*re.findall(r"[\w.-]+", line)}


def read_usagi(
    path: Path, *, subject_prefix: str, athena: AthenaTables | None = None, curie_map: Mapping[str, str] | None = None
) -> MappingSet:
    """Read the mappings that Usagi saves or exports for review, a row for each code and concept.

    path (Path): The file, .csv.
    subject_prefix (str): The prefix of the source codes.
    athena (AthenaTables | None): Turns ids of concepts into codes, such as SNOMED:84757009; None leaves OMOP:377091.
    curie_map (Mapping[str, str] | None): The IRIs of prefixes that are not known.
    RETURNS (MappingSet): The mapping, with all columns of the file. Codes that are approved or ignored are decided.
    """
    advice = "Give a file that Usagi has saved."
    cells = complete_frame(read_rows(path, READ_OF_USAGI, advice).frame)
    none = pl.lit(None, pl.String)
    names = ("equivalence", "matchScore", "statusSetBy", "statusSetOn", "conceptName")
    equivalence, score, set_by, set_on, concept_name = (
        pl.col(name) if name in cells.columns else none for name in names
    )
    decided = pl.col("mappingStatus").is_in(DECIDED).fill_null(False)
    has_concept = pl.col("object_id").is_not_null()
    day = pl.from_epoch(set_on.cast(pl.Int64, strict=False), time_unit="ms").dt.date().cast(pl.String)
    predicate = equivalence.replace_strict(EQUIVALENCES, default=None, return_dtype=pl.String)
    frame = cells.with_columns(
        make_curies(cells["sourceCode"], subject_prefix, curie_map or {}, "--subject-prefix").alias("subject_id"),
        _make_targets(cells["conceptId"], athena, path).alias("object_id"),
    ).with_columns(
        subject_label="sourceName",
        object_label=pl.when(has_concept).then(concept_name),
        predicate_id=pl.when(has_concept).then(
            pl.coalesce(predicate, pl.when(decided).then(pl.lit(EXACT)).otherwise(pl.lit(CLOSE)))
        ),
        mapping_justification=pl.when(decided).then(pl.lit(MANUAL)).when(has_concept).then(pl.lit(SIMILAR)),
        mapping_status="mappingStatus",
        confidence=pl.when(has_concept).then(score.cast(pl.Float64, strict=False).clip(0, 1).cast(pl.String)),
        reviewer_label=pl.when(decided).then(set_by),
        review_date=pl.when(decided & set_by.is_not_null()).then(day),
    )
    return MappingSet(frame, {"curie_map": dict(curie_map)} if curie_map else {})


def read_source_map(
    path: Path,
    *,
    subject_prefix: str = "",
    athena: AthenaTables | None = None,
    curie_map: Mapping[str, str] | None = None,
) -> MappingSet:
    """Read a table SOURCE_TO_CONCEPT_MAP.

    path (Path): The table, .csv.
    subject_prefix (str): The prefix of the source codes; empty for the vocabulary of each.
    athena (AthenaTables | None): Turns ids of concepts into codes, such as SNOMED:84757009; None leaves OMOP:377091.
    curie_map (Mapping[str, str] | None): The IRIs of prefixes that are not known.
    RETURNS (MappingSet): The mapping, with all columns of the table. A row that is no longer valid says that its code
        does not match.
    """
    advice = "Give the table SOURCE_TO_CONCEPT_MAP."
    cells = complete_frame(read_rows(path, READ_OF_SOURCE_MAP, advice).frame)
    vocabulary = pl.col("source_vocabulary_id").fill_null("").str.replace_all(_PREFIX.pattern, "_")
    prefix = pl.lit(subject_prefix) if subject_prefix else vocabulary
    codes = cells.select(pl.concat_str(prefix, pl.lit(":"), "source_code")).to_series()
    has_concept = pl.col("object_id").is_not_null()
    is_invalid = pl.col("invalid_reason").is_not_null() if "invalid_reason" in cells.columns else pl.lit(False)
    frame = cells.with_columns(
        make_curies(codes.alias("source_code"), "", curie_map or {}, "--subject-prefix").alias("subject_id"),
        _make_targets(cells["target_concept_id"], athena, path).alias("object_id"),
    ).with_columns(
        subject_label="source_code_description",
        predicate_id=pl.when(has_concept).then(pl.lit(EXACT)),
        predicate_modifier=pl.when(has_concept & is_invalid).then(pl.lit(NOT)),
        mapping_justification=pl.when(has_concept).then(pl.lit(UNSPECIFIED)),
    )
    return MappingSet(frame, {"curie_map": dict(curie_map)} if curie_map else {})


def _make_targets(ids: pl.Series, athena: AthenaTables | None, path: Path) -> pl.Series:
    """Make CURIEs of ids of concepts; null for no concept."""
    numbers = ids.cast(pl.Int64, strict=False)
    wrong = ids.filter(ids.is_not_null() & numbers.is_null())
    if len(wrong):
        raise ValueError(
            f"{path} has {wrong[0]!r:.80} in the column {ids.name!r}, where whole numbers stand. Correct it."
        )
    distinct = numbers.drop_nulls().unique()
    distinct = distinct.filter(distinct != NO_CONCEPT).to_list()
    codes = athena.find_codes(distinct) if athena else {}
    curies = [":".join(codes[id_]).replace(" ", "_") if id_ in codes else f"{OMOP}:{id_}" for id_ in distinct]
    written: pl.Series = numbers.replace_strict(distinct, curies, default=None, return_dtype=pl.String)
    return written


def write_source_map(
    mapping: MappingSet,
    path: Path,
    athena: AthenaTables,
    report: ExchangeReport,
    *,
    source_vocabulary: str = "",
    terminology: Terminology | None = None,
    vocabularies: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Write a mapping as OMOP's table SOURCE_TO_CONCEPT_MAP, with standard concepts.

    A row that maps to several standard concepts becomes several rows. A code without any gets a row with the concept 0.
    Rows that say that a label does not match are left out, and labels without an id are their own codes.

    mapping (MappingSet): The mapping.
    path (Path): The table, .csv.
    athena (AthenaTables): Athena's tables, to find concepts of codes.
    report (ExchangeReport): Names and counts what is left out.
    source_vocabulary (str): The name of the source's vocabulary; empty for the prefix of each id.
    terminology (Terminology | None): Where concepts have codes in other sources.
    vocabularies (Mapping[str, str] | None): Athena's names of sources, by source.
    RETURNS (dict[str, Any]): What was written, and left out.
    """
    if len(source_vocabulary) > VOCABULARY_WIDTH:
        raise ValueError(
            f"The source vocabulary is {source_vocabulary!r:.80}, but has to be a name of at most {VOCABULARY_WIDTH} "
            "characters."
        )
    rows = mapping.frame.filter(pl.col("predicate_modifier").is_null())
    targets = rows.filter(has_object())["object_id"].unique(maintain_order=True).to_list()
    concepts = _find_concepts(targets, athena, terminology, vocabularies or {})
    lines = []
    for row in rows.iter_rows(named=True):
        prefix, code = split_curie(row["subject_id"] or "")
        code = code or row["subject_label"] or ""
        place = f"{row['subject_id'] or 'label'} {row['subject_label'] or ''!r:.60}"
        if len(code) > CODE_WIDTH:
            report.leave_out(f"codes of more than {CODE_WIDTH} characters, as labels without an id often are", place)
            continue
        if not (source_vocabulary or prefix):
            report.leave_out("labels without an id, whose vocabulary was not said (--vocabulary)", place)
            continue
        matches = concepts.get(row["object_id"], [])
        if row["object_id"] not in (None, NO_TERM) and not matches:
            report.note_odd("concepts without a standard concept in CONCEPT.csv, which become 0", place)
        if row["predicate_id"] in (NARROW, RELATED):
            report.note_odd("concepts that say more or something else than the label, by the predicate", place)
        start = row["review_date"] or row["mapping_date"] or row.get("valid_start_date") or FIRST_DAY
        description = (row["subject_label"] or "")[:TEXT_WIDTH]
        for id_, vocabulary in matches or [(NO_CONCEPT, "None")]:
            source = source_vocabulary or prefix[:VOCABULARY_WIDTH]
            lines.append((code, NO_CONCEPT, source, description, id_, vocabulary, start, LAST_DAY, ""))
    mapped = {line[:3] for line in lines if line[4] != NO_CONCEPT}
    lines = [line for line in dict.fromkeys(lines) if line[4] != NO_CONCEPT or line[:3] not in mapped]
    schema = {name: pl.Int64 if name.endswith("concept_id") else pl.String for name in SOURCE_MAP}
    with write_whole(path) as temporary:
        # In place of quotes around nothing, which a database would read as a text.
        pl.DataFrame(lines, schema, orient="row").with_columns(pl.col(pl.String).replace("", None)).write_csv(temporary)
    counts = {"rows": len(lines), "rows with a concept": sum(line[4] != NO_CONCEPT for line in lines)}
    return report.write(path, counts)


def _find_concepts(
    curies: Sequence[str], athena: AthenaTables, terminology: Terminology | None, vocabularies: Mapping[str, str]
) -> dict[str, list[tuple[int, str]]]:
    """Find the standard concepts of CURIEs, and their vocabularies."""
    names = {source: system.vocabulary for source, system in CODE_SYSTEMS.items() if system.vocabulary}
    names |= {normalize_source(source): name for source, name in vocabularies.items()}
    own = {curie: int(split_curie(curie)[1]) for curie in curies if re.fullmatch(rf"{OMOP}:\d{{1,18}}", curie)}
    # A concept that is named by its id need not be a standard one.
    own_keys = athena.find_codes(own.values())
    keys = {
        curie: [own_keys[own[curie]]] if own.get(curie) in own_keys else _list_keys(curie, terminology, names)
        for curie in curies
    }
    of_keys = athena.find(key for of in keys.values() for key in of)
    standard: dict[str, tuple[int, ...]] = {}
    for curie in curies:
        options = (of_keys[key][1] for key in keys[curie] if key in of_keys)
        standard[curie] = next(filter(None, options), ())
    codes = athena.find_codes(id_ for ids in standard.values() for id_ in ids)
    return {curie: [(id_, codes[id_][0]) for id_ in ids if id_ in codes] for curie, ids in standard.items()}


def _list_keys(curie: str, terminology: Terminology | None, names: Mapping[str, str]) -> list[Key]:
    """List Athena's vocabularies and codes for a CURIE, its own first."""
    listed = [curie]
    if terminology is not None and (own := read_targets(terminology, [curie])[curie].own_id):
        listed += [own, *terminology.codes(own)]
    split = [split_curie(one) for one in listed]
    keys = [(names.get(normalize_source(source), source), code) for source, code in split if code]
    return list(dict.fromkeys(keys))
