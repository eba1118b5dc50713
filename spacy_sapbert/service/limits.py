"""What is refused before the application or the pipeline sees it."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ..errors import Errors
from ..long_runs import measure_run
from .settings import ServiceSettings

HOST = re.compile(r"([\w.-]+|\[[\w:.]+\])(:\d+)?")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
logger = logging.getLogger(__name__)
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class TooLarge(Exception):
    """A request has more bytes than allowed."""


class BodyLimit:
    """Refuse requests with too many bytes: at once if they say so, else when they exceed the limit.

    app (Callable): The application behind it.
    max_body (int): Bytes that are allowed.
    """

    def __init__(self, app: App, max_body: int) -> None:
        self._app, self._max_body = app, max_body

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it.

        scope (dict): What is known of the request.
        receive (Callable): Gives its parts.
        send (Callable): Takes the answer's parts.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._max_body:
            await _answer(send, 413, Errors.E490.format(limit=self._max_body), {"Connection": "close"})
            return
        read = 0

        async def count() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._max_body:
                raise TooLarge
            return message

        async def pass_on(message: Message) -> None:
            # The application answers the exception itself, as if the body could not be read.
            if read <= self._max_body:
                await send(message)

        await self._app(scope, count, pass_on)
        if read > self._max_body:
            await _answer(send, 413, Errors.E490.format(limit=self._max_body), {"Connection": "close"})


class Door:
    """Refuse what may come from a page of another site, and answer failures. Neither answer nor log quotes a text.

    app (Callable): The application behind it.
    hosts (Collection[str]): Names of this machine beside those that only this machine knows.
    """

    def __init__(self, app: App, hosts: Collection[str]) -> None:
        self._app, self._names = app, LOOPBACK.union(host.lower().strip("[]") for host in hosts)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it.

        scope (dict): What is known of the request.
        receive (Callable): Gives its parts.
        send (Callable): Takes the answer's parts.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if refusal := self._find_refusal(scope):
            await _answer(send, *refusal)
            return
        is_answered = False

        async def pass_on(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await self._app(scope, receive, pass_on)
        except Exception as error:  # a user's component may raise anything
            # Not the error's own text, which may quote a patient's record.
            kind, place = type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
            logger.error("A request failed with %s at:\n%s", kind, place)
            if not is_answered:
                await _answer(send, 500, Errors.E493.format(kind=kind))

    def _find_refusal(self, scope: Message) -> tuple[int, str] | None:
        headers: dict[bytes, str] = {name: value.decode("latin-1") for name, value in scope["headers"]}
        # A site can point its own name at this machine, and its page then reads what the service answers.
        host = headers.get(b"host", "")
        if not HOST.fullmatch(host) or _read_name(f"//{host}") not in self._names:
            return 400, Errors.E480.format(found=host)
        origin = headers.get(b"origin")
        if origin is not None and _read_name(origin) not in self._names:
            return 403, Errors.E482.format(found=origin)
        # A form of another site can send anything but this type without asking first.
        kind = headers.get(b"content-type", "")
        if scope["method"] == "POST" and kind.partition(";")[0].strip().lower() != "application/json":
            return 415, Errors.E481.format(found=kind)
        return None


def _read_name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def check_texts(texts: Sequence[str], settings: ServiceSettings) -> None:
    """Check the number and the lengths of texts.

    texts (Sequence[str]): The texts.
    settings (ServiceSettings): The limits.
    RAISES (ValueError): If they exceed a limit.
    """
    longest = max(map(len, texts), default=0)
    if len(texts) > settings.max_texts or longest > settings.max_characters:
        limits = f"{settings.max_texts} texts of {settings.max_characters:,} characters"
        raise ValueError(Errors.E495.format(n=len(texts), longest=longest, limits=limits))
    if (run := max(map(measure_run, texts), default=0)) > settings.max_run:
        raise ValueError(Errors.E498.format(run=run, limit=settings.max_run))


async def _answer(send: Send, status: int, error: str, headers: dict[str, str] | None = None) -> None:
    from fastapi.responses import JSONResponse

    response = JSONResponse({"error": error}, status, headers)
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body})
