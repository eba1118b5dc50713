"""Turn names into atoms: one for each source of a name, with the codes of its concept."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from spacy_sapbert.terminology.readers.rrf import NO_CODE, NO_SOURCE
from spacy_sapbert.terminology.table import SOURCE_SEPARATOR


class Atoms(NamedTuple):
    """The atoms of a terminology, and the codes that fit no atom."""

    table: pl.DataFrame
    """The atoms in order: the used columns of MRCONSO, and the row of the concept."""
    codes: list[tuple[int, str, str]]
    """Concept row, source and code of each code without an atom, in order."""


def make_atoms(concepts: pl.DataFrame, names: pl.DataFrame) -> Atoms:
    """Make the atoms of a terminology."""
    table = (
        names.with_row_index("name_row")
        .with_columns(SAB=pl.col("source").replace("", NO_SOURCE).str.split(SOURCE_SEPARATOR))
        .explode("SAB")
        .with_row_index("atom")
    )
    codes = _place_codes(concepts["codes"], table["concept"], table["SAB"].to_list())
    table = _add_codes(table, codes)
    canonical = concepts["canonical_name"].gather(table["concept"])
    # A canonical name that its source does not prefer gets flags that rank it above other such names.
    shown = (pl.col("name") == canonical) & ~pl.col("preferred")
    table = table.with_columns(
        CUI=concepts["id"].gather(table["concept"]),
        TS=pl.when(shown | pl.col("preferred")).then(pl.lit("P")).otherwise(pl.lit("S")),
        STT=pl.when(shown).then(pl.lit("VO")).otherwise(pl.lit("PF")),
        ISPREF=pl.when(pl.col("name_row").is_first_distinct()).then(pl.lit("Y")).otherwise(pl.lit("N")),
        AUI=number("A", pl.int_range(1, pl.len() + 1)),
        LUI=number("L", pl.struct("language", pl.col("name").str.to_lowercase()).rank("dense")),
        SUI=number("S", pl.struct("language", "name").rank("dense")),
        # Ontologies use the code as the source's identifier of the concept.
        SCUI=pl.when(pl.col("CODE") != NO_CODE).then("CODE").otherwise(pl.lit("")),
    )
    return Atoms(table.rename({"name": "STR", "language": "LAT", "term_type": "TTY"}), codes.rest)


def number(prefix: str, values: pl.Expr) -> pl.Expr:
    """Write numbers as identifiers: the prefix and at least eight digits."""
    return pl.lit(prefix) + values.cast(pl.String()).str.zfill(8)


class _Codes(NamedTuple):
    """The codes of atoms and of repeated atoms (row, code), and those without an atom (concept row, source, code)."""

    placed: list[tuple[int, str]]
    repeated: list[tuple[int, str]]
    rest: list[tuple[int, str, str]]


def _place_codes(lists: pl.Series, concepts: pl.Series, sources: list[str]) -> _Codes:
    """Distribute each concept's codes over its atoms, so that a reader gets them in the same order."""
    result = _Codes([], [], [])
    offsets = concepts.search_sorted(pl.Series(range(len(lists) + 1), dtype=pl.UInt32())).to_list()
    for concept, codes in enumerate(lists.to_list()):
        start, end = offsets[concept : concept + 2]
        if codes:
            _place(concept, codes, start, sources[start:end], result)
    return result


def _place(concept: int, codes: list[str], start: int, sources: list[str], result: _Codes) -> None:
    position = 0
    in_atoms = True
    for whole in codes:
        source, separator, code = whole.partition(":")
        if not source or not code or code == NO_CODE or source == NO_SOURCE:
            source, code = NO_SOURCE, whole
        # Readers take the codes of atoms first, so a code after one without an atom can have no atom either.
        in_atoms = in_atoms and source != NO_SOURCE and source in sources
        if not in_atoms:
            result.rest.append((concept, source, code))
            continue
        found = next((i for i in range(position, len(sources)) if sources[i] == source), None)
        if found is None:
            # More codes than atoms, or another order: repeat the source's first atom after the concept's other atoms.
            position = len(sources)
            result.repeated.append((start + sources.index(source), code))
        else:
            position = found + 1
            result.placed.append((start + found, code))


def _add_codes(table: pl.DataFrame, codes: _Codes) -> pl.DataFrame:
    schema = {"atom": pl.UInt32(), "CODE": pl.String()}
    placed = pl.DataFrame(codes.placed, schema, orient="row")
    repeated = pl.DataFrame(codes.repeated, schema, orient="row")
    # Atoms without a code of their own take the code of the preceding atom of the same source.
    own = table.join(placed, on="atom", how="left", maintain_order="left").with_columns(
        pl.col("CODE").forward_fill().over("concept", "SAB").fill_null(NO_CODE)
    )
    if not repeated.height:
        return own
    again = repeated.join(table, on="atom", how="left", maintain_order="left")
    both = pl.concat([own, again.select(own.columns)])
    return both.sort("concept", maintain_order=True)
