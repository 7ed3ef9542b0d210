"""Debug routes of the admin listener: decisions, status, what-if simulations, recording and the web page.

State of the thread that decides is read on that thread (`DecisionThread.run`). A large decision is rendered on another
thread, and a what-if simulation runs in a forked child process, so that neither delays kube-scheduler's calls.

Rule: access control comes before these routes (`admin.app`); none of them is on the scheduler's listener.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from extender.cluster.watch.decode import strip_unread_fields
from extender.config.preemption import PRESETS
from extender.core.eviction_history import EvictionHistory
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ExtenderError, RequestError
from extender.k8s.kinds import ClusterObjects
from extender.k8s.time import read_time
from extender.report import wording
from extender.report.scheduler_report import changed_policies
from extender.report.schema import MAX_LISTED_DECISIONS
from extender.server.admin import fork_worker
from extender.server.admin.cluster_dump import ClusterDumps
from extender.server.admin.decision_thread import DecisionThread
from extender.server.admin.fork_worker import ForkedWorker
from extender.server.admin.in_flight_limit import InFlightLimit, unless_gone
from extender.server.admin.simulate import SIMULATION_TIMEOUT_SECONDS, simulate_request
from extender.server.context import ServerContext
from extender.server.http.body import BodiesInFlight, read_body
from extender.server.http.errors import error_body, error_response
from extender.server.observability.cache_status import cache_summary
from extender.server.observability.decision_log import VERBS, DecisionQuery, KeptDecision
from extender.server.settings import not_evaluated_lines, scheduler_line
from extender.version import __version__

MAX_SIMULATIONS = 3
"""Maximum number of simulations in flight: one that runs, and two that wait with their bodies in memory."""

MAX_SIMULATE_BODY_BYTES = 8 << 20
"""Maximum body size of POST /simulate."""

MAX_SIMULATE_BYTES_IN_FLIGHT = (MAX_SIMULATIONS + 1) * MAX_SIMULATE_BODY_BYTES
"""Maximum size of all these bodies together: one arrives while the other three are in memory."""

MAX_SIMULATION_MEMORY_BYTES = 512 << 20
"""Memory that one simulation may allocate, beyond the cluster cache that it shares with the service."""

NOT_KEPT = "no such decision; the oldest ones are dropped (debug.decisions)"

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
_FILE_NAME = re.compile(r"[a-z0-9-]+\.[a-z]+")


class DebugEndpoints:
    """The endpoints that `debug.enabled` adds to the admin listener."""

    def __init__(self, server_context: ServerContext, decision_thread: DecisionThread) -> None:
        self._server_context, self._decision_thread = server_context, decision_thread
        self._dumps = ClusterDumps(server_context, decision_thread)
        self._simulating = asyncio.Lock()
        """Held by the running simulation."""
        self._simulations = InFlightLimit(MAX_SIMULATIONS, "simulations")
        self._simulation_bodies = BodiesInFlight(MAX_SIMULATE_BYTES_IN_FLIGHT)

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter(redirect_slashes=False)
        routes: list[tuple[str, str, Callable[..., Awaitable[Response]]]] = [
            ("GET", "/decisions", self.list_decisions),
            ("GET", "/decisions/{id}", self.show_decision),
            ("GET", "/decisions/{id}/pod", self.show_pod),
            ("GET", "/cluster", self._dumps.dump),
            ("GET", "/status", self.show_status),
            ("POST", "/simulate", self.simulate),
            ("GET", "/recording", self.show_recording),
            ("POST", "/recording", self.switch_recording),
            ("GET", "/", page),
            ("GET", "/ui", page),
            ("GET", "/ui/", page),
            ("GET", "/ui/{name}", page_file),
        ]
        for method, path, endpoint in routes:
            router.add_api_route(path, endpoint, methods=[method], response_class=Response)
        return router

    # --- decisions ---

    async def list_decisions(self, request: Request) -> Response:
        """List the latest decisions, newest first, filtered by `?pod=&node=&verb=&since=&until=&limit=`."""
        query = _query(request.query_params)
        decisions = await self._decision_thread.run(self._server_context.decisions.newest_first)
        return await run_in_threadpool(lambda: _json({"decisions": [one.summary for one in query.select(decisions)]}))

    async def show_decision(self, request: Request) -> Response:
        """Return one decision; `?pods=none` omits the pods, `?node=NAME` returns only that node, with its pods."""
        pods, node = request.query_params.get("pods", "all"), request.query_params.get("node")
        if pods not in ("all", "none"):
            raise RequestError(f"pods: must be all or none, not {pods!r}")
        kept = await self._kept_decision(request)
        if kept is None:
            return error_response(404, NOT_KEPT)
        if node is not None and node not in kept.nodes:
            return error_response(404, f"the decision did not consider node {node!r}")
        return await run_in_threadpool(lambda: _json(kept.decision(node, every_pod=pods == "all")))

    async def show_pod(self, request: Request) -> Response:
        """Return the pod of a decision, with the fields that decisions read, as input for POST /simulate."""
        kept = await self._kept_decision(request)
        if kept is None:
            return error_response(404, NOT_KEPT)
        return _json(strip_unread_fields("Pod", kept.pod.decode(), kept.scheduler.preemption.annotations))

    async def _kept_decision(self, request: Request) -> KeptDecision | None:
        id_ = request.path_params["id"]
        return await self._decision_thread.run(lambda: self._server_context.decisions.get(id_))

    # --- simulation, status and recording ---

    async def simulate(self, request: Request) -> Response:
        """Run a what-if simulation (docs/simulate.md), one at a time; cancel it if the client disconnects."""
        # 1. Above the limit, refuse before the body is read. A body may arrive slowly, so it takes no slot yet.
        with self._simulations.track():
            pass
        # 2. Read the body, within the limit of all bodies together.
        with self._simulation_bodies.track() as in_flight:
            body = await read_body(request, MAX_SIMULATE_BODY_BYTES, self._simulation_bodies, in_flight)
            # 3. Wait for the simulation under way, then simulate.
            with self._simulations.track():
                answer = await unless_gone(request, self._simulate(body))
        return Response(answer[3:], int(answer[:3]), media_type="application/json")

    async def _simulate(self, body: bytes) -> bytes:
        def start() -> ForkedWorker:
            snapshot, scheduler, history = self._server_context.simulation_inputs()
            return ForkedWorker.start(
                lambda: [simulate_in_child(snapshot, scheduler, body, history)],
                SIMULATION_TIMEOUT_SECONDS,
                MAX_SIMULATION_MEMORY_BYTES,
            )

        def inputs() -> tuple[ClusterObjects, KubeScheduler, bytes, EvictionHistory]:
            snapshot, scheduler, history = self._server_context.simulation_inputs()
            return snapshot.frozen(), scheduler, body, history

        async with self._simulating:
            if fork_worker.IS_FORK_SUPPORTED:
                worker = await self._decision_thread.run(start, ForkedWorker.abandon)
                return await worker.result(SIMULATION_TIMEOUT_SECONDS)
            return await run_in_threadpool(_simulate_to_bytes, *await self._decision_thread.run(inputs))

    async def show_status(self) -> Response:
        """Return the status that the page shows in its header."""
        return _json(await self._decision_thread.run_shared("status", lambda: _status(self._server_context)))

    async def show_recording(self) -> Response:
        """Return whether calls are being recorded, and where."""
        recorder = self._server_context.recorder
        return _json({"enabled": False} if recorder is None else await self._decision_thread.run(recorder.status))

    async def switch_recording(self, request: Request) -> Response:
        """Start or stop the recording: `{"enabled": true}` or false."""
        # It always writes into the configured directory: a path chosen over HTTP could overwrite any file.
        try:
            wanted = msgspec.json.decode(await read_body(request, 1024), type=_RecordingSwitch, strict=True)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RequestError(f'must be {{"enabled": true}} or {{"enabled": false}}: {error}') from error
        recorder = self._server_context.recorder
        if recorder is None:
            raise RequestError("recording has no directory: set recording.directory, or start with --record DIR")
        if wanted.enabled:
            await self._decision_thread.run(recorder.start)
        else:
            await run_in_threadpool(recorder.stop)
        return _json(await self._decision_thread.run(recorder.status))


class _RecordingSwitch(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool


def _query(given: Mapping[str, str]) -> DecisionQuery:
    unknown = sorted(set(given) - {"pod", "node", "verb", "since", "until", "limit"})
    if unknown:
        raise RequestError(f"{unknown[0]}: no such parameter; available: pod, node, verb, since, until and limit")
    verb, limit = given.get("verb"), given.get("limit", "100")
    if verb is not None and verb not in VERBS:
        raise RequestError(f"verb: must be one of {', '.join(VERBS)}, not {verb!r}")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= MAX_LISTED_DECISIONS:
        raise RequestError(f"limit: must be a number from 1 to {MAX_LISTED_DECISIONS}, not {limit!r}")
    since, until = (_time(key, given[key]) if key in given else None for key in ("since", "until"))
    return DecisionQuery(given.get("pod"), given.get("node"), verb, since, until, int(limit))


def _time(key: str, text: str) -> int:
    """Parse a point in time or an age into nanoseconds since the Unix epoch; RequestError for anything else."""
    try:
        return read_time(text, time.time_ns)
    except ValueError:
        expected = "a time such as 2026-03-01T12:00:00Z, or an age such as 15m"
        raise RequestError(f"{key}: must be {expected}, not {text!r}") from None


def simulate_in_child(snapshot: Snapshot, scheduler: KubeScheduler, body: bytes, history: EvictionHistory) -> bytes:
    """Simulate on the child's own snapshot, detached from the observer that records changes."""
    snapshot.observer = None
    try:
        return _simulate_to_bytes(snapshot, scheduler, body, history)
    except MemoryError:
        return b"503" + error_body(f"the simulation needs more than {MAX_SIMULATION_MEMORY_BYTES >> 20} MiB of memory")


