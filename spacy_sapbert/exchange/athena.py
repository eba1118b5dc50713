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


class OmopConcept(NamedTuple):
    """A concept of OMOP.

    concept_id (int): Its id.
    standard (tuple[int, ...]): The standard concepts that stand for it: itself if it is one, or those that it maps to.
    """

    concept_id: int
    standard: tuple[int, ...]


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
        RETURNS (dict[Key, OmopConcept]): By vocabulary and code, those that CONCEPT.csv has.
        RAISES (FileNotFoundError): If a file is not there.
        RAISES (ValueError): If it is another file.
        """
        table = _scan(self._concepts, CONCEPT)
        keys = pl.LazyFrame(
            list(set(wanted)), {"vocabulary_id": pl.String(), "concept_code": pl.String()}, orient="row"
        )
        rows = table.join(keys, on=["vocabulary_id", "concept_code"], how="semi").collect(engine="streaming")
        others = rows.filter(pl.col("standard_concept").ne_missing(STANDARD))
        mapped = self._map(others["concept_id"])
        return {
            (vocabulary, code): OmopConcept(
                int(id_), (int(id_),) if standard == STANDARD else tuple(sorted(mapped.get(id_, ())))
            )
            for id_, vocabulary, code, standard in rows.iter_rows()
        }

    def _map(self, ids: pl.Series) -> dict[str, list[int]]:
        """Map concepts to standard ones, by valid relations of the kind "Maps to"."""
        if self._relationships is None:
            return {}
        is_mapping = (pl.col("relationship_id") == MAPS_TO) & (pl.col("invalid_reason").fill_null("") == "")
        pairs = (
            _scan(self._relationships, CONCEPT_RELATIONSHIP)
            .filter(is_mapping & pl.col("concept_id_1").is_in(ids.implode()))
            .select("concept_id_1", "concept_id_2")
            .unique()
            .collect(engine="streaming")
        )
        # A file of another release can name concepts that are no longer standard.
        standard = _scan(self._concepts, CONCEPT).filter(pl.col("standard_concept") == STANDARD)
        targets = pairs.lazy().join(standard, left_on="concept_id_2", right_on="concept_id", how="semi")
        mapped: dict[str, list[int]] = defaultdict(list)
        for source, target in targets.collect(engine="streaming").iter_rows():
            mapped[source].append(int(target))
        return mapped


def _scan(path: Path, name: str) -> pl.LazyFrame:
    """Open a table of this name, and check that it has its columns. All values are texts, and nothing is quoted."""
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    table = pl.scan_csv(path, separator="\t", quote_char=None, infer_schema=False)
    found = table.collect_schema().names()
    if missing := ", ".join(column for column in COLUMNS[name] if column not in found):
        raise ValueError(Errors.E474.format(path=path, wanted=name, missing=missing, found=", ".join(found)[:200]))
    return table.select(COLUMNS[name])
