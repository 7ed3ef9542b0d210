"""The second listener, for people: what was decided and why, what would happen if, and the page that shows both.

It shares the service with the scheduler's port and nothing else: no path of the one is on the other. To tell a large
decision takes a thread, a what-if question a copy of the process, so that the scheduler does not wait for them.

Rule: a browser may have been sent here by another site. So the Host header must be an address, localhost or our own
host name, questions must be JSON from our own page, and nothing is answered that a page may run.
"""

import asyncio
import ipaddress
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender import __version__
from extender.cluster.decode import slim
from extender.config.preemption import PRESETS
from extender.core import explaining
from extender.core.moment import Moment
from extender.core.profile import Profile
from extender.core.snapshot import Snapshot
from extender.errors import ExtenderError, RequestError
from extender.k8s.kinds import ClusterObjects
from extender.server import apart, openapi_debug
from extender.server.apart import Apart
from extender.server.body import read_body
from extender.server.decisions import VERBS, Query, read_time
from extender.server.errors import error_body, error_response, on_error
from extender.server.picture import summary
from extender.server.verbs import Service
from extender.server.what_if import what_if

MAX_BODY = 8 << 20
"""Of a question, bytes."""

LONGEST_SIMULATION = 60.0
"""Seconds."""

NOT_KEPT = "no such decision is kept; the oldest ones are dropped (debug.decisions)"

MOST_LISTED = 1000
"""Decisions in one answer."""

SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
_FILE_NAME = re.compile(r"[a-z0-9-]+\.[a-z]+")

_MESSAGES = {
    404: "no such path; there are GET /ui, /decisions, /decisions/{id}, /status and /recording, POST /simulate",
    405: "this path answers another method; see the Allow header",
}


def create_debug_app(service: Service, host: str) -> ASGIApp:
    """The application of the second listener. `host`: the name under which it may be asked, beside addresses."""
    app = _unguarded()
    app.state.service = service
    app.state.simulating = asyncio.Lock()
    return _Guarded(app, host)


def openapi_document() -> dict[str, Any]:
    """The OpenAPI document of the second listener, as it stands in openapi/debug.json."""
    return openapi_debug.document(_unguarded())


def _unguarded() -> FastAPI:
    app = FastAPI(version=__version__, openapi_url=None, redirect_slashes=False)
    app.include_router(_router())
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(Exception, on_error)
    return app


def _router() -> APIRouter:
    router = APIRouter(redirect_slashes=False)
    routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("GET", "/decisions", list_decisions),
        ("GET", "/decisions/{id}", show_decision),
        ("GET", "/decisions/{id}/pod", show_pod),
        ("GET", "/status", show_status),
        ("POST", "/simulate", simulate),
        ("GET", "/recording", show_recording),
        ("POST", "/recording", switch_recording),
        ("GET", "/", page),
        ("GET", "/ui", page),
        ("GET", "/ui/", page),
        ("GET", "/ui/{name}", page_file),
    ]
    for method, path, endpoint in routes:
        operation = openapi_debug.OPERATIONS[endpoint.__name__]
        router.add_api_route(path, endpoint, methods=[method], response_class=Response, **operation)
    return router


async def _on_http_exception(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, _MESSAGES.get(error.status_code, error.detail), error.headers)


# --- decisions ------------------------------------------------------------------------------------------------------


async def list_decisions(request: Request) -> Response:
    """The last decisions, the latest first: `?pod=&node=&verb=&since=&until=&limit=`."""
    service: Service = request.app.state.service
    try:
        query = _query(request.query_params)
    except RequestError as error:
        return error_response(400, str(error))
    every = service.decisions.every()
    return await run_in_threadpool(lambda: _json({"decisions": [kept.summary for kept in query.of(every)]}))


async def show_decision(request: Request) -> Response:
    """One decision, whole; `?pods=none` leaves the pods out, `?node=NAME` is about one node, with its pods."""
    service: Service = request.app.state.service
    pods, node = request.query_params.get("pods", "all"), request.query_params.get("node")
    if pods not in ("all", "none"):
        return error_response(400, f"pods: must be all or none, not {pods!r}")
    kept = service.decisions.get(request.path_params["id"])
    if kept is None:
        return error_response(404, NOT_KEPT)
    if node is not None and node not in kept.nodes:
        return error_response(404, f"the decision does not speak of node {node!r}")
    return await run_in_threadpool(lambda: _json(kept.decision(node, every_pod=pods == "all")))


async def show_pod(request: Request) -> Response:
    """The pod that was to be scheduled, as far as decisions read it: to be asked about once more."""
    service: Service = request.app.state.service
    kept = service.decisions.get(request.path_params["id"])
    if kept is None:
        return error_response(404, NOT_KEPT)
    return _json(slim("Pod", kept.pod, kept.profile.preemption.annotations))


def _query(given: Mapping[str, str]) -> Query:
    unknown = sorted(set(given) - {"pod", "node", "verb", "since", "until", "limit"})
    if unknown:
        raise RequestError(f"{unknown[0]}: no such parameter; there are pod, node, verb, since, until and limit")
    verb, limit = given.get("verb"), given.get("limit", "100")
    if verb is not None and verb not in VERBS:
        raise RequestError(f"verb: must be one of {', '.join(VERBS)}, not {verb!r}")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= MOST_LISTED:
        raise RequestError(f"limit: must be a number from 1 to {MOST_LISTED}, not {limit!r}")
    since, until = (_time(key, given[key]) if key in given else None for key in ("since", "until"))
    return Query(given.get("pod"), given.get("node"), verb, since, until, int(limit))


