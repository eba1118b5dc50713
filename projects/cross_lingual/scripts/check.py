"""Load the pipeline out of its wheel, and compare its links with those made before packaging."""

import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import srsly
import typer
from sentences import link
from wasabi import msg

TOLERANCE = 1e-4


def main(dist: Path, links: Path) -> None:
    """Compare links."""
    (wheel,) = dist.glob("*.whl")
    expected = list(srsly.read_jsonl(links))
    with TemporaryDirectory() as folder:
        ZipFile(wheel).extractall(folder)
        sys.path.insert(0, folder)
        nlp = import_module(wheel.name.split("-")[0]).load()
        found = link(nlp, [record["text"] for record in expected])
        for record, ents in zip(expected, found, strict=True):
            if not is_same(ents, record["ents"]):
                msg.fail(f"Other links than before packaging in: {record['text']}", exits=1)
    msg.good(f"{len(expected):,} sentences have the same links with the pipeline of {wheel.name}")


def is_same(found: list[dict], wanted: list[dict]) -> bool:
    """Compare the links of one sentence; scores may differ by rounding."""
    if [(ent["text"], ent["id"]) for ent in found] != [(ent["text"], ent["id"]) for ent in wanted]:
        return False
    scores = [[candidate["score"] for ent in ents for candidate in ent["candidates"]] for ents in (found, wanted)]
    return len(scores[0]) == len(scores[1]) and all(
        abs(left - right) < TOLERANCE for left, right in zip(*scores, strict=True)
    )


if __name__ == "__main__":
    typer.run(main)
