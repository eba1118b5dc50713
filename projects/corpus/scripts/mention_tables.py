"""The tables of a linked block: mentions with their candidates, and documents with errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

CANDIDATE = pa.struct(
    [
        ("id", pa.string()),
        ("concept_id", pa.string()),
        ("name", pa.string()),
        ("canonical_name", pa.string()),
        ("score", pa.float32()),
        ("probability", pa.float32()),
    ]
)
MENTIONS = pa.schema(
    [
        ("document", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("label", pa.string()),
        ("mention", pa.string()),
        ("kb_id", pa.string()),
        ("probability", pa.float32()),
        ("candidates", pa.list_(CANDIDATE)),
        ("pipeline", pa.string()),
    ]
)
ERRORS = pa.schema([("document", pa.string()), ("error", pa.string())])


class Mention(NamedTuple):
    """A linked entity: as in `MENTIONS`, with the candidates as the pipeline gives them."""

    start: int
    end: int
    label: str
    mention: str
    kb_id: str | None
    probability: float | None
    candidates: Sequence[dict[str, Any]]


def make_mentions(mentions: Sequence[tuple[str, Mention]], fingerprint: str) -> pa.Table:
    """Make the table of mentions, column by column, which is several times as fast as row by row.

    mentions (Sequence[tuple[str, Mention]]): The mentions, each with the id of its document.
    fingerprint (str): The fingerprint of the pipeline.
    RETURNS (Table): With the columns of `MENTIONS`.
    """
    columns = list(zip(*(mention for _, mention in mentions), strict=True)) or [()] * len(Mention._fields)
    start, end, label, text, kb_id, probability, candidates = columns
    flat = [candidate for found in candidates for candidate in found]
    offsets = np.cumsum([0, *map(len, candidates)], dtype=np.int32)
    fields = [_make_field(field, flat) for field in CANDIDATE]
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(fields, fields=list(CANDIDATE)))
    values = [[document for document, _ in mentions], start, end, label, text, kb_id, probability]
    arrays = [pa.array(column, field.type) for column, field in zip(values, MENTIONS, strict=False)]
    return pa.Table.from_arrays(
        [*arrays, lists, pa.repeat(fingerprint, len(mentions)).cast(pa.string())], schema=MENTIONS
    )


def _make_field(field: pa.Field, candidates: Sequence[dict[str, Any]]) -> pa.Array:
    # pyarrow makes a field's name anew each time, so it is asked for once.
    name = field.name
    return pa.array([candidate.get(name) for candidate in candidates], field.type)
