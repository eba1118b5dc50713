"""Refuse large requests before they are read into memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ..errors import Errors

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
            await _refuse(send, self._max_body)
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
            await _refuse(send, self._max_body)


async def _refuse(send: Send, max_body: int) -> None:
    from fastapi.responses import JSONResponse

    response = JSONResponse({"error": Errors.E490.format(limit=max_body)}, 413, {"Connection": "close"})
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body})
