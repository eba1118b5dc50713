"""Make the pictures of the docs: the page on a desktop and on a phone, and a linked text drawn by displaCy.

Needs Playwright, Chromium and negspacy beside the requirements of the service.
"""

import shutil
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import negspacy.negation  # noqa: F401, registers "negex"
import spacy
import typer
import uvicorn
from limits import ServiceSettings
from playwright.sync_api import Browser, Page, sync_playwright
from serve import make_app
from spacy.util import import_file

DRAWING = Path(__file__).parents[2] / "demo" / "scripts" / "link.py"

TEXT = (
    "The girl has a racing heart, frequent infections of the ear and a low platelet count (LPC). Her LPC rose in May, "
    "but she still has puffy eyes, weak muscles and trouble breathing at night."
)
STYLE = "body { margin: 0; padding: .5rem 1rem; font: 18px sans-serif }"
SIZES = {"desktop": (1120, 720), "phone": (390, 844)}


def main(pipeline: Path, output: Path) -> None:
    """Draw with a pipeline of `make_pipeline.py`; write linked.png, page_desktop.png and page_phone.png."""
    nlp = spacy.load(pipeline)
    nlp.add_pipe("sentencizer", first=True)
    nlp.add_pipe("negex", last=True)
    linked = import_file("link", DRAWING).draw(nlp(TEXT))
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = make_app(nlp, ServiceSettings(gold=f"{folder}/gold.jsonl"))
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        threading.Thread(target=server.run, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": 1000, "height": 100})
        page.set_content(f"<!doctype html><style>{STYLE}</style>{linked}")
        page.screenshot(path=output / "linked.png", full_page=True)
        while not server.started:
            page.wait_for_timeout(100)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        for name, (width, height) in SIZES.items():
            correct(open_page(browser, address, width, height)).screenshot(path=output / f"page_{name}.png")
        server.should_exit = True


def open_page(browser: Browser, address: str, width: int, height: int) -> Page:
    """Open the page at a size, with its own text linked."""
    page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
    page.goto(address)
    page.wait_for_selector("#linked .mention")
    return page


def correct(page: Page) -> Page:
    """Confirm a mention and open another one, as a user would."""
    page.locator("#linked .mention", has_text="headaches").click()
    page.click(".chosen .main")
    page.locator("#linked .mention", has_text="puffy eyes").click()
    page.locator(".chosen strong", has_text="Periorbital fullness").wait_for()
    return page


if __name__ == "__main__":
    typer.run(main)
