"""Write the terminology in Rich Release Format, and beside it what is to be said of its sources."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import srsly
import typer
from wasabi import msg, table

from spacy_sapbert.terminology import Terminology
from training.release.rrf import Relation, write_rrf

NOTE = """# Sources

{concepts:,} concepts and {names:,} names of the following ontologies, joined by equal ids and by cross-references.
Whoever passes them on, or something made of them, has to keep to each licence and to name each source with its version.

"""


def main(terminologies: Path, terminology: Path, output: Path) -> None:
    """Write a terminology."""
    merged = Terminology.from_disk(terminology)
    relations = list(list_relations(terminologies, merged))
    report = write_rrf(merged, output, unwritable="replace", relations=relations)
    (output / "SOURCES.md").write_text(describe_sources(merged), encoding="utf8")
    rows = [(f"{name}.RRF", f"{n:,}") for name, n in report["rows"].items()]
    print(table(rows, header=("File", "Rows"), divider=True, aligns=("l", "r")))
    if report["dangling_parents"]:
        msg.info(f"{report['dangling_parents']:,} parents are of ontologies that were not read, and are left out")
    if n := report["dangling_relations"]:
        msg.info(f"{n:,} relations have a term that has no concept of its own, and are left out")
    for column, n in report["replaced"].items():
        msg.info(f"{n:,} × {column}: '|' was replaced by '/', or a line end by a space")
    msg.good(f"RRF in {output}")


def list_relations(terminologies: Path, merged: Terminology) -> Iterator[Relation]:
    """List the relations of all ontologies, between concepts of the merged terminology. A term that several concepts
    have as a code, and none as its id, keeps its own id, which no concept has."""
    concepts: dict[str, set[str]] = {}
    for id_, codes in merged.concepts.select("id", "codes").iter_rows():
        for code in codes:
            concepts.setdefault(code, set()).add(id_)
    known = set(merged.concepts["id"])

    def find(term: str) -> str:
        found = {term} if term in known else concepts.get(term, set())
        return next(iter(found)) if len(found) == 1 else term

    for source in srsly.read_json(terminologies / "report.json")["read"]:
        for head, label, tail in srsly.read_jsonl(terminologies / f"{source}_relations.jsonl"):
            yield Relation(find(head), label, find(tail), source)


def describe_sources(terminology: Terminology) -> str:
    """List the sources with version and licence."""
    sources: dict[str, dict[str, Any]] = terminology.report["sources"]
    lines = [
        f"- **{key}**: {source['name']}, version {source['version'] or 'unknown'}. {source['licence']}. "
        f"{source['homepage']}"
        for key, source in sources.items()
    ]
    return NOTE.format(concepts=len(terminology), names=terminology.n_names) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
