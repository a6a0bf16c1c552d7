"""The explorer as a web application: a page, and answers as JSON."""

import asyncio
import functools
import hmac
import importlib.util
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel

from .. import __version__
from ._jobs import Cancelled, Jobs, Report
from ._state import Control, FieldError
from ._views import VIEWS, View

_STATIC = Path(__file__).parent / "static"
_ACCESS = "access"  # the parameter, and the cookie, that hold the token
_TAB = "x-limitlaw-tab"
_SUPERSEDED = 409
_POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'none'"
_BEYOND = (
    ArithmeticError,
    AssertionError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)  # what numerics may end in
_LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")


class Refusal(BaseModel):
    """Why a state cannot be shown: one sentence, and the field that it belongs to."""

    field: str
    message: str


def create_app(token: str | None = None, *, warm: bool = False) -> FastAPI:
    """The web application.

    Args:
        token: The access token that a request must bring; None if none is needed.
        warm: Whether to prepare the first picture before it is asked for.

    Example:
        >>> from limitlaw.explore._server import create_app
        >>> "/api/layer/density" in create_app().openapi()["paths"]
        True
    """
    jobs = {name: Jobs() for name in VIEWS}  # what takes long in one view does not hold up another
    answers = [_Answers(name, part) for name, view in VIEWS.items() for part in view.parts]
    answers += [_Answers(name, part, sketch=True) for name, view in VIEWS.items() for part in view.sketched]

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        if warm:
            for each in (_Answers("layer", "density", sketch=True), _Answers("layer", "density")):
                jobs[each.view].prepare(each.key(""), functools.partial(each.body, {}))
        yield
        for own in jobs.values():
            own.close()

    app = FastAPI(title="limitlaw explore", version=__version__, lifespan=life, docs_url=None, redoc_url=None)
    app.middleware("http")(_guard(token))
    for failure in (Cancelled, FieldError, *_BEYOND):
        app.add_exception_handler(failure, _explained)
    for each in answers:
        _add_answers(app, jobs[each.view], each)
    for name, view in VIEWS.items():
        _add_python(app, name, view)

    @app.get("/api/views")
    async def views() -> JSONResponse:
        return JSONResponse({name: _described(view) for name, view in VIEWS.items()})

    @app.get("/api/progress")
    async def progress(request: Request) -> JSONResponse:
        tab = request.headers.get(_TAB, "")
        return JSONResponse({"done": next((d for own in jobs.values() if (d := own.progress(tab)) is not None), None)})

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_STATIC / "index.html")

    @app.get("/plotly.js", include_in_schema=False)
    async def plotly() -> FileResponse:
        return FileResponse(plotly_script(), media_type="text/javascript", headers={"cache-control": "max-age=86400"})

    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    return app


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


@dataclass(frozen=True)
class _Answers:
    """A part of a view, or its sketch, for any state."""

    view: str
    part: str
    sketch: bool = False

    @property
    def path(self) -> str:
        return f"/api/{self.view}/{self.part}" + "/sketch" * self.sketch

    def key(self, query: str) -> str:
        """Under which an answer is remembered: as it was asked, so that what is known need not be read again."""
        return f"{self.path}?{query}"

    def body(self, query: Mapping[str, str], report: Report) -> bytes:
        """The answer as JSON."""
        view = VIEWS[self.view]
        state = view.state.parse(query)
        sketch = view.sketch(self.part, state, report) if self.sketch else None
        panel = sketch or view.answer(self.part, state, report)
        return json.dumps({**panel, "sketch": sketch is not None}, allow_nan=False).encode()


def _add_answers(app: FastAPI, jobs: Jobs, answers: _Answers) -> None:
    async def answer(request: Request) -> Response:
        query = _query(request)
        words = urlencode(sorted(query.items()))
        body = jobs.known(replace(answers, sketch=False).key(words))  # in place of a sketch, too
        if body is None:
            tab, make = request.headers.get(_TAB, ""), functools.partial(answers.body, query)
            body = await jobs.answer(tab, answers.key(words), make, request.is_disconnected)
        return Response(body, media_type="application/json")

    view = VIEWS[answers.view]
    _route(app, answers.path, answer, view, view.parts[answers.part].title)


