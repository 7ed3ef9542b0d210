"""What people ask the admin listener: what was decided and why, what would happen if, and the page that shows both.

To tell a large decision takes a thread, a what-if question a copy of the process, so that the scheduler does not wait
for them.

Rule: who may ask was decided before (admin.py); nothing here is on the scheduler's port.
"""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from extender.cluster.watch.decode import slim
from extender.config.preemption import PRESETS
from extender.core.eviction_history import EvictionHistory
from extender.core.explain import render
from extender.core.profile import Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ExtenderError, RequestError
from extender.k8s.kinds import ClusterObjects
from extender.server.admin import fork_worker, openapi
from extender.server.admin.fork_worker import Apart
from extender.server.admin.simulate import what_if
from extender.server.context import ServerContext
from extender.server.http.body import read_body
from extender.server.http.errors import error_body, error_response
from extender.server.observability.cache_status import summary
from extender.server.observability.decision_log import VERBS, Query, read_time
from extender.version import __version__

MAX_BODY = 8 << 20
"""Of a question, bytes."""

LONGEST_SIMULATION = 60.0
"""Seconds."""

NOT_KEPT = "no such decision is kept; the oldest ones are dropped (debug.decisions)"

MOST_LISTED = 1000
"""Decisions in one answer."""

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
_FILE_NAME = re.compile(r"[a-z0-9-]+\.[a-z]+")


def create_router() -> APIRouter:
    """All routes; `app.state` holds the ServerContext, and the lock `simulating`."""
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
        operation = openapi.OPERATIONS[endpoint.__name__]
        router.add_api_route(path, endpoint, methods=[method], response_class=Response, **operation)
    return router


# --- decisions ------------------------------------------------------------------------------------------------------


async def list_decisions(request: Request) -> Response:
    """The last decisions, the latest first: `?pod=&node=&verb=&since=&until=&limit=`."""
    service: ServerContext = request.app.state.service
    try:
        query = _query(request.query_params)
    except RequestError as error:
        return error_response(400, str(error))
    every = service.decisions.every()
    return await run_in_threadpool(lambda: _json({"decisions": [kept.summary for kept in query.of(every)]}))


async def show_decision(request: Request) -> Response:
    """One decision, whole; `?pods=none` leaves the pods out, `?node=NAME` is about one node, with its pods."""
    service: ServerContext = request.app.state.service
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
    service: ServerContext = request.app.state.service
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
    service: ServerContext = request.app.state.service
    try:
        body = await read_body(request, MAX_BODY)
        async with request.app.state.simulating:
            snapshot, profile, moment = service.snapshot(), service.settings.profile, service.moment()
            if fork_worker.IS_POSSIBLE:
                copy = Apart.start(lambda: _answer_on_copy(snapshot, profile, body, moment), LONGEST_SIMULATION)
                answer = await copy.result(LONGEST_SIMULATION)
            else:
                answer = await run_in_threadpool(_answer, snapshot.frozen(), profile, body, moment)
        return Response(answer[3:], int(answer[:3]), media_type="application/json")
    except ExtenderError as error:
        return error_response(error.status, str(error))


def _answer_on_copy(snapshot: Snapshot, profile: Profile, body: bytes, moment: EvictionHistory) -> bytes:
    """Where the snapshot is ours: nobody else is to hear of what we do to it."""
    snapshot.observer = None
    return _answer(snapshot.frozen(), profile, body, moment, snapshot)


def _answer(
    objects: ClusterObjects, profile: Profile, body: bytes, moment: EvictionHistory, spare: Snapshot | None = None
) -> bytes:
    """The status in three digits, and the body."""
    try:
        return b"200" + msgspec.json.encode(what_if(objects, profile, body, moment, spare))
    except ExtenderError as error:
        return b"%d%b" % (error.status, error_body(str(error)))


async def show_status(request: Request) -> Response:
    """What the page shows at its top."""
    service: ServerContext = request.app.state.service
    status: dict[str, Any] = {
        "version": __version__,
        "picture": summary(service.cache, service.source),
        "ready": "",
        "notes": [*service.source.warnings(), *service.configured.warnings(), *service.lifecycle.warnings()],
        "policies": render.policies(service.settings.profile),
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
    service: ServerContext = request.app.state.service
    return _json({"enabled": False} if service.recorder is None else service.recorder.status())


async def switch_recording(request: Request) -> Response:
    """`{"enabled": true}` or false. Only into the configured directory: nobody chooses a path over HTTP."""
    service: ServerContext = request.app.state.service
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
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
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
