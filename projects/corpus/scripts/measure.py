"""Measure linking a large corpus, made of a small one, by a plain loop, in one process and with actors, each in a
process of its own. One table."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from documents import ENTITIES, Columns, count_blocks, read_blocks

from spacy_sapbert.files import fill_folder
from training.bench import MB, Contestant, describe, take_turns, write_report
from training.markup import format_rows

PACKAGES = ("spacy-sapbert", "spacy", "pyarrow", "ray")
SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string()), ("entities", ENTITIES)])
WORD = re.compile(r"[A-Za-z]{4,}")
# Words to change, as a share of those with four letters; documents of a file and of a row group.
SHARE = 0.1
FILE = 10_000
GROUP = 1_000
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def make(
    source: Annotated[Path, typer.Argument(help="A file of documents with entities")],
    output: Annotated[Path, typer.Argument(help="The folder of Parquet files to write")],
    documents: Annotated[int, typer.Option(help="Documents to make")] = 200_000,
    seed: Annotated[int, typer.Option(help="Seed of the changes")] = 0,
) -> None:
    """Make a corpus, unless the folder has it: its documents again and again, each time with other words changed."""
    if output.exists():
        return
    counts = count_blocks(source, GROUP, Columns())
    rows = [row for block in read_blocks(source, source.name, counts, 0, Columns()) for row in block.to_pylist()]
    texts = make_documents(rows, documents, SHARE, seed)
    with fill_folder(output) as folder:
        for start in range(0, documents, FILE):
            table = pa.Table.from_pylist([next(texts) for _ in range(min(FILE, documents - start))], schema=SCHEMA)
            pq.write_table(table, folder / f"{start // FILE:05d}.parquet", row_group_size=GROUP)


def make_documents(rows: Sequence[dict[str, Any]], n: int, share: float, seed: int) -> Iterator[dict[str, Any]]:
    """Make documents: the given ones first, then with words changed for others of the same length."""
    rng = random.Random(seed)
    words_of: dict[int, set[str]] = defaultdict(set)
    for word in (word for row in rows for word in WORD.findall(row["text"])):
        words_of[len(word)].add(word)
    choices = {length: sorted(words) for length, words in words_of.items()}

    def change(match: re.Match[str]) -> str:
        return rng.choice(choices[len(match[0])]) if rng.random() < share else match[0]

    for number in range(n):
        row = rows[number % len(rows)]
        text = row["text"] if number < len(rows) else WORD.sub(change, row["text"])
        yield {"id": f"{number}", "text": text, "entities": row["entities"] or []}


def plain(given: dict[str, Any]) -> Iterator[Any]:
    """A plain loop over `nlp.pipe`: documents with given entities, from memory, nothing written."""
    import pyarrow.parquet as pq
    import spacy

    rows = [row for path in sorted(Path(given["corpus"]).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    nlp = spacy.load(given["pipeline"])

    def make_docs() -> Iterator[spacy.tokens.Doc]:
        for row in rows:
            doc = nlp.make_doc(row["text"])
            ents = (doc.char_span(e["start"], e["end"], e["label"], alignment_mode="expand") for e in row["entities"])
            doc.ents = spacy.util.filter_spans(ents)
            yield doc

    begin = time.perf_counter()
    processor = time.process_time()
    linked = sum(bool(ent.kb_id_) for doc in nlp.pipe(make_docs(), batch_size=given["block"]) for ent in doc.ents)
    figures = {"seconds": time.perf_counter() - begin, "loop_processor": time.process_time() - processor}
    yield "link", {**figures, "processor": time.process_time(), "linked": linked}


def ours(given: dict[str, Any]) -> Iterator[Any]:
    """The command. Its files tell how long linking takes without imports and loading."""
    from link import main as link

    from training.evaluation.documents import hash_folder

    output = Path(given["output"])
    link(given["pipeline"], Path(given["corpus"]), output, actors=given["actors"], block=given["block"])
    times = sorted(path.stat().st_mtime for path in (output / "mentions").glob("*.parquet"))
    pace = (times[-1] - times[0]) / max(1, len(times) - 1)
    yield (
        "link",
        {"seconds": pace * len(times), "processor": time.process_time(), "digest": hash_folder(output, "*.parquet")},
    )


@app.command("measure")
def main(
    pipeline: Annotated[Path, typer.Argument(help="A saved pipeline")],
    corpus: Annotated[Path, typer.Argument(help="What `make` has made")],
    output: Annotated[Path, typer.Argument(help="The folder of linked corpora and of the report")],
    actors: Annotated[str, typer.Option(help="Numbers of Ray actors, with commas between; 0 is one process")] = "0,1,2",
    block: Annotated[int, typer.Option(help="Documents of a block")] = 1000,
) -> None:
    """Measure, and write report.json and report.md."""
    described = describe(PACKAGES, [corpus], 0)
    shutil.rmtree(output, ignore_errors=True)
    settings = {"pipeline": str(pipeline.resolve()), "corpus": str(corpus.resolve()), "block": block}
    contestants = [Contestant("plain loop", __file__, "plain", settings)]
    # The others are compared with one process.
    for number in sorted({0, *map(int, actors.split(","))}):
        name = f"{number} actors" if number else "one process"
        own = {**settings, "actors": number, "output": str((output / name.replace(" ", "_")).resolve())}
        contestants.append(Contestant(name, __file__, "ours", own))
    # One after the other, with all processors.
    measured = {one.name: take_turns([one]) for one in contestants}
    figures = {name: turns.figures(name) for name, turns in measured.items()}
    loop, one = figures["plain loop"], figures["one process"]
    rows = []
    for name, turns in measured.items():
        own = figures[name]
        wall = turns.median(name, "link")
        # Imports and loading are the same in both.
        more = (own["processor"] - loop["processor"]) / loop["loop_processor"]
        overhead = f"{more:.1%}" if name == "one process" else ""
        same = "" if name == "plain loop" else "yes" if own["digest"] == one["digest"] else "NO"
        seconds = f"{own['seconds']:.1f}"
        speed = f"{loop['seconds'] / own['seconds']:.2f}"
        rows.append([name, f"{wall:.1f}", seconds, speed, overhead, f"{turns.peak(name) / MB:,.0f}", same])
    columns = ["run", "seconds in all", "seconds of linking", "speed", "more processor time", "peak memory, MB"]
    table = format_rows([*columns, "same files"], rows, n_text_columns=1).rstrip("\n")
    facts = ["The memory of actors is not counted, as they are processes of their own."]
    data = {"measured": {name: turns.to_dict() for name, turns in measured.items()}}
    write_report(output / "report", table, facts, described, data)


if __name__ == "__main__":
    app()
