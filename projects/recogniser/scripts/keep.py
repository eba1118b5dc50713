"""Keep a trained recogniser in a folder, with a card: what it finds, what it learned from, and how well it does."""

from __future__ import annotations

import argparse
from pathlib import Path

import spacy
from spacy.cli.package import generate_readme
from spacy.language import Language

from spacy_sapbert.files import fill_folder, hash_file

DESCRIPTION = (
    "Proposes disorders and findings in English notes, reports, messages and conversations, for `terminology_matcher` "
    "and `sapbert_linker` behind it. Not for clinical use."
)
AUTHORS = "The spacy-sapbert authors"
SOURCES = [
    {
        "name": "701 invented notes, reports, messages and conversations, written and annotated with a language model",
        "url": "",
        "author": AUTHORS,
        "license": "MIT",
    },
    {
        "name": "ACI-BENCH (48 texts of its training part), annotated for this",
        "url": "https://github.com/wyim/aci-bench",
        "author": "Yim et al. 2023",
        "license": "CC BY 4.0",
    },
    {
        "name": "MTS-Dialog (101 texts of its training part), annotated for this",
        "url": "https://github.com/abachaa/MTS-Dialog",
        "author": "Ben Abacha et al. 2023",
        "license": "CC BY 4.0",
    },
]
NOTES = (
    "Words are seen as the encoder bundled with spacy-sapbert sees them, whose table is not in this package "
    "(`spacy-sapbert.NameEmbed.v1`). One reader annotated the mentions, another one read them again. In texts like "
    "these, boundaries are right for six of ten mentions, and nine of ten are touched. Much of what it proposes beside "
    'names is none, so put the matcher behind it, with `proposed_labels = ["FINDING"]`.'
)


def describe(nlp: Language, documents: Path, version: str) -> None:
    """Complete the meta."""
    nlp.meta["performance"].pop("ner_loss", None)
    # Where the documents were on the machine that it was trained on.
    nlp.config["paths"] = dict.fromkeys(nlp.config["paths"])
    nlp.meta |= {
        "name": "finding_recogniser",
        "version": version,
        "description": DESCRIPTION,
        "author": AUTHORS,
        "license": "CC BY 4.0",
        "sources": SOURCES,
        "notes": f"{NOTES}\n\nSHA-256 of the training documents: `{hash_file(documents)}`.",
    }


def main() -> None:
    """Write the folder, all or nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a trained pipeline")
    parser.add_argument("output", type=Path)
    parser.add_argument("documents", type=Path, help="the documents that it was trained on")
    parser.add_argument("--version", default="0.1.0")
    args = parser.parse_args()
    nlp = spacy.load(args.model)
    describe(nlp, args.documents, args.version)
    with fill_folder(args.output, last="meta.json", parts=["*"]) as folder:
        nlp.to_disk(folder)
        (folder / "README.md").write_text(generate_readme(nlp.meta), encoding="utf8")
    size = sum(path.stat().st_size for path in args.output.rglob("*") if path.is_file())
    print(f"{args.output}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
