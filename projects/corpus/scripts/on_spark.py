"""Linking documents with Spark: a function for `DataFrame.mapInArrow`, which links as the other engines do.

Rows of documents that could not be linked have an `error`, and nothing else but `document`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import spacy
from documents import DOCUMENTS
from linking import LinkingSettings, link_block
from mention_tables import MENTIONS
from spacy.language import Language
from work import find_pipeline, freeze_objects, hash_pipeline

# As Spark writes `MENTIONS`, and `error` beside it.
MENTIONS_DDL = (
    "document string, start bigint, `end` bigint, label string, mention string, kb_id string, probability float, "
    "candidates array<struct<id: string, concept_id: string, name: string, canonical_name: string, score: float, "
    "probability: float>>, pipeline string, error string"
)
_SCHEMA = MENTIONS.append(pa.field("error", pa.string()))


def make_linker(
    pipeline: str, settings: LinkingSettings | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow`. Each Python worker of Spark loads the pipeline once.

    pipeline (str): A saved pipeline that all machines see at this path, or the name of an installed package.
    settings (LinkingSettings | None): What is linked, and what is written.
    RETURNS (Callable): From batches with the columns `document`, `text` and perhaps `entities` to batches of mentions
        and errors. Each batch is a block: `spark.sql.execution.arrow.maxRecordsPerBatch` is the number of documents.
    """

    def link(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nlp, fingerprint = _load(pipeline)
        for batch in batches:
            linked = link_block(nlp, _complete(pa.Table.from_batches([batch])), fingerprint, settings)
            errors = pa.Table.from_pylist(linked.errors.to_pylist(), schema=_SCHEMA)
            mentions = linked.mentions.append_column("error", pa.nulls(linked.mentions.num_rows, pa.string()))
            yield from pa.concat_tables([mentions.cast(_SCHEMA), errors]).combine_chunks().to_batches()

    return link


@lru_cache(maxsize=1)
def _load(pipeline: str) -> tuple[Language, str]:
    folder: Path = find_pipeline(pipeline)
    loaded = spacy.load(folder), hash_pipeline(folder)
    freeze_objects()
    return loaded


def _complete(table: pa.Table) -> pa.Table:
    """Add the columns that a frame lacks, and bring the others to the types of `DOCUMENTS`."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in DOCUMENTS
    ]
    return pa.Table.from_arrays(columns, schema=DOCUMENTS)
