"""Check whether a terminology can be written in Rich Release Format, and replace characters that cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import polars as pl

from spacy_sapbert.terminology.names import normalize_names
from spacy_sapbert.terminology.readers.rrf import NO_SOURCE, NOT_IN_ID, WHITE_SPACE
from spacy_sapbert.terminology.table import NAME_KEY

# A pipe ends a field and a line end ends a row; the format cannot escape either.
BREAKS = r"[|\n\r]"
_TEXTS = {"concepts": ("canonical_name", "definition", "codes"), "names": ("name", "term_type")}


def replace_unwritable(
    concepts: pl.DataFrame, names: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, int]]:
    """Normalize names, replace pipes by "/" and line ends by a space in texts, and count the texts by column.

    Ids, languages, sources and types stay as they are.
    """
    counts = {}
    frames = {"concepts": concepts, "names": names}
    for what, columns in _TEXTS.items():
        for column in columns:
            frame = frames[what]
            n = sum(1 for _ in _find(frame, column, BREAKS))
            if n:
                counts[column] = n
                is_list = isinstance(frame.schema[column], pl.List)
                mended = pl.col(column).list.eval(_mend(pl.element())) if is_list else _mend(pl.col(column))
                frames[what] = frame.with_columns(mended)
    for what, column in (("concepts", "canonical_name"), ("names", "name")):
        frames[what] = frames[what].with_columns(normalize_names(frames[what][column]))
    # Replacing may have made names equal.
    return frames["concepts"], frames["names"].unique(NAME_KEY, keep="first", maintain_order=True), counts


def refuse(reason: str, n: int, example: object) -> NoReturn:
    """Refuse a terminology that would be another one when it is read back."""
    raise ValueError(
        f"This terminology can't be written in Rich Release Format: {n} {reason}, the first being {example}. Reading "
        "it back would give another one. Correct it where it is made: TerminologyBuilder keeps languages and sources "
        "as they are given."
    )


def check_writable(concepts: pl.DataFrame, names: pl.DataFrame) -> None:
    """Refuse a terminology that would change by being written and read back."""
    ids = concepts["id"]
    for what, frame in (("concepts", concepts), ("names", names)):
        for column in frame.columns:
            if column in ("concept", "preferred"):
                continue
            # In the column of sources, a pipe separates several.
            broken = next(_find(frame, column, r"[\n\r]" if column == "source" else BREAKS), None)
            if broken is not None:
                row, value = broken
                owner = ids[row] if what == "concepts" else ids[names["concept"][row]]
                raise ValueError(
                    f"The {column} {value!r:.80} of the concept '{owner}' can't be written in Rich Release Format: "
                    "fields end at '|' and rows at a line end. Correct it in the source, or choose `unwritable` "
                    "'replace', which replaces both in texts (not in ids, languages, sources and types)."
                )
    for reason, faulty in _faults(concepts, names):
        if faulty.height:
            refuse(reason, faulty.height, faulty.row(0))


def _faults(concepts: pl.DataFrame, names: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    row = pl.int_range(pl.len(), dtype=pl.UInt32())
    yield "concepts have no name", concepts.filter(~row.is_in(names["concept"].unique().implode())).select("id")
    bad = (pl.col("id") == "") | pl.col("id").str.contains(NOT_IN_ID)
    yield "ids are empty or hold white space or a control character", concepts.filter(bad).select("id")
    bom = pl.col("id").str.starts_with("\ufeff")
    yield "ids begin with a byte order mark, which readers remove from a file", concepts.filter(bom).select("id")
    yield "names have an empty language", names.filter(pl.col("language") == "")
    for column, frame in (("name", names), ("definition", concepts)):
        blank = (pl.col(column) != pl.col(column).str.strip_chars(WHITE_SPACE)) | (pl.col(column) == "")
        yield f"texts ({column}) are empty or have white space around them", frame.filter(blank)
    for column, frame in (("name", names), ("canonical_name", concepts)):
        changes = frame[column] != normalize_names(frame[column])
        yield f"texts ({column}) are not normalized, as readers would (see `normalize_name`)", frame.filter(changes)
    for column in ("types", "codes", "parents"):
        several = (pl.col(column).list.n_unique() < pl.col(column).list.len()) | pl.col(column).list.contains("")
        yield f"lists of {column} hold an empty text, or the same twice", concepts.filter(several).select("id", column)
    itself = pl.col("parents").list.contains(pl.col("id"))
    yield "concepts are parents of themselves", concepts.filter(itself).select("id", "parents")
    yield "names occur twice in the same concept and language", names.filter(pl.struct(NAME_KEY).is_duplicated())
    labels = names.select(pl.col("source").unique(maintain_order=True)).with_columns(
        part=pl.col("source").str.split("|")
    )
    several = pl.col("part").list.len() > 1
    empty = several & pl.col("part").list.contains("")
    repeated = pl.col("part").list.n_unique() < pl.col("part").list.len()
    yield "sources joined by '|' have an empty part or the same part twice", labels.filter(empty | repeated)
    reserved = pl.col("part").list.contains(NO_SOURCE)
    yield f"names have the source {NO_SOURCE}, which marks names without a source", labels.filter(reserved)


def _find(frame: pl.DataFrame, column: str, pattern: str) -> Iterator[tuple[int, str]]:
    """Find the texts of a column that match a pattern, with their rows."""
    texts = frame.select(column).with_row_index("row")
    if isinstance(texts.schema[column], pl.List):
        texts = texts.explode(column)
    yield from texts.filter(pl.col(column).str.contains(pattern)).rows()


def _mend(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all("|", "/", literal=True).str.replace_all(r"\s*[\n\r]+\s*", " ")
