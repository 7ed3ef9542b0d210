"""Debug routes of the admin listener: decisions, status, what-if simulations, recording and the web page.

State of the thread that decides is read on that thread (`DecisionThread.run`). A large decision is rendered on another
thread, and a what-if simulation runs in a forked child process, so that neither delays kube-scheduler's calls.

Rule: access control comes before these routes (`admin.app`); none of them is on the scheduler's listener.
"""

import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, get_args

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from extender.cluster.watch.decode import strip_unread_fields
from extender.config.preemption import PRESETS
from extender.errors import ExtenderError, NotFound, RequestError
from extender.k8s.time import read_time
from extender.report import wording
from extender.report.lists.page_schema import SimulationsInFlight
from extender.report.scheduler_report import changed_policies
from extender.report.schema import MAX_LISTED_DECISIONS, DecisionList, DecisionOutcome, DecisionSort
from extender.report.simulation_schema import Comparison, Simulation
from extender.server.admin.cluster_dump import ClusterDumps
from extender.server.admin.cluster_reports import ClusterReports
from extender.server.admin.decision_thread import DecisionThread
from extender.server.admin.health import readiness
from extender.server.admin.in_flight_limit import InFlightLimit, unless_gone
from extender.server.admin.pending_list import PendingPods
from extender.server.admin.simulate import simulate_request
from extender.server.admin.snapshot_copy import SnapshotCopies
from extender.server.context import ServerContext, WorkInputs
from extender.server.http.body import YAML_TYPE, BodiesInFlight, media_type_of, read_body
from extender.server.http.errors import error_response
from extender.server.http.query import check_parameters, choice, number
from extender.server.http.response import json_response
from extender.server.observability.cache_status import cache_summary
from extender.server.observability.decision_log import VERBS, DecisionQuery, KeptDecision
from extender.utilities.text import suggestion
from extender.version import __version__
from extender.whatif.simulator import SimulationProgress

MAX_SIMULATIONS = 3
"""Maximum number of simulations in flight: one that runs, and two that wait with their bodies in memory."""

MAX_SIMULATE_BODY_BYTES = 8 << 20
"""Maximum body size of POST /simulate."""

MAX_SIMULATE_BYTES_IN_FLIGHT = (MAX_SIMULATIONS + 1) * MAX_SIMULATE_BODY_BYTES
"""Maximum size of all these bodies together: one arrives while the other three are in memory."""

