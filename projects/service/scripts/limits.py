"""What the service accepts: its settings, the base of its requests, and checks before the pipeline sees them."""

import asyncio
import logging
import re
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import get_route_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spacy_sapbert.settings import Settings
from spacy_sapbert.text import MAX_RUN, measure_run

ORIGIN = re.compile(r"(https?)://([\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?", re.ASCII)
PORTS = {"http": 80, "https": 443}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# What every answer tells browsers: to keep no copy, to guess no other type, to show it in no frame, and to run and load
# nothing but the page's own files.
BARRED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'; "
POLICY = BARRED + "img-src data:; script-src 'self'; style-src 'self'"
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": POLICY}
# FastAPI's viewer of requests, which comes from the network.
VIEWER = "/docs"
VIEWER_POLICY = BARRED + (
    "img-src data: https://fastapi.tiangolo.com; script-src 'unsafe-inline' https://cdn.jsdelivr.net; "
    "style-src 'unsafe-inline' https://cdn.jsdelivr.net"
)
logger = logging.getLogger(__name__)


class ServiceSettings(Settings):
    """Limits of the service. A request that exceeds one is refused with a message, before the pipeline sees it."""

    hosts: list[str] = Field(
        default=[],
        description="Names and addresses of this machine that requests may use beside localhost, 127.0.0.1 and ::1.",
    )
    max_body: int = Field(default=2_000_000, ge=1, description="Bytes of a request.")
    max_texts: int = Field(default=100, ge=1, description="Texts or mentions in a request.")
    max_characters: int = Field(default=100_000, ge=1, description="Characters of a text.")
    max_run: int = Field(
        default=MAX_RUN,
        ge=1,
        description="Characters in a row without white space. A letter of Chinese, Japanese, Thai or another script "
        "that is written without spaces ends such a row as well.",
    )
    max_seconds: float = Field(
        default=60,
        gt=0,
        description="Seconds of a request, with the time that it waits; others get the status 504. A body that takes "
        "longer to arrive gets 408.",
    )
    queue_size: int = Field(default=64, ge=1, description="Requests that may wait; others get the status 503.")
    batch_size: int = Field(default=32, ge=1, description="Requests that are linked at once.")
    gold: str | None = Field(
        default=None,
        description="A file that keeps corrections of the page, as Prodigy's JSON lines; null to keep none.",
    )
    folder: str | None = Field(
        default=None,
        description="A folder for what people add: documents, corrections, rules and what was learned; null for none.",
    )
    documents: str | None = Field(
        default=None,
        description="A folder with documents to annotate, .txt, .csv and .jsonl, which is only read; null for none.",
    )
    prefix: str | None = Field(
        default=None,
        pattern=r"^(/[A-Za-z0-9._~-]+)+$",
        description="The path of the service at a proxy, such as /nlp, whether or not the proxy strips it.",
    )
    guidelines: str | None = Field(
        default=None,
        description="A Markdown file that the page shows beside the text; null for `guidelines.md` in the folder, if "
        "it is there.",
    )


