"""A large corpus, made of a small one: its documents again and again, each time with other words changed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from documents import ENTITIES, Columns, count_blocks, read_blocks

from spacy_sapbert.progress import show_progress

SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string()), ("entities", ENTITIES)])
WORD = re.compile(r"[A-Za-z]{4,}")
FILE, GROUP = 10_000, 1_000


def main(
    source: Annotated[Path, typer.Argument(help="A file of documents with entities")],
    output: Annotated[Path, typer.Argument(help="The folder of Parquet files to write")],
    documents: Annotated[int, typer.Option(help="Documents to make")] = 200_000,
    share: Annotated[float, typer.Option(help="Words to change, as a share of those with four letters")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of the changes")] = 0,
) -> None:
    """Make a corpus, unless the folder has it."""
    if output.exists():
        return
    counts = count_blocks(source, GROUP, Columns())
    rows = [row for block in read_blocks(source, source.name, counts, 0, Columns()) for row in block.to_pylist()]
    part = output.with_name(output.name + ".part")
    part.mkdir(parents=True, exist_ok=True)
    made = make_documents(rows, documents, share, seed)
    with show_progress(description="Making documents", total=documents, unit="documents") as progress:
        for start in range(0, documents, FILE):
            table = pa.Table.from_pylist([next(made) for _ in range(min(FILE, documents - start))], schema=SCHEMA)
            pq.write_table(table, part / f"{start // FILE:05d}.parquet", row_group_size=GROUP)
            progress.update(table.num_rows)
    part.rename(output)


def make_documents(rows: Sequence[dict[str, Any]], n: int, share: float, seed: int) -> Iterator[dict[str, Any]]:
    """Make documents."""
    rng = random.Random(seed)
    words = sorted({word for row in rows for word in WORD.findall(row["text"])})
    for number in range(n):
        row = rows[number % len(rows)]
        changes = [
            (match.start(), match.end(), rng.choice(words))
            for match in WORD.finditer(row["text"])
            if number >= len(rows) and rng.random() < share
        ]
        yield {"id": f"{number}", **change_words(row["text"], row["entities"] or [], changes)}


def change_words(
    text: str, entities: Sequence[dict[str, Any]], changes: Sequence[tuple[int, int, str]]
) -> dict[str, Any]:
    """Change words of a text, and move its entities accordingly."""

    def move(place: int, *, is_end: bool) -> int:
        # Inside of a changed word, a start moves to the word's start, and an end to its end.
        shift = 0
        for start, end, word in changes:
            if start < place < end:
                return start + shift + len(word) * is_end
            if end <= place:
                shift += len(word) - (end - start)
        return place + shift

    ends = [0, *(end for _, end, _ in changes)]
    kept = [text[end:start] for end, (start, _, _) in zip(ends, changes, strict=False)]
    pieces = [piece for before, (_, _, word) in zip(kept, changes, strict=True) for piece in (before, word)]
    moved = [
        {**one, "start": move(one["start"], is_end=False), "end": move(one["end"], is_end=True)} for one in entities
    ]
    return {"text": "".join([*pieces, text[ends[-1] :]]), "entities": moved}


if __name__ == "__main__":
    typer.run(main)
