"""Read the vocabularies of OMOP as Athena (https://athena.ohdsi.org) hands them out: a folder with CONCEPT.csv, and
with CONCEPT_SYNONYM.csv, CONCEPT_RELATIONSHIP.csv and VOCABULARY.csv."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from ...errors import warn
from ...forking import check_polars
from ...settings import OnMalformed, Settings, Strings
from ..assembly import assemble
from ..builder import check_any
from ..licences import Source
from ..table import Terminology
from .lines import SourceFile, check_values, make_factory, report_files, takes_settings
from .rrf_lines import TabLines
from .table import ATHENA, VALID

CONCEPT = "CONCEPT.csv"
CONCEPT_SYNONYM = "CONCEPT_SYNONYM.csv"
CONCEPT_RELATIONSHIP = "CONCEPT_RELATIONSHIP.csv"
VOCABULARY = "VOCABULARY.csv"
# The columns that are read of each file. Those called "id" are whole numbers.
COLUMNS = {
    CONCEPT: (*ATHENA.values(), "standard_concept"),
    CONCEPT_SYNONYM: ("concept_id", "concept_synonym_name", "language_concept_id"),
    CONCEPT_RELATIONSHIP: ("concept_id_1", "concept_id_2", "relationship_id", "invalid_reason"),
    VOCABULARY: ("vocabulary_id", "vocabulary_name", "vocabulary_version"),
}
NUMBERS = ("concept_id", "concept_id_1", "concept_id_2", "language_concept_id")
# What a terminology is without if a file is missing.
GIVES = {CONCEPT_SYNONYM: "synonyms", CONCEPT_RELATIONSHIP: "parents and successors of retired concepts"}
STANDARD = "S"
IS_A = "Is a"
MAPS_TO = "Maps to"
REPLACED_BY = "Concept replaced by"
# The row of VOCABULARY.csv that has the version of the whole release.
RELEASE = "None"
LANGUAGES = Path(__file__).with_name("athena_languages.txt")
ANY = pl.lit(True)
IS_VALID = pl.col("invalid_reason").str.strip_chars().is_in(VALID)
AS_HANDED_OUT = "Another program has probably changed the file. Take it as it is in the download."


class AthenaSettings(Settings):
    """Settings of the reader of Athena's files."""

    vocabularies: Strings | None = Field(
        default=None, description='Vocabularies to read, as Athena calls them ("SNOMED", "ICD10CM"); null for all.'
    )
    domains: Strings | None = Field(
        default=None, description='Domains of the concepts to keep ("Condition", "Drug"); null for all.'
    )
    standard_only: bool = Field(default=False, description="Keep only concepts that are standard in OMOP.")
    languages: Strings | None = Field(
        default=None, description='Languages of the names to keep, as in UMLS ("ENG", "SPA"); null for all.'
    )
    errors: OnMalformed = Field(default="raise", description='"raise" at a malformed row, or "skip" and count it.')


@takes_settings(AthenaSettings)
def read_athena(path: Path, settings: AthenaSettings) -> Terminology:
    """Read the valid concepts of a download from Athena, by their concept ids.

    Names are those of CONCEPT.csv, in English, and those of CONCEPT_SYNONYM.csv, in their language. Of the relations in
    CONCEPT_RELATIONSHIP.csv, "Is a" gives the parents. A concept that is no longer valid is retired: by its id, or by
    its code ("SNOMED:22298006"), the concept is found that replaced it, or else the one that it maps to.

    path (str | Path): The folder. Files other than CONCEPT.csv may be missing.
    settings (AthenaSettings): Given as keyword arguments: `read_athena(path, vocabularies=["SNOMED"])`.
    RETURNS (Terminology): The terminology.
    RAISES (FileNotFoundError): If the folder has no CONCEPT.csv.
    RAISES (ValueError): If a file is not as Athena hands it out, a row is malformed and `errors` is "raise", or a
        setting names nothing in the files.
    """
    check_polars("read a terminology")
    folder = _Folder(path, settings.errors)
    dropped = Counter[str]()
    rows = _read_concepts(folder, settings.vocabularies)
    valid = rows.filter(IS_VALID)
    invalid = rows.filter(~IS_VALID)
    dropped["invalid_concepts"] = invalid.height
    concepts = _choose(folder, valid, settings, dropped)
    relations = folder.table(CONCEPT_RELATIONSHIP, pl.col("relationship_id").is_in([IS_A, MAPS_TO, REPLACED_BY]))
    relations = relations.filter(IS_VALID)
    synonyms, unknown = _list_synonyms(folder.table(CONCEPT_SYNONYM), concepts, invalid, dropped)
    names = pl.concat([_list_names(concepts), synonyms])
    if settings.languages is not None:
        check_values(path, "language", settings.languages, names["language"].unique())
        names = _keep(names, pl.col("language").is_in(sorted(settings.languages)), "language", dropped)
    kinds = ("canonical_name", "definition")
    columns = {
        **{kind: pl.DataFrame(schema={"id": pl.String(), kind: pl.String()}) for kind in kinds},
        "types": concepts.select(id="concept_id", types="domain_id").filter(pl.col("types") != ""),
        "codes": concepts.filter(pl.col("concept_code") != "").select(id="concept_id", codes=_write_code()),
        "parents": _list_parents(relations, concepts, dropped),
    }
    retired = _list_retired(relations, invalid, concepts, valid, dropped)
    report = {**folder.describe(concepts, dropped), "unknown_languages": unknown}
    return check_any(assemble(names, columns, retired, concepts.height, report))