def _simulate_to_bytes(
    cluster: ClusterObjects | Snapshot, scheduler: KubeScheduler, body: bytes, history: EvictionHistory
) -> bytes:
    """Return the HTTP status in three digits, followed by the body."""
    try:
        return b"200" + msgspec.json.encode(simulate_request(cluster, scheduler, body, history))
    except ExtenderError as error:
        return b"%d%b" % (error.status, error_body(str(error)))


def _status(server_context: ServerContext) -> dict[str, Any]:
    scheduler = server_context.settings.scheduler
    status: dict[str, Any] = {
        "version": __version__,
        "cache": cache_summary(server_context.cache, server_context.source),
        "ready": "",
        "notes": server_context.warnings(),
        "scheduler": scheduler_line(scheduler),
        "notEvaluated": not_evaluated_lines(scheduler),
        "policies": changed_policies(scheduler.profiles[0]),
        "presets": list(PRESETS),
        "decisions": server_context.decisions.counts(),
        "recording": None if server_context.recorder is None else server_context.recorder.status(),
    }
    try:
        snapshot = server_context.snapshot()
        counts = len(snapshot.nodes), len(snapshot.pod_table.row_of), len(snapshot.objects.budgets)
        status["cluster"] = dict(zip(("nodes", "pods", "budgets"), counts, strict=True))
    except ExtenderError as error:
        status["ready"] = str(error)
    return status


# --- the page -------------------------------------------------------------------------------------------------------


async def page(_: Request) -> Response:
    """Serve the web page."""
    return _file("index.html")


async def page_file(request: Request) -> Response:
    """Serve a script, style sheet or image of the web page, or its texts."""
    if request.path_params["name"] == "wording.json":
        return Response(wording.as_json(), media_type="application/json")
    return _file(request.path_params["name"])


def _file(name: str) -> Response:
    file: Traversable = files("extender.server") / "ui" / name
    media_type = _MEDIA_TYPES.get(name.rpartition(".")[2])
    if not _FILE_NAME.fullmatch(name) or media_type is None or not file.is_file():
        return error_response(404, "no such file")
    return Response(file.read_bytes(), media_type=media_type)


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
