"""Documents of Parquet files, JSON lines and DocBins, as Arrow tables of a block of documents each."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import spacy
from spacy.tokens import DocBin

ENTITIES = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())]))
# `entities` is null where the pipeline is to find them; `error` says why a document could not be read.
DOCUMENTS = pa.schema(
    [("document", pa.string()), ("text", pa.string()), ("entities", ENTITIES), ("error", pa.string())]
)
PARQUET, DOCBIN = ".parquet", ".spacy"
SUFFIXES = (PARQUET, ".jsonl", ".jsonl.gz", DOCBIN)
# Rows of Parquet in memory at a time.
BATCH = 256
WRONG_TYPE = (pa.ArrowException, UnicodeError, TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class Columns:
    """Where a document's parts stand: columns of Parquet, keys of JSON lines."""

    text: str = "text"
    # Where a file has no ids, "file:number" is the id.
    document: str = "id"
    # Entities with `start` and `end` (characters) and `label`; where a file has none, the pipeline finds them.
    entities: str = "entities"


def count_blocks(path: Path, size: int, columns: Columns) -> list[int]:
    """Count the documents of each block of a file."""
    if path.name.endswith(PARQUET):
        with pq.ParquetFile(path) as file:
            if columns.text not in (names := file.schema_arrow.names):
                listed = ", ".join(names)
                raise ValueError(
                    f"{path} has no column {columns.text!r} with texts. Its columns are: {listed}. Set `text`."
                )
            groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    elif path.name.endswith(DOCBIN):
        groups = [len(DocBin().from_disk(path))]
    else:
        with _open_lines(path) as lines:
            groups = [sum(1 for line in lines if not line.isspace())]
    return [min(size, rows - start) for rows in groups for start in range(0, rows, size)]


def read_blocks(path: Path, name: str, counts: list[int], first: int, columns: Columns) -> Iterator[pa.Table]:
    """Read the blocks of a file, from one of them on."""
    start = sum(counts[:first])
    if path.name.endswith(PARQUET):
        rows = _read_parquet(path, start, columns)
    else:
        rows = _read_docbin(path, start) if path.name.endswith(DOCBIN) else _read_lines(path, start, columns)
    for count in counts[first:]:
        block = list(islice(rows, count))
        if len(block) < count:
            raise EOFError(f"{path} has fewer documents than when the run began")
        yield _make_table(block, name, start)
        start += count


class BlockReader:
    """Reads blocks of files; the next block of the same file is read on from where the last one ended."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._place: tuple[Path | None, int] = None, 0
        self._blocks: Iterator[pa.Table] = iter(())

    def read(self, path: Path, name: str, counts: list[int], number: int) -> pa.Table:
        """Read a block."""
        if self._place != (path, number):
            self._blocks = read_blocks(path, name, counts, number, self._columns)
        # Until the block is read, there is no place to go on from.
        self._place = None, 0
        table = next(self._blocks)
        self._place = path, number + 1
        return table


def _read_parquet(path: Path, start: int, columns: Columns) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        names = {key: column for key, column in vars(columns).items() if column in file.schema_arrow.names}
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if start >= rows:
                start -= rows
                continue
            # In pieces, because a row group may be larger than the memory.
            for batch in file.iter_batches(BATCH, row_groups=[group], columns=[*names.values()]):
                skipped = min(start, batch.num_rows)
                start -= skipped
                for row in batch.slice(skipped).to_pylist():
                    yield {name: row[column] for name, column in names.items()}


def _open_lines(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def _read_lines(path: Path, start: int, columns: Columns) -> Iterator[dict[str, Any]]:
    with _open_lines(path) as lines:
        for line in islice((line for line in lines if not line.isspace()), start, None):
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise TypeError(f"the line holds a {type(row).__name__}, not an object")
            except (ValueError, TypeError, RecursionError) as error:
                yield {"error": f"the line can't be read: {error}"}
            else:
                yield {name: row.get(column) for name, column in vars(columns).items()}


def _read_docbin(path: Path, start: int) -> Iterator[dict[str, Any]]:
    docs = DocBin(store_user_data=True).from_disk(path).get_docs(spacy.blank("xx").vocab)
    for doc in islice(docs, start, None):
        entities = [{"start": ent.start_char, "end": ent.end_char, "label": ent.label_} for ent in doc.ents]
        # Without this annotation, nothing has looked for entities.
        is_known = doc.has_annotation("ENT_IOB")
        name = doc.user_data.get("doc_id")
        yield {"text": doc.text, "document": name, "entities": entities if is_known else None}


def _make_table(rows: list[dict[str, Any]], name: str, start: int) -> pa.Table:
    for number, row in enumerate(rows, start + 1):
        document = row.get("document")
        row["document"] = f"{name}:{number}" if document is None else str(document)
    try:
        return pa.Table.from_pylist(rows, schema=DOCUMENTS)
    except WRONG_TYPE:
        # Only the documents with a wrong type are errors.
        return pa.Table.from_pylist([_check_row(row) for row in rows], schema=DOCUMENTS)


def _check_row(row: dict[str, Any]) -> dict[str, Any]:
    try:
        pa.Table.from_pylist([row], schema=DOCUMENTS)
        return row
    except WRONG_TYPE as error:
        document = row["document"].encode("utf8", "replace").decode()
        return {"document": document, "error": f"its text or its entities are of a wrong type: {error}"}
