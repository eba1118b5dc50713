"""Make the pictures of the docs: the page on a desktop and on a phone.

Needs Playwright, Chromium and Pillow beside the requirements of the service.
"""

import shutil
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import spacy
import typer
import uvicorn
from limits import ServiceSettings
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from serve import make_app

SIZES = {"desktop": (1120, 720), "phone": (390, 844)}


def main(pipeline: Path, output: Path) -> None:
    """Draw with a pipeline of `make_pipeline.py`; write page_desktop.png and page_phone.png."""
    nlp = spacy.load(pipeline)
    nlp.add_pipe("note_context")
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = make_app(nlp, ServiceSettings(gold=f"{folder}/gold.jsonl"))
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        threading.Thread(target=server.run, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        while not server.started:
            time.sleep(0.1)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        for name, (width, height) in SIZES.items():
            path = output / f"page_{name}.png"
            correct(open_page(browser, address, width, height)).screenshot(path=path)
            # A palette takes a third of the bytes.
            Image.open(path).quantize(128).save(path, optimize=True)
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
