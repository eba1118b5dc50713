"""Write the terminology in Rich Release Format, and beside it what is to be said of its sources."""

from pathlib import Path
from typing import Any

import typer
from wasabi import msg, table

from spacy_sapbert.terminology import Terminology, write_rrf

NOTE = """# Sources

{concepts:,} concepts and {names:,} names of the following ontologies, joined by equal ids and by cross-references.
Whoever passes them on, or something made of them, has to keep to each licence and to name each source with its version.

"""


def main(terminology: Path, output: Path) -> None:
    """Write a terminology.

    terminology (Path): The saved terminology.
    output (Path): The folder for the files.
    """
    merged = Terminology.from_disk(terminology)
    report = write_rrf(merged, output, unwritable="replace")
    (output / "SOURCES.md").write_text(describe_sources(merged), encoding="utf8")
    rows = [(f"{name}.RRF", f"{n:,}") for name, n in report["rows"].items()]
    print(table(rows, header=("File", "Rows"), divider=True, aligns=("l", "r")))
    if report["dangling_parents"]:
        msg.info(f"{report['dangling_parents']:,} parents are of ontologies that were not read, and are left out")
    for column, n in report["replaced"].items():
        msg.info(f"{n:,} × {column}: '|' was replaced by '/', or a line end by a space")
    msg.good(f"RRF in {output}")


def describe_sources(terminology: Terminology) -> str:
    """List the sources with version and licence.

    terminology (Terminology): The merged terminology.
    RETURNS (str): Markdown.
    """
    sources: dict[str, dict[str, Any]] = terminology.report["sources"]
    lines = [
        f"- **{key}**: {source['name']}, version {source['version'] or 'unknown'}. {source['licence']}. "
        f"{source['homepage']}"
        for key, source in sources.items()
    ]
    return NOTE.format(concepts=len(terminology), names=terminology.n_names) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
