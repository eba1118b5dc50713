"""Merge the terminologies into one, and show which cross-references were used and which were not."""

from pathlib import Path

import srsly
import typer
from wasabi import msg, table

from spacy_sapbert.terminology import Terminology, merge

EXAMPLES = 3


def main(terminologies: Path, output: Path) -> None:
    """Merge terminologies."""
    sources = srsly.read_json(terminologies / "report.json")["read"]
    merged = merge(Terminology.from_disk(terminologies / source) for source in sources)
    merged.to_disk(output)
    report = merged.report
    rows = [
        *((f"concepts of {s}", f"{r['concepts']:,}") for s, r in zip(sources, report["merged_from"], strict=True)),
        ("joined by the same id", f"{report['concepts_with_equal_ids']:,}"),
        ("joined by a cross-reference", f"{report['links']['used']:,}"),
        ("of these, chosen by name", f"{report['links']['used_by_name']:,}"),
        ("concepts of all", f"{len(merged):,}"),
        ("names of all", f"{merged.n_names:,}"),
    ]
    print(table(rows, header=("What", "Number"), divider=True, aligns=("l", "r")))
    for reason, n in report["links"]["refused"].items():
        examples = "; ".join(report["links"]["refused_examples"][reason][:EXAMPLES])
        msg.info(f"{n:,} cross-references not used, {reason.replace('_', ' ')}: {examples}")
    msg.good(f"Terminology in {output}")


if __name__ == "__main__":
    typer.run(main)
