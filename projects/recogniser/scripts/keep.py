"""Keep a trained recogniser in a folder, with a card: what it finds, what it learned from, and how well it does."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import spacy
import srsly
from spacy.cli.package import generate_readme
from spacy.language import Language

from spacy_sapbert.files import fill_folder, hash_file


def describe(nlp: Language, card: dict[str, Any], documents: Path, version: str) -> None:
    """Complete the meta by what a file says of the recogniser."""
    nlp.meta["performance"].pop("ner_loss", None)
    # Where the documents were on the machine that it was trained on.
    nlp.config["paths"] = dict.fromkeys(nlp.config["paths"])
    notes = f"{card['notes']}\n\nSHA-256 of the training documents: `{hash_file(documents)}`."
    nlp.meta |= {**card, "version": version, "notes": notes}


def main() -> None:
    """Write the folder, all or nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a trained pipeline")
    parser.add_argument("output", type=Path)
    parser.add_argument("documents", type=Path, help="the documents that it was trained on")
    parser.add_argument("--card", type=Path, required=True, help="*.json with name, description, sources and notes")
    parser.add_argument("--version", default="0.1.0")
    args = parser.parse_args()
    nlp = spacy.load(args.model)
    describe(nlp, srsly.read_json(args.card), args.documents, args.version)
    with fill_folder(args.output, last="meta.json", parts=["*"]) as folder:
        # Words that it has seen are not needed.
        nlp.to_disk(folder, exclude=["vocab"])
        (folder / "README.md").write_text(generate_readme(nlp.meta), encoding="utf8")
    size = sum(path.stat().st_size for path in args.output.rglob("*") if path.is_file())
    print(f"{args.output}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