def _add_python(app: FastAPI, name: str, view: View) -> None:
    async def code(request: Request) -> Response:
        return JSONResponse({"code": await asyncio.to_thread(_code, view, _query(request))})

    _route(app, f"/api/{name}/python", code, view, "The Python code that makes the same numbers")


def _route(app: FastAPI, path: str, endpoint: Any, view: View, summary: str) -> None:
    parameters = [_parameter(name, control) for name, control in view.state.controls().items()]
    app.add_api_route(
        path,
        endpoint,
        summary=summary,
        name=path,
        responses={422: {"model": Refusal}, _SUPERSEDED: {"model": Refusal}},
        openapi_extra={"parameters": parameters},
    )


def _parameter(name: str, control: Control) -> dict[str, Any]:
    """A field in the words of OpenAPI."""
    number = {
        "type": "integer" if control.kind == "count" else "number",
        "minimum": control.low,
        "maximum": control.high,
    }
    words = [*control.choices, *["inf"] * control.infinite]
    schema: dict[str, Any] = {"type": "string", **({"enum": words} if words else {})}
    if control.kind in ("count", "number"):
        schema = {"anyOf": [number, schema]} if words else number
    return {"name": name, "in": "query", "required": False, "description": control.label, "schema": schema}


def _query(request: Request) -> dict[str, str]:
    return {name: text for name, text in request.query_params.items() if name != _ACCESS}


def _code(view: View, query: Mapping[str, str]) -> str:
    return view.python(view.state.parse(query))


async def _explained(request: Request, error: Exception) -> JSONResponse:
    """What went wrong as a sentence, whatever it was."""
    if isinstance(error, Cancelled):
        return _refused(FieldError("", "a newer question took the place of this one."), _SUPERSEDED)
    if isinstance(error, FieldError):
        return _refused(error)
    return _refused(FieldError("", f"these values cannot be computed ({error}); change one of them."))


def _refused(error: FieldError, status: int = 422) -> JSONResponse:
    return JSONResponse(Refusal(field=error.field, message=str(error)).model_dump(), status)


def _described(view: View) -> dict[str, Any]:
    """All that the page needs to draw a view's form and the places of its parts."""
    usual = view.state()
    return {
        "title": view.title,
        "summary": view.summary,
        "compiles": view.compiles,
        "controls": [
            {
                "name": name,
                "label": control.label,
                "kind": control.kind,
                "hint": control.hint,
                "choices": control.choices,
                "low": control.low,
                "high": control.high,
                "infinite": control.infinite,
                "logarithmic": control.logarithmic,
                "stops": control.stops,
                "group": control.group,
                "only": control.only,
                "parts": control.parts,
                "default": control.write(getattr(usual, name)),
            }
            for name, control in view.state.controls().items()
        ],
        "parts": [
            {"name": name, "title": part.title, "sketched": name in view.sketched} for name, part in view.parts.items()
        ],
    }


def _guard(token: str | None) -> Callable[..., Any]:
    """Let in who has the token; without one, only pages that were opened under a local name (no other site can point its name here)."""

    async def guard(request: Request, call_next: Callable[[Request], Any]) -> Response:
        cookie = f"{_ACCESS}-{request.url.port}"  # cookies do not tell ports apart
        given = request.query_params.get(_ACCESS) or request.cookies.get(cookie, "")
        if token is None and not _LOCAL.fullmatch(request.headers.get("host", "")):
            return _refused(FieldError("", "this explorer answers under the name localhost alone; open it there."), 403)
        if token is not None and not hmac.compare_digest(given.encode(), token.encode()):
            return _refused(FieldError("", "the access token is missing or wrong; open the printed address."), 403)
        response = await call_next(request)
        response.headers["content-security-policy"] = _POLICY
        if token is not None and _ACCESS in request.query_params:
            response.set_cookie(cookie, token, httponly=True, samesite="strict")
        return response

    return guard
