"""A service below a path of a site, such as /nlp, whether or not the proxy in front strips it."""

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class Stripped:
    """Take the prefix off paths that have it, so that all that follows sees the service's own paths."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        path = scope.get("path", "")
        if path == self._prefix:
            # The page's relative addresses need the slash.
            await RedirectResponse(f"{self._prefix}/")(scope, receive, send)
            return
        if path.startswith(f"{self._prefix}/"):
            scope = {**scope, "path": path.removeprefix(self._prefix)}
        await self._app(scope, receive, send)


class Mounted:
    """Tell the application its prefix, which redirects and the viewer of requests need."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if "path" in scope:
            scope = {**scope, "path": f"{self._prefix}{scope['path']}", "root_path": self._prefix}
        await self._app(scope, receive, send)
