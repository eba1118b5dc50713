"""Open the page in a browser without a window, use it, and save pictures of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from server import serve

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
# In one process, because containers often lack what a browser needs for several.
OPTIONS = ["--no-sandbox", "--no-zygote", "--single-process", "--disable-gpu", "--hide-scrollbars"]


def main(pipeline: str, output: Path, browser: str = "chromium") -> None:
    """Save a picture for each size.

    pipeline (str): The pipeline to serve.
    output (Path): The folder for desktop.png and phone.png.
    browser (str): A Chromium or Chrome.
    """
    from playwright.sync_api import sync_playwright

    output.mkdir(parents=True, exist_ok=True)
    for name, (width, height) in SIZES.items():
        gold = output / f"{name}.jsonl"
        gold.unlink(missing_ok=True)
        with serve(pipeline, "--gold", str(gold)) as address, sync_playwright() as playwright:
            opened = playwright.chromium.launch(executable_path=browser, args=OPTIONS)
            page = opened.new_page(viewport={"width": width, "height": height})
            use(page, address)
            page.screenshot(path=output / f"{name}.png", full_page=True)
            opened.close()


def use(page: Any, address: str) -> None:
    """Choose a mention, confirm it, look at a candidate's concept, and see that the confirmation stays.

    page (Page): The page of the browser.
    address (str): The service.
    RAISES (AssertionError): If the page does not show what it should.
    """
    page.goto(address)
    page.wait_for_selector("#linked button")
    mentions = page.locator("#linked button")
    mentions.nth(2).click()
    page.get_by_role("button", name="Confirm").click()
    mentions.nth(1).click()
    page.get_by_role("button", name="No concept is right").click()
    page.get_by_text("Kept by the service.").wait_for()
    page.get_by_role("button", name="Withdraw").click()
    page.get_by_text("Withdrawn.").wait_for()
    for change in (lambda: page.locator("#k").fill("3"), page.reload):
        change()
        page.get_by_text(" mentions.").wait_for()
        page.wait_for_selector("#linked button.corrected")
        assert page.inner_text("#corrections").endswith(": 1"), page.inner_text("#corrections")
    mentions.nth(2).click()
    page.get_by_role("button", name="Details").first.click()
    page.wait_for_selector("aside dd")


if __name__ == "__main__":
    typer.run(main)