make_athena_reader = make_factory("make_athena_reader", read_athena, AthenaSettings)


class _Folder:
    """The files of one download, and counts of what was read."""

    def __init__(self, path: Path, errors: OnMalformed) -> None:
        if not (path / CONCEPT).is_file():
            raise FileNotFoundError(
                f"There is no {CONCEPT} in {path} (seen from {Path.cwd()}). Unpack the download from Athena, and give "
                "the folder."
            )
        self.path, self.errors = path, errors
        self.lines: list[TabLines] = []
        for name, what in GIVES.items():
            if not (path / name).is_file():
                warn(f"{path} has no {name}, so the terminology is without {what}. Copy the file there.")

    def table(self, name: str, where: pl.Expr = ANY) -> pl.DataFrame:
        """Read the rows of a file that meet a condition; none if there is no such file."""
        columns = COLUMNS[name]
        empty = pl.DataFrame(schema=dict.fromkeys(columns, pl.String()))
        if not (self.path / name).is_file():
            return empty
        lines, header = self._open(name)
        self.lines.append(lines)
        blocks = lines.map(lambda data: _check_rows(lines.parse(data, header, columns), lines.path).filter(where))
        rows = pl.concat([empty, *blocks])
        lines.warn()
        return rows

    def list_values(self, name: str, column: str) -> list[str]:
        """List what a column of a file has, the header left out."""
        lines, header = self._open(name)
        blocks = lines.map(lambda data: lines.parse(data, header, [column])[column].unique())
        return sorted({value for block in blocks for value in block} - {column})

    def _open(self, name: str) -> tuple[TabLines, list[str]]:
        path = self.path / name
        header = next((text for _, text in SourceFile(path).lines()), "").split("\t")
        if missing := ", ".join(column for column in COLUMNS[name] if column not in header):
            raise ValueError(
                f"{path} is not Athena's {name}, because it has no column {missing}. Its columns are: "
                f"{', '.join(header)[:200]}. Give the file as it is in the download, with tabs between columns."
            )
        return TabLines([path], len(header), self.errors), header

    def describe(self, concepts: pl.DataFrame, dropped: Counter[str]) -> dict[str, Any]:
        """Report what was read and dropped, and the vocabularies with their versions."""
        rows = {id_: (name, version) for id_, name, version in self.table(VOCABULARY).iter_rows()}
        used = sorted(concepts["vocabulary_id"].unique())
        sources = {id_: Source(*rows.get(id_, (id_, "")))._asdict() for id_ in used if id_}
        _, version = rows.get(RELEASE, ("", None))
        read = {lines.path.name: lines.rows - 1 for lines in self.lines}
        return {**report_files(self.lines, read, dropped), "source_version": version, "sources": sources}


