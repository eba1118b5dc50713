"""Athena's tables: which concepts of OMOP stand for codes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from ..errors import Errors
from ..terminology.codes import Key

CONCEPT = "CONCEPT.csv"
CONCEPT_RELATIONSHIP = "CONCEPT_RELATIONSHIP.csv"
COLUMNS = {
    CONCEPT: ["concept_id", "vocabulary_id", "concept_code", "standard_concept"],
    CONCEPT_RELATIONSHIP: ["concept_id_1", "concept_id_2", "relationship_id", "invalid_reason"],
}
STANDARD = "S"
MAPS_TO = "Maps to"
# What stands for no reason, in Athena's files and in exports of databases.
VALID = ("", "NULL", "\\N")


class OmopConcept(NamedTuple):
    """A concept of OMOP.

    concept_id (int): Its id.
    standard (tuple[int, ...]): The standard concepts that stand for it: itself if it is one, or those that it maps to.
    """

    concept_id: int
    standard: tuple[int, ...]

    @property
    def is_standard(self) -> bool:
        """Whether it is a standard concept itself."""
        return self.standard == (self.concept_id,)


class AthenaTables:
    """Tables as Athena hands them out, with tabs between columns. They are read when concepts are asked for.

    concepts (Path): CONCEPT.csv.
    relationships (Path | None): CONCEPT_RELATIONSHIP.csv. None maps no concept to another.
    """

    def __init__(self, concepts: Path, relationships: Path | None = None) -> None:
        self._concepts, self._relationships = concepts, relationships

    def find(self, wanted: Iterable[Key]) -> dict[Key, OmopConcept]:
        """Find the concepts of codes.

        wanted (Iterable[Key]): Athena's vocabularies and the codes in them.
        RETURNS (dict[Key, OmopConcept]): By vocabulary and code, those that CONCEPT.csv has. If it has a code twice,
            the concept that is standard counts, or else one that maps to standard ones.
        RAISES (FileNotFoundError): If a file is not there.
        RAISES (ValueError): If it is another file, or cannot be read.
        """
        keys = pl.LazyFrame(
            list(set(wanted)), {"vocabulary_id": pl.String(), "concept_code": pl.String()}, orient="row"
        )
        joined = _scan(self._concepts, CONCEPT).join(keys, on=["vocabulary_id", "concept_code"], how="semi")
        rows = _collect(joined, self._concepts, ["concept_id"])
        mapped = self._map(rows.filter(pl.col("standard_concept").ne_missing(STANDARD))["concept_id"])
        found: dict[Key, OmopConcept] = {}
        for id_, vocabulary, code, standard in rows.sort("concept_id").iter_rows():
            concept = OmopConcept(id_, (id_,) if standard == STANDARD else tuple(sorted(mapped.get(id_, ()))))
            known = found.get((vocabulary, code))
            if known is None or _rank(concept) > _rank(known):
                found[vocabulary, code] = concept
        return found

    def _map(self, ids: pl.Series) -> dict[int, list[int]]:
        """Map concepts to standard ones, by valid relations of the kind "Maps to"."""
        if self._relationships is None:
            return {}
        is_valid = pl.col("invalid_reason").fill_null("").str.strip_chars().is_in(VALID)
        is_mapping = (pl.col("relationship_id") == MAPS_TO) & is_valid
        wanted = pl.col("concept_id_1").is_in(ids.cast(pl.String).implode())
        columns = ["concept_id_1", "concept_id_2"]
        scanned = _scan(self._relationships, CONCEPT_RELATIONSHIP).filter(is_mapping & wanted).select(columns)
        pairs = _collect(scanned.unique(), self._relationships, columns)
        # A file of another release can name concepts that are no longer standard.
        targets = pairs.select(concept_id=pl.col("concept_id_2").cast(pl.String)).unique().lazy()
        standard = _scan(self._concepts, CONCEPT).filter(pl.col("standard_concept") == STANDARD)
        kept = set(
            _collect(standard.join(targets, on="concept_id", how="semi"), self._concepts, ["concept_id"])["concept_id"]
        )
        mapped: dict[int, list[int]] = defaultdict(list)
        for source, target in pairs.iter_rows():
            if target in kept:
                mapped[source].append(target)
        return mapped


def _rank(concept: OmopConcept) -> int:
    return 2 if concept.is_standard else len(concept.standard[:1])


def _scan(path: Path, name: str) -> pl.LazyFrame:
    """Open a table of this name, and check that it has its columns. All values are texts, and nothing is quoted."""
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    table = pl.scan_csv(path, separator="\t", quote_char=None, infer_schema=False)
    try:
        found = table.collect_schema().names()
    except (pl.exceptions.NoDataError, pl.exceptions.ComputeError) as error:
        raise ValueError(Errors.E476.format(path=path, reason=error)) from error
    if missing := ", ".join(column for column in COLUMNS[name] if column not in found):
        raise ValueError(Errors.E474.format(path=path, wanted=name, missing=missing, found=", ".join(found)[:200]))
    return table.select(COLUMNS[name])


def _collect(table: pl.LazyFrame, path: Path, ids: list[str]) -> pl.DataFrame:
    """Read rows, and make numbers of ids."""
    try:
        rows = table.collect(engine="streaming")
    except pl.exceptions.ComputeError as error:
        raise ValueError(Errors.E476.format(path=path, reason=error)) from error
    numbers = rows.with_columns(pl.col(ids).str.strip_chars().cast(pl.Int64, strict=False))
    for column in ids:
        odd = rows.filter(numbers[column].is_null())
        if odd.height:
            reason = f"{odd[column][0]!r} is no {column}, a whole number, in the row {odd.row(0)}"
            raise ValueError(Errors.E476.format(path=path, reason=reason))
    return numbers
