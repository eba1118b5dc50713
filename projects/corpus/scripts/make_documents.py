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
    pieces: list[str] = []
    # The new place of each old one; inside of a changed word, its start for starts and its end for ends.
    starts, ends = [*range(len(text) + 1)], [*range(len(text) + 1)]
    done = shift = 0
    for start, end, word in [*changes, (len(text), len(text), "")]:
        pieces += [text[done:start], word]
        for place in range(done, start + 1):
            starts[place] = place + shift
        for place in range(done + 1, start + 1):
            ends[place] = place + shift
        new = start + shift
        for place in range(start + 1, end + 1):
            starts[place], ends[place] = new, new + len(word)
        shift += len(word) - (end - start)
        starts[end] = end + shift
        done = end
    moved = [{**entity, "start": starts[entity["start"]], "end": ends[entity["end"]]} for entity in entities]
    return {"text": "".join(pieces), "entities": moved}


if __name__ == "__main__":
    typer.run(main)
