"""Install the packaged pipeline to a folder, load it offline in a process of its own, and compare its decisions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import spacy
import srsly
import typer
from wasabi import msg

from training.evaluation.documents import DocumentTask, link_documents

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
# Another processor may round the last digits of a probability in another way.
DIGITS = 5


def main(
    pipeline: str,
    documents: Path,
    output: Path,
    packages: Annotated[str, typer.Option(help="Output folder of `spacy package`; empty to only write decisions")] = "",
) -> None:
    """Write the decisions of a pipeline, and compare them with those of the package."""
    if not packages:
        srsly.write_json(output, list_decisions(pipeline, documents))
        return
    # The newest, where there are several versions.
    wheel = max(Path(packages).glob("*/dist/*.whl"), key=lambda path: path.stat().st_mtime)
    install = ["pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade"]
    subprocess.run([sys.executable, "-m", *install, "--target", str(output), str(wheel)], check=True)
    name, found = wheel.name.partition("-")[0], output / "decisions.json"
    command = [sys.executable, __file__, name, str(documents), str(found)]
    # The package comes from its new folder, and nothing is fetched.
    paths = os.pathsep.join([str(output.absolute()), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, check=True, env={**os.environ, **OFFLINE, "PYTHONPATH": paths})
    expected, decided = list_decisions(pipeline, documents), srsly.read_json(found)
    if decided != expected:
        first = next(pair for pair in zip(expected, decided, strict=True) if pair[0] != pair[1])
        msg.fail(f"The package decides otherwise; the first difference: {first[0]} and {first[1]}.", exits=1)
    msg.good(f"The package {name} makes the same {len(decided):,} decisions offline.")


def list_decisions(pipeline: str, documents: Path) -> list[list[str]]:
    """List document, mention, id, and the candidates with their probabilities."""
    linked = link_documents(spacy.load(pipeline), DocumentTask("documents", documents).read())
    decisions = []
    for mention in linked:
        candidates = [f"{found.id} {found.probability or found.score:.{DIGITS}f}" for found in mention.found]
        decisions.append([mention.doc_id, mention.text, mention.kb_id, *candidates])
    return decisions


if __name__ == "__main__":
    typer.run(main)
