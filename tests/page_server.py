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

# Text whose contrast with what is behind it is less than AA asks for: 4.5, or 3 for large letters.
FIND_FAINT = """() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = parse(getComputedStyle(one).backgroundColor);
      if (color.length === 3) return color;
      if (color[3] !== 0) throw Error("half transparent");
    }
    throw Error("no ground");
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!element.offsetParent || !(own || element.matches("textarea, input[type=search], select"))) continue;
    const styles = [getComputedStyle(element)];
    if (element.placeholder) styles.push(getComputedStyle(element, "::placeholder"));
    for (const style of styles) {
      const [low, high] = [light(parse(style.color)), light(ground(element))].sort((one, other) => one - other);
      const ratio = (high + 0.05) / (low + 0.05);
      if (style.opacity !== "1" || ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5))
        found.push(`${element.tagName} ${element.className} ${element.textContent.slice(0, 30)} ${ratio}`);
    }
  }
  return found;
}"""


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