def _time(key: str, text: str) -> int:
    """Nanoseconds since 1970 of a time, or of so long ago."""
    try:
        return read_time(text, time.time_ns)
    except ValueError:
        expected = "a time such as 2026-03-01T12:00:00Z, or 15m for so long ago"
        raise RequestError(f"{key}: must be {expected}, not {text!r}") from None


# --- what if, and the rest ------------------------------------------------------------------------------------------


async def simulate(request: Request) -> Response:
    """What would happen to some pods: see docs/simulate.md. One question at a time."""
    service: Service = request.app.state.service
    try:
        body = await read_body(request, MAX_BODY)
        async with request.app.state.simulating:
            snapshot, profile, moment = service.snapshot(), service.settings.profile, service.moment()
            if apart.IS_POSSIBLE:
                copy = Apart.start(lambda: _answer_on_copy(snapshot, profile, body, moment), LONGEST_SIMULATION)
                answer = await copy.result(LONGEST_SIMULATION)
            else:
                answer = await run_in_threadpool(_answer, snapshot.frozen(), profile, body, moment)
        return Response(answer[3:], int(answer[:3]), media_type="application/json")
    except ExtenderError as error:
        return error_response(error.status, str(error))


def _answer_on_copy(snapshot: Snapshot, profile: Profile, body: bytes, moment: Moment) -> bytes:
    """Where the snapshot is ours: nobody else is to hear of what we do to it."""
    snapshot.observer = None
    return _answer(snapshot.frozen(), profile, body, moment, snapshot)


def _answer(
    objects: ClusterObjects, profile: Profile, body: bytes, moment: Moment, spare: Snapshot | None = None
) -> bytes:
    """The status in three digits, and the body."""
    try:
        return b"200" + msgspec.json.encode(what_if(objects, profile, body, moment, spare))
    except ExtenderError as error:
        return b"%d%b" % (error.status, error_body(str(error)))


async def show_status(request: Request) -> Response:
    """What the page shows at its top."""
    service: Service = request.app.state.service
    status: dict[str, Any] = {
        "version": __version__,
        "picture": summary(service.store, service.source),
        "ready": "",
        "notes": [*service.source.warnings(), *service.configured.warnings()],
        "policies": explaining.policies(service.settings.profile),
        "presets": list(PRESETS),
        "decisions": service.decisions.counts(),
        "recording": None if service.recorder is None else service.recorder.status(),
    }
    try:
        snapshot = service.snapshot()
        counts = len(snapshot.nodes), len(snapshot.running.row_of), len(snapshot.budgets)
        status["cluster"] = dict(zip(("nodes", "pods", "budgets"), counts, strict=True))
    except ExtenderError as error:
        status["ready"] = str(error)
    return _json(status)


async def show_recording(request: Request) -> Response:
    """Whether calls are recorded, and where."""
    service: Service = request.app.state.service
    return _json({"enabled": False} if service.recorder is None else service.recorder.status())


async def switch_recording(request: Request) -> Response:
    """`{"enabled": true}` or false. Only into the configured directory: nobody chooses a path over HTTP."""
    service: Service = request.app.state.service
    try:
        wanted = msgspec.json.decode(await read_body(request, 1024), type=_Switch, strict=True)
        if service.recorder is None:
            raise RequestError("there is nothing to record into: set recording.directory, or serve --record DIR")
        if wanted.enabled:
            service.recorder.start()
        else:
            await run_in_threadpool(service.recorder.stop)
        return _json(service.recorder.status())
    except ExtenderError as error:
        return error_response(error.status, str(error))
    except msgspec.MsgspecError as error:
        return error_response(400, f'must be {{"enabled": true}} or {{"enabled": false}}: {error}')


class _Switch(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool


# --- the page -------------------------------------------------------------------------------------------------------


async def page(_: Request) -> Response:
    """The page."""
    return _file("index.html")


async def page_file(request: Request) -> Response:
    """What the page is made of."""
    return _file(request.path_params["name"])


def _file(name: str) -> Response:
    file: Traversable = files("extender.server") / "ui" / name
    media_type = _TYPES.get(name.rpartition(".")[2])
    if not _FILE_NAME.fullmatch(name) or media_type is None or not file.is_file():
        return error_response(404, "no such file of the page")
    return Response(file.read_bytes(), media_type=media_type)


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


# --- who may ask ----------------------------------------------------------------------------------------------------


class _Guarded:
    """Refuses what another site may have sent a browser to ask, and sets the headers that keep a browser careful."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._host = host.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_carefully(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_ENCODED]
            await send(message)

        answer = self._refusal(Request(scope)) or self._app
        await answer(scope, receive, send_carefully)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if not self._is_ours(_name(host)):
            return error_response(403, "ask by address, or as localhost: the Host header is neither")
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return error_response(403, "the question comes from another site")
        is_json = request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
        if request.method == "POST" and not is_json:
            return error_response(415, "the body must be JSON: with curl, add -H 'Content-Type: application/json'")
        return None

    def _is_ours(self, name: str) -> bool:
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in ("localhost", self._host)
        return True


_ENCODED = [(name.lower().encode(), value.encode()) for name, value in SECURITY.items()]


def _name(host: str) -> str:
    """`name:port` or `[address]:port` -> name or address."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