def _check_rows(rows: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Refuse rows whose ids are not numbers, and leave out the header."""
    first = rows.columns[0]
    rows = rows.filter(pl.col(first) != first)
    for column in filter(rows.columns.__contains__, NUMBERS):
        odd = rows.filter(~pl.col(column).str.contains("^[0-9]+$"))
        if odd.height:
            raise ValueError(
                f"{path} has the {column} {odd[column][0]!r:.40}, which is no whole number, in the row "
                f"{odd.row(0)!r:.200}. {AS_HANDED_OUT}"
            )
    return rows


def _read_concepts(folder: _Folder, vocabularies: Strings | None) -> pl.DataFrame:
    """Read the concepts of vocabularies. Most of a download is often in others, which need no memory."""
    condition = ANY if vocabularies is None else pl.col("vocabulary_id").is_in(sorted(vocabularies))
    rows = folder.table(CONCEPT, condition)
    if not set(vocabularies or ()) <= set(rows["vocabulary_id"].unique()):
        listed = folder.list_values(CONCEPT, "vocabulary_id")
        check_values(folder.path / CONCEPT, "vocabulary", vocabularies or (), listed)
    if (repeated := rows["concept_id"].filter(rows["concept_id"].is_duplicated())).len():
        raise ValueError(
            f"{folder.path / CONCEPT} has several rows with the concept_id {repeated[0]}. Two downloads were probably "
            "joined. Give one download, which Athena makes of all the vocabularies that you choose."
        )
    return rows


def _choose(folder: _Folder, valid: pl.DataFrame, settings: AthenaSettings, dropped: Counter[str]) -> pl.DataFrame:
    """Choose the concepts that the settings name."""
    concepts = valid
    if settings.domains is not None:
        check_values(folder.path / CONCEPT, "domain", settings.domains, valid["domain_id"].unique().sort())
        concepts = _keep(concepts, pl.col("domain_id").is_in(sorted(settings.domains)), "domain", dropped)
    if settings.standard_only:
        concepts = _keep(concepts, pl.col("standard_concept") == STANDARD, "not_standard", dropped)
    return concepts


def _keep(rows: pl.DataFrame, condition: pl.Expr, reason: str, dropped: Counter[str]) -> pl.DataFrame:
    rest = rows.filter(condition)
    dropped[reason] += rows.height - rest.height
    return rest


def _list_names(concepts: pl.DataFrame) -> pl.DataFrame:
    return concepts.select(
        id="concept_id",
        name="concept_name",
        language=pl.lit("ENG"),
        source="vocabulary_id",
        term_type="concept_class_id",
        preferred=pl.lit(True),
    )


@cache
def _read_languages() -> dict[str, str]:
    lines = LANGUAGES.read_text(encoding="utf8").splitlines()
    return dict(line.split("\t") for line in lines if not line.startswith("#"))


def _list_synonyms(
    synonyms: pl.DataFrame, concepts: pl.DataFrame, invalid: pl.DataFrame, dropped: Counter[str]
) -> tuple[pl.DataFrame, dict[str, int]]:
    """List the synonyms of concepts in known languages, and count those in other languages by the ids of these."""
    of_valid = synonyms.join(invalid, on="concept_id", how="anti")
    dropped["synonyms_of_invalid_concepts"] = synonyms.height - of_valid.height
    rows = of_valid.join(concepts.select("concept_id", "vocabulary_id"), on="concept_id", how="inner")
    dropped["synonyms_of_other_concepts"] = of_valid.height - rows.height
    languages = _read_languages()
    language = pl.col("language_concept_id")
    is_known = language.is_in(list(languages))
    unknown = rows.filter(~is_known)["language_concept_id"].value_counts(sort=True)
    rows = _keep(rows, is_known, "synonyms_in_unknown_languages", dropped)
    names = rows.select(
        id="concept_id",
        name="concept_synonym_name",
        language=language.replace_strict(languages, return_dtype=pl.String()),
        source="vocabulary_id",
        term_type=pl.lit(""),
        preferred=pl.lit(False),
    )
    # English ones first, as those of CONCEPT.csv.
    return names.sort(pl.col("language") != "ENG", maintain_order=True), dict(unknown.iter_rows())


def _list_parents(relations: pl.DataFrame, concepts: pl.DataFrame, dropped: Counter[str]) -> pl.DataFrame:
    rows = relations.filter(pl.col("relationship_id") == IS_A)
    rows = rows.join(concepts, left_on="concept_id_1", right_on="concept_id", how="semi")
    pairs = rows.join(concepts, left_on="concept_id_2", right_on="concept_id", how="semi", maintain_order="left")
    dropped["parents_that_are_left_out"] = rows.height - pairs.height
    return pairs.select(id="concept_id_1", parents="concept_id_2")


def _write_code() -> pl.Expr:
    return pl.format("{}:{}", "vocabulary_id", "concept_code")


def _list_retired(
    relations: pl.DataFrame,
    invalid: pl.DataFrame,
    concepts: pl.DataFrame,
    valid: pl.DataFrame,
    dropped: Counter[str],
) -> pl.DataFrame:
    """List the ids of concepts that are no longer valid, and their codes if no valid concept has them: with the
    concepts that replaced them, or else those that they map to."""
    rows = relations.filter(pl.col("relationship_id") != IS_A)
    rows = rows.join(concepts, left_on="concept_id_2", right_on="concept_id", how="semi", maintain_order="left")
    kind = pl.col("relationship_id")
    target = pl.col("concept_id_2")
    successors = rows.group_by(concept_id="concept_id_1", maintain_order=True).agg(
        replaced=target.filter(kind == REPLACED_BY), mapped=target.filter(kind == MAPS_TO)
    )
    is_replaced = pl.col("replaced").list.len() > 0
    chosen = successors.select("concept_id", replaced_by=pl.when(is_replaced).then("replaced").otherwise("mapped"))
    listed = invalid.join(chosen, on="concept_id", how="left", maintain_order="left")
    ids = listed.select(id="concept_id", replaced_by=pl.col("replaced_by").fill_null([]))
    coded = listed.filter(pl.col("replaced_by").is_not_null(), pl.col("concept_code") != "")
    own = coded.join(valid, on=["vocabulary_id", "concept_code"], how="anti", maintain_order="left")
    dropped["retired_codes_of_valid_concepts"] = coded.height - own.height
    both = pl.concat([ids, own.select(id=_write_code(), replaced_by="replaced_by")])
    return both.with_columns(consider=pl.lit([], dtype=pl.List(pl.String())))
