"""A service in a thread, and its page in a browser, for tests of the page."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra `test`")
playwright.expect.set_options(timeout=20_000)  # for a busy machine
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@contextmanager
def run_service(app: Any) -> Iterator[str]:
    """Run an application in a thread, and yield its host with the port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


@contextmanager
def launch_browser() -> Iterator[Any]:
    """Launch a browser."""
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@contextmanager
def open_context(browser: Any, host: str, part: str = "", **options: Any) -> Iterator[Any]:
    """Open the page of a service in a context of its own, and yield it. Neither an error of a script nor a request to
    somewhere else may happen. Of the page, `part` is what stands behind # in its address."""
    context = browser.new_context(**options)
    page = context.new_page()
    seen = SimpleNamespace(errors=[], addresses=[])
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("console", lambda said: seen.errors.append(said.text) if "Security Policy" in said.text else None)
    page.on("request", lambda request: seen.addresses.append(request.url))
    page.seen = seen
    page.goto(f"http://{host}/{part and '#'}{part}")
    yield page
    context.close()
    assert not seen.errors and {address.split("/")[2] for address in seen.addresses} == {host}