def _check_text(text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it has half of a character (a lone surrogate)")
    return text


Text = Annotated[str, AfterValidator(_check_text)]


class StrictRequest(BaseModel):
    """Base of requests: unknown keys are refused, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def check_texts(texts: Sequence[str], settings: ServiceSettings) -> None:
    """Check the number and the lengths of texts."""
    longest = max(map(len, texts), default=0)
    if len(texts) > settings.max_texts or longest > settings.max_characters:
        raise HTTPException(
            422,
            f"The request has {len(texts)} texts, the longest of {longest:,} characters. Allowed are "
            f"{settings.max_texts} texts of {settings.max_characters:,} characters; `--max-texts` and "
            "`--max-characters` set the limits.",
        )
    if (run := max(map(measure_run, texts), default=0)) > settings.max_run:
        raise HTTPException(
            422,
            f"A text has {run:,} characters without white space, which would take spaCy's tokenizer long. Allowed "
            f"are {settings.max_run:,}; `--max-run` sets the limit.",
        )


class Origin(NamedTuple):
    """What tells sites apart for browsers."""

    scheme: str
    name: str
    port: int


class Gate:
    """Refuse large and slow bodies and what may come from a page of another site, stop the work for clients that have
    gone, answer failures, and add headers for browsers. Neither answer nor log quotes a text."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, admit: Callable[[Scope], JSONResponse | None]) -> None:
        self._app = app
        self._admit = admit  # refuses who has no token
        self._max_body = settings.max_body
        self._max_seconds = settings.max_seconds
        self._names = LOOPBACK.union(host.lower().strip("[]") for host in settings.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _add_headers(send, get_route_path(scope))
        if refusal := self._find_refusal(scope):
            await self._answer(refusal, scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(self._read_body(receive), self._max_seconds)
        except asyncio.TimeoutError:
            late = f"The request's body takes longer than {self._max_seconds:g} seconds to arrive."
            await _refuse(408, late, Connection="close")(scope, receive, send)
            return
        if body is not None and len(body) > self._max_body:
            await self._too_large()(scope, receive, send)
        elif body is not None:
            await self._pass_on(scope, body, receive, send)

    def _find_refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        method = scope["method"]
        # A site can point its own name at this machine, and its page then reads what the service answers.
        host = headers.get("host", "")
        address = f"{scope.get('scheme', 'http')}://{host}"
        own = _read_origin(address)
        if own is None or own.name not in self._names:
            return _refuse(
                400,
                f"The request is addressed to {host!r}, which is not known as a name of this machine, so it may come "
                "from a page of another site. Start the service with `--hosts NAME` for each name or address that "
                "clients use.",
            )
        if page := _find_foreign_page(headers, method, own):
            return _refuse(
                403,
                f"The request comes from a page of {page}, not from this service's own at {address}. A proxy in "
                "between has to pass on Host, and the scheme as X-Forwarded-Proto.",
            )
        if refusal := self._admit(scope):
            return refusal
        # A form of another site can send anything but this type without asking first.
        kind = headers.get("content-type", "")
        if method == "POST" and kind.partition(";")[0].strip().lower() != "application/json":
            hint = "Set the header Content-Type."
            return _refuse(415, f"The request's body is {kind!r}, but has to be application/json. {hint}")
        length = headers.get("content-length", "0")
        return None if length.isdecimal() and int(length) <= self._max_body else self._too_large()

    def _too_large(self) -> JSONResponse:
        hint = "Send fewer texts at once; `--max-body` sets the limit."
        return _refuse(413, f"The request has more than {self._max_body:,} bytes. {hint}")

    async def _answer(self, refusal: JSONResponse, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a refusal, and drop the body: who sends it all before reading would find the connection closed."""

        async def hold(message: Message) -> None:
            await send(message if message["type"] == "http.response.start" else {**message, "more_body": True})

        await refusal(scope, receive, hold)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._read_body(receive), self._max_seconds)
        await send({"type": "http.response.body"})

    async def _read_body(self, receive: Receive) -> bytes | None:
        """Read a body, of one that is too large only the start; None if the client has gone."""
        body = bytearray()
        is_open = True
        while is_open:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"") if len(body) <= self._max_body else b""
            is_open = message.get("more_body", False)
        return bytes(body)

    async def _pass_on(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        waiting = [{"type": "http.request", "body": body}]
        is_answered = False

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        async def answer(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        work = asyncio.ensure_future(self._app(scope, replay, answer))
        leaving = asyncio.ensure_future(_wait_for_leaving(receive))
        try:
            await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        except Exception as error:  # a user's component may raise anything
            # Not the error's own text, which may quote a patient's record.
            kind = type(error).__name__
            place = "".join(traceback.format_tb(error.__traceback__))
            logger.error("A request failed with %s at:\n%s", kind, place)
            if not is_answered:
                refusal = _refuse(500, f"The pipeline failed with {kind}. The service's log says where.")
                await refusal(scope, receive, send)
        finally:
            work.cancel()
            leaving.cancel()
            await asyncio.gather(work, leaving, return_exceptions=True)


async def _wait_for_leaving(receive: Receive) -> None:
    """Wait until the client of a request whose body has been read goes."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _refuse(status: int, error: str, **headers: str) -> JSONResponse:
    return JSONResponse({"error": error}, status, headers)


def _find_foreign_page(headers: Headers, method: str, own: Origin) -> str | None:
    """Find which page of another site sends a request. Programs that are no browsers send neither header."""
    origin = headers.get("origin")
    if origin is not None and _read_origin(origin) != own:
        return repr(origin)
    # A link from another page may lead here.
    site = headers.get("sec-fetch-site", "none")
    if method not in ("GET", "HEAD") and site not in ("none", "same-origin"):
        return f"another site (Sec-Fetch-Site is {site!r})"
    return None


def _read_origin(address: str) -> Origin | None:
    match = ORIGIN.fullmatch(address.lower())
    if match is None:
        return None
    scheme, name, port = match.groups()
    return Origin(scheme, name.strip("[]"), int(port or PORTS[scheme]))


def _add_headers(send: Send, path: str) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            if path == VIEWER:
                headers["Content-Security-Policy"] = VIEWER_POLICY
        await send(message)

    return send_with_headers
