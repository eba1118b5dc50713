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


def settle(page: Any) -> None:
    """Give a page time to do what it must not do."""
    page.evaluate("new Promise((settled) => setTimeout(settled, 300))")


class LateAnswer:
    """An answer of the service that is held back until the test lets it come."""

    def __init__(self, page: Any, pattern: str, part: str = "", *, skip: int = 0, is_sent: bool = True) -> None:
        """Hold back what answers the first request whose body has a part, or one after it. If it is not sent, then the
        service does not know of the request until then."""
        self._page, self._part, self._skip, self._is_sent = page, part, skip, is_sent
        self._routes: list[tuple[Any, Any]] = []
        self._pending: set[Any] = set()
        page.on("request", lambda request: self._pending.add(request))
        for end in ("requestfinished", "requestfailed"):
            page.on(end, lambda request: self._pending.discard(request))
        page.route(pattern, self._take)

    def _take(self, route: Any) -> None:
        if self._routes or self._part not in (route.request.post_data or ""):
            route.fallback()
        elif self._skip:
            self._skip -= 1
            route.fallback()
        else:
            self._routes.append((route, None))
            if self._is_sent:
                self._routes[0] = (route, route.fetch())

    def wait(self) -> None:
        """Wait for the request, and for the answer if it is sent."""
        limit = time.monotonic() + 20
        while not self._routes or (self._is_sent and not self._routes[0][1]):
            assert time.monotonic() < limit, "Nothing was asked for."
            self._page.wait_for_timeout(10)

    def come(self) -> None:
        """Let the answer come, and give the page time to show it."""
        self.wait()
        ((route, answer),) = self._routes
        with self._page.expect_response(lambda response: response.request == route.request):
            if answer:
                route.fulfill(response=answer)
            else:
                route.continue_()
        self._wait_for_others()

    def _wait_for_others(self) -> None:
        """Give the page time to show the answer, and what it asks for then, up to what is held back elsewhere."""
        for _ in range(20):
            settle(self._page)
            if not self._pending:
                return

    def fail(self) -> None:
        """Let the request fail."""
        self.wait()
        self._routes[0][0].abort()
        self._wait_for_others()
