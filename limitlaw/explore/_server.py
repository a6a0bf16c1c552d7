"""The explorer as a web application: a page, and answers as JSON."""

import asyncio
import hmac
import importlib.util
import ipaddress
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .._checks import ArgumentError
from ._answers import answer, line, prepare_worker
from ._state import State
from ._views import VIEWS, View
from ._work import Workers

_STATIC = Path(__file__).parent / "static"
_ACCESS = "access"  # the parameter, and the cookie, that hold the token
_REMEMBERED = 64 * 10**6  # bytes of answers: a thousand states
_HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",  # the address may hold the token
}


def create_app(token: str | None = None, *, warm: bool = False, load: Sequence[Path] = ()) -> ASGIApp:
    """The web application.

    Args:
        token: The access token that a request must bring; None if none is needed.
        warm: Whether to compute the first picture before it is asked for.
        load: Python files that each worker loads.

    Returns:
        The application.

    Example:
        >>> from limitlaw.explore._server import create_app
        >>> callable(create_app())
        True
    """
    answers = _Answers()

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        answers.workers = Workers(prepare_worker, (tuple(load),))
        first = asyncio.create_task(answers.warm("layer")) if warm else None
        yield
        if first is not None:
            first.cancel()
        answers.workers.close()

    routes = [
        Route("/", _page),
        Route("/plotly.js", _plotly),
        Route("/api/views", _views),
        Route("/api/{view}", answers.stream),
        Route("/api/{view}/python", _code),
        Route("/api/{view}/{part}", answers.one),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    errors: Any = {ArgumentError: _refusal, HTTPException: _not_found}
    return _Guard(Starlette(routes=routes, lifespan=life, exception_handlers=errors), token)


def plotly_script() -> Path:
    """plotly's own script, as its package ships it; the package itself is not imported.

    Example:
        >>> from limitlaw.explore._server import plotly_script
        >>> plotly_script().name
        'plotly.min.js'
    """
    found = importlib.util.find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
    return Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js"


async def _page(request: Request) -> Response:
    return FileResponse(_STATIC / "index.html")


async def _plotly(request: Request) -> Response:
    return FileResponse(plotly_script(), media_type="text/javascript", headers={"cache-control": "max-age=86400"})


async def _views(request: Request) -> Response:
    return JSONResponse({name: _described(view) for name, view in VIEWS.items()})


async def _code(request: Request) -> Response:
    view, state = await _state(request)
    try:
        return JSONResponse({"code": await asyncio.to_thread(view.python, state)})
    except ArgumentError as error:
        raise ArgumentError(state.field_of(error), str(error)) from None


async def _state(request: Request) -> tuple[View, State]:
    """The view and the state that a request asks for."""
    name = request.path_params["view"]
    if name not in VIEWS:
        raise HTTPException(404, f"There is no view {name!r}. The views are {', '.join(VIEWS)}.")
    return VIEWS[name], await asyncio.to_thread(VIEWS[name].state.parse, dict(request.query_params))


class _Answers:
    """Answers to requests, the only place where some are remembered."""

    def __init__(self) -> None:
        self.workers: Any = None
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._held = 0

    async def stream(self, request: Request) -> Response:
        """All parts of a view as lines of JSON, each as soon as it is there."""
        _, state = await _state(request)
        return _Lines(self.lines(request.path_params["view"], state, list(VIEWS[request.path_params["view"]].parts)))

    async def one(self, request: Request) -> Response:
        """One part of a view."""
        view, state = await _state(request)
        part = request.path_params["part"]
        if part not in view.parts:
            raise HTTPException(404, f"There is no part {part!r}. The parts are {', '.join(view.parts)}.")
        return _Last(self.lines(request.path_params["view"], state, [part]))

    async def warm(self, view: str) -> None:
        """Compute the first picture."""
        async for _ in self.lines(view, VIEWS[view].state.parse({}), list(VIEWS[view].parts)):
            pass

    async def lines(self, view: str, state: State, parts: list[str]) -> AsyncGenerator[bytes]:
        """The lines of these parts: those that are known, and then the others as they are computed."""
        keys = {part: f"{view}/{part}?{urlencode(sorted(state.query_of(part).items()))}" for part in parts}
        missing = []
        for part in parts:
            if keys[part] in self._known:
                self._known.move_to_end(keys[part])
                yield self._known[keys[part]]
            else:
                missing.append(part)
        if missing:
            question = view, tuple(sorted(keys[part] for part in missing))
            async with aclosing(self.workers.follow(question, answer, view, state.query(), missing)) as events:
                async for part, text in events:
                    if part:
                        self._remember(keys[part], text)
                    yield text

    def _remember(self, key: str, text: bytes) -> None:
        self._held += len(text) - len(self._known.pop(key, b""))
        self._known[key] = text
        while self._held > _REMEMBERED:
            self._held -= len(self._known.popitem(last=False)[1])


class _Lines(Response):
    """Lines that are sent as they come, until the client leaves."""

    media_type = "application/x-ndjson"

    def __init__(self, lines: AsyncGenerator[bytes]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _while_connected(self._send(scope, receive, send), receive)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self._lines) as lines:
            try:
                async for text in lines:
                    await send({"type": "http.response.body", "body": text, "more_body": True})
            except ArgumentError as error:
                body = line(failed=str(error))
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class _Last(_Lines):
    """The last of the lines as a whole answer: a panel, or the reason why there is none."""

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        last: dict[str, Any] = {}
        async with aclosing(self._lines) as lines:
            try:
                async for text in lines:
                    last = json.loads(text)
            except ArgumentError as error:
                last = {"refused": str(error), "field": ""}
        if "panel" in last:
            response = JSONResponse(last["panel"])
        else:
            response = JSONResponse({"field": last["field"], "message": last["refused"]}, 422)
        await response(scope, receive, send)


async def _while_connected(work: Awaitable[None], receive: Receive) -> None:
    """Await something until it is done or the client leaves, which cancels it."""

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(left())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not tasks[0].cancelled():
        tasks[0].result()


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, ArgumentError)
    return JSONResponse({"field": error.argument, "message": str(error)}, 422)