_OUTCOMES: tuple[DecisionOutcome, ...] = get_args(DecisionOutcome)
_SORTS: tuple[DecisionSort, ...] = get_args(DecisionSort)

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
        self._copies = SnapshotCopies(server_context, decision_thread)
        self._reports = ClusterReports(server_context, decision_thread, self._copies)
        self._pending = PendingPods(self._copies)
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
            ("GET", "/pending", self._pending.show),
            ("GET", "/nodes", self._reports.list_nodes),
            ("GET", "/nodes/{name:path}", self._reports.show_node),
            ("GET", "/why/{namespace}/{name:path}", self._reports.why),
            ("GET", "/status", self.show_status),
            ("POST", "/simulate", self.simulate),
            ("GET", "/simulate", self.show_progress),
            ("GET", "/recording", self.show_recording),
            ("POST", "/recording", self.switch_recording),
            ("GET", "/", page),
            ("GET", "/ui", page),
            ("GET", "/ui/", page),
            ("GET", "/ui/{name}", page_file),
        ]
        # One route per path: of several, Starlette names only the methods of the first in the Allow header.
        by_path: dict[str, dict[str, Callable[..., Awaitable[Response]]]] = {}
        for method, path, endpoint in routes:
            by_path.setdefault(path, {})[method] = endpoint
        for path, of in by_path.items():
            endpoint = _by_method(of) if len(of) > 1 else next(iter(of.values()))
            router.add_api_route(path, endpoint, methods=[*of], response_class=Response)
        return router

    # --- decisions ---

    async def list_decisions(self, request: Request) -> Response:
        """List kept decisions, latest first or by `?sort=`, filtered by the parameters of `_query`."""
        query = _query(request.query_params)
        decisions = await self._decision_thread.run(self._server_context.decisions.newest_first)

        def select() -> DecisionList:
            found, matching = query.select(decisions)
            return DecisionList(decisions=[one.summary for one in found], matching=matching, kept=len(decisions))

        return await run_in_threadpool(lambda: json_response(select()))

    async def show_decision(self, request: Request) -> Response:
        """Return one decision; `?pods=none` omits the pods, `?node=NAME` returns only that node, with its pods."""
        pods, node = request.query_params.get("pods", "all"), request.query_params.get("node")
        if pods not in ("all", "none"):
            raise RequestError(f"pods: must be all or none, not {pods!r}")
        kept = await self._kept_decision(request)
        if node is not None and node not in kept.nodes:
            raise NotFound(await self._not_considered(node))
        return await run_in_threadpool(lambda: json_response(kept.decision(node, every_pod=pods == "all")))

    async def _not_considered(self, node: str) -> str:
        cache = self._server_context.cache
        with contextlib.suppress(ExtenderError):  # not synced: whether the node exists is not known
            known = await self._decision_thread.run(lambda: cache.snapshot().frozen_node_names)
            if node not in known:
                return f"the cluster has no node {node!r}{await run_in_threadpool(suggestion, node, known)}"
        return f"the decision did not consider node {node!r}: kube-scheduler did not send it"

    async def show_pod(self, request: Request) -> Response:
        """Return the pod of a decision, with the fields that decisions read, as input for POST /simulate."""
        kept = await self._kept_decision(request)
        return json_response(strip_unread_fields("Pod", kept.pod.decode(), kept.scheduler.preemption.annotations))

    async def _kept_decision(self, request: Request) -> KeptDecision:
        id_ = request.path_params["id"]
        kept = await self._decision_thread.run(lambda: self._server_context.decisions.get(id_))
        if kept is None:
            raise NotFound(NOT_KEPT)
        return kept

    # --- simulation, status and recording ---

    async def simulate(self, request: Request) -> Response:
        """Run a what-if simulation (docs/simulate.md), one at a time; cancel it if the client disconnects."""
        # 1. Above the limit, refuse before the body is read. A body may arrive slowly, so it takes no slot yet.
        with self._simulations.track():
            pass
        # 2. Read the body, within the limit of all bodies together.
        with self._simulation_bodies.track() as in_flight:
            body = await read_body(
                request, MAX_SIMULATE_BODY_BYTES, self._simulation_bodies, in_flight, takes_yaml=True
            )
            # 3. Wait for the simulation under way, then simulate.
            with self._simulations.track():
                is_yaml, progress = media_type_of(request.headers) == YAML_TYPE, SimulationProgress()

                def simulate(given: WorkInputs) -> Simulation | Comparison:
                    inputs = given.cluster, given.scheduler, body, given.history, given.source, progress
                    return simulate_request(*inputs, is_yaml=is_yaml)

                return await unless_gone(request, self._copies.run(simulate, "simulate fewer pods", progress))

    async def show_progress(self, request: Request) -> Response:
        """Return how far the simulation has come that runs now."""
        check_parameters(request.query_params, ())
        progress, in_flight = self._copies.progress, self._simulations.in_flight
        return json_response(SimulationsInFlight(in_flight=in_flight, tried=progress.tried, pods=progress.pods))

    async def show_status(self) -> Response:
        """Return the status that the page shows in its header."""
        return json_response(await self._decision_thread.run_shared("status", lambda: _status(self._server_context)))

    async def show_recording(self, request: Request) -> Response:
        """Return whether calls are being recorded, and where."""
        check_parameters(request.query_params, ())
        recorder = self._server_context.recorder
        return json_response(
            {"enabled": False} if recorder is None else await self._decision_thread.run(recorder.status)
        )

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
        return json_response(await self._decision_thread.run(recorder.status))


def _by_method(endpoints: Mapping[str, Callable[[Request], Awaitable[Response]]]) -> Callable[..., Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await endpoints[request.method](request)

    return answer


class _RecordingSwitch(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool


def _query(given: Mapping[str, str]) -> DecisionQuery:
    check_parameters(given, ("pod", "node", "verb", "outcome", "text", "since", "until", "sort", "offset", "limit"))
    since, until = (_time(key, given[key]) if key in given else None for key in ("since", "until"))
    return DecisionQuery(
        given.get("pod"),
        given.get("node"),
        choice(given, "verb", VERBS),
        since,
        until,
        number(given, "limit", 100, 1, MAX_LISTED_DECISIONS),
        choice(given, "outcome", _OUTCOMES),
        given.get("text", ""),
        choice(given, "sort", _SORTS) or "time",
        number(given, "offset", 0, 0, 10**8),
    )


def _time(key: str, text: str) -> int:
    """Parse a point in time or an age into nanoseconds since the Unix epoch; RequestError for anything else."""
    try:
        return read_time(text, time.time_ns)
    except ValueError:
        expected = "a time such as 2026-03-01T12:00:00Z, or an age such as 15m"
        raise RequestError(f"{key}: must be {expected}, not {text!r}") from None


def _status(server_context: ServerContext) -> dict[str, Any]:
    scheduler = server_context.settings.scheduler
    problem, checks = readiness(server_context)
    status: dict[str, Any] = {
        "version": __version__,
        "source": server_context.where(),
        "cache": cache_summary(server_context.cache, server_context.source),
        "ready": problem,
        "checks": checks,
        "policies": changed_policies(scheduler.profiles[0]),
        "presets": list(PRESETS),
        "decisions": server_context.decisions.counts(),
        "recording": None if server_context.recorder is None else server_context.recorder.status(),
    }
    with contextlib.suppress(ExtenderError):  # `checks` has the reason
        snapshot = server_context.snapshot()
        counts = len(snapshot.nodes), len(snapshot.pod_table.row_of), len(snapshot.objects.budgets)
        status["cluster"] = dict(zip(("nodes", "pods", "budgets"), counts, strict=True))
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
