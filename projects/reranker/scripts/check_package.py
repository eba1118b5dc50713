"""Load the packaged pipeline out of its wheel, offline, and compare its decisions with those of the pipeline."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import spacy
import typer
from spacy.language import Language
from wasabi import msg

from training.evaluation.documents import DocumentTask, link_documents

# Another processor may round the last digits of a probability in another way.
DIGITS = 5


def main(pipeline: str, documents: Path, output: Path, packages: Path) -> None:
    """Compare the newest wheel of the output folder of `spacy package`. It is unpacked to `output`."""
    # Nothing is fetched.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    wheel = max(packages.glob("*/dist/*.whl"), key=lambda path: path.stat().st_mtime)
    ZipFile(wheel).extractall(output)
    sys.path.insert(0, str(output.absolute()))
    name = wheel.name.partition("-")[0]
    decided, expected = (list_decisions(nlp, documents) for nlp in (import_module(name).load(), spacy.load(pipeline)))
    if decided != expected:
        first = next(pair for pair in zip(expected, decided, strict=True) if pair[0] != pair[1])
        msg.fail(f"The package decides otherwise; the first difference: {first[0]} and {first[1]}.", exits=1)
    msg.good(f"The package {name} makes the same {len(decided):,} decisions offline.")


def list_decisions(nlp: Language, documents: Path) -> list[list[str]]:
    """List document, mention, id, and the candidates with their probabilities."""
    decisions = []
    for mention in link_documents(nlp, DocumentTask("documents", documents).read()):
        candidates = [
            f"{found['id']} {found.get('probability') or found['score']:.{DIGITS}f}" for found in mention.found
        ]
        decisions.append([mention.doc_id, mention.text, mention.kb_id, *candidates])
    return decisions


if __name__ == "__main__":
    typer.run(main)