async def _not_found(request: Request, error: Exception) -> Response:
    """A page for a page, JSON for the rest."""
    assert isinstance(error, HTTPException)
    if request.url.path.startswith("/api/"):
        return JSONResponse({"field": "", "message": error.detail}, error.status_code)
    return FileResponse(_STATIC / "missing.html", error.status_code)


def _described(view: View) -> dict[str, Any]:
    """The names, fields and parts of a view, for the page."""
    usual = view.state()
    return {
        "title": view.title,
        "summary": view.summary,
        "presets": view.presets,
        "controls": [
            {"name": name, **vars(control), "default": control.write(getattr(usual, name))}
            for name, control in view.state.controls().items()
        ],
        "parts": [
            {"name": name, "title": part.title, "logarithmic": part.logarithmic, "wide": part.wide}
            for name, part in view.parts.items()
        ],
    }


class _Guard:
    """Lets in those who may ask, and adds headers that keep a page to itself.

    With a token, who has it. Without one, only requests under a name of this machine: another site can point its own
    name here. In no case does a page of another site make the explorer compute.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        headers = dict(_HEADERS)
        refusal = self._refusal(connection, headers)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.encode(), value.encode()) for name, value in headers.items()]
                message["headers"] = [*message.get("headers", []), *extra]
            await send(message)

        if refusal:
            await JSONResponse({"field": "", "message": refusal}, 403)(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def _refusal(self, connection: HTTPConnection, headers: dict[str, str]) -> str:
        """Why a request is refused, or nothing; a token in the address is kept as a cookie."""
        of_api = connection.url.path.startswith("/api/")
        # Browsers send this header with every request; programs that are no browsers need not.
        if of_api and connection.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return "Another site's page asked. Open the explorer itself."
        if self._token is None:
            named = is_local(connection.headers.get("host", ""))
            return "" if named else "This explorer answers under the name localhost alone. Open it there."
        cookie = f"{_ACCESS}-{connection.url.port}"  # cookies do not know ports
        shown = connection.query_params.get(_ACCESS)
        given = shown or connection.cookies.get(cookie, "")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return "The access token is missing or wrong. Open the printed address."
        if shown:
            headers["set-cookie"] = f"{cookie}={self._token}; HttpOnly; Path=/; SameSite=Strict"
        return ""


def is_local(host: str) -> bool:
    """Whether the value of a Host header names this machine by a loopback address.

    Example:
        >>> from limitlaw.explore._server import is_local
        >>> [is_local(host) for host in ("LOCALHOST:8642", "[::1]:1", "127.0.0.1", "localhost:99999", "127.0.0.1@evil")]
        [True, True, True, False, False]
    """
    try:
        parts = urlsplit(f"//{host}")
        name, _ = parts.hostname or "", parts.port  # a port that is no port raises
    except ValueError:
        return False
    if parts.netloc != host or "@" in host:
        return False
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
