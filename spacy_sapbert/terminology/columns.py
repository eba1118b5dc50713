"""The columns of a terminology's two tables, and what has to hold for them."""

import polars as pl

from ..errors import Errors

CONCEPT_SCHEMA = pl.Schema(
    {
        "id": pl.String(),
        "canonical_name": pl.String(),
        "types": pl.List(pl.String()),
        "definition": pl.String(),
        "codes": pl.List(pl.String()),
        "parents": pl.List(pl.String()),
    }
)
# Language, source and term type are plain strings: Categorical and Enum columns are not mapped from a file
# without a copy, and an Enum refuses comparison with a value that it does not hold.
NAME_SCHEMA = pl.Schema(
    {
        "name": pl.String(),
        "concept": pl.UInt32(),
        "language": pl.String(),
        "source": pl.String(),
        "term_type": pl.String(),
        "preferred": pl.Boolean(),
    }
)
# The key of a name: a concept has each name once in each language.
NAME_KEY = ("concept", "name", "language")
# Separates the sources of a name. No abbreviation of a source contains it.
SOURCE_SEPARATOR = "|"


def check_tables(concepts: pl.DataFrame, names: pl.DataFrame) -> None:
    """Refuse inconsistent tables, which would silently give wrong results.

    concepts (pl.DataFrame): The concepts.
    names (pl.DataFrame): The names.
    RAISES (ValueError): If columns, order or rows are not as they have to be.
    """
    for frame, schema, what in ((concepts, CONCEPT_SCHEMA, "concepts"), (names, NAME_SCHEMA, "names")):
        if frame.schema != schema:
            raise ValueError(Errors.E115.format(reason=f"the columns of {what} are {dict(frame.schema)}"))
        nulls = [c for c in frame.columns if c != "definition" and frame[c].null_count()]
        if nulls:
            raise ValueError(Errors.E115.format(reason=f"{what} have missing values in {', '.join(nulls)}"))
    ids = concepts["id"]
    if not (ids.slice(1) > ids.slice(0, max(0, len(ids) - 1))).all():
        raise ValueError(Errors.E115.format(reason="concepts are not sorted by id, or ids repeat"))
    rows = names["concept"]
    if not rows.is_sorted() or (len(rows) and rows[-1] >= len(ids)):
        raise ValueError(Errors.E115.format(reason="names are not sorted by concept row, or the concept is missing"))
