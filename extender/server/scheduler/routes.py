"""The scheduler's port as an ASGI application: POST /filter, /prioritize, /preempt and /bind.

Rule: every request gets exactly one response, in JSON, never a redirect.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from extender.errors import INTERNAL, CallerGone, Overloaded, RequestError, VerbDisabled
from extender.server.context import ServerContext
from extender.server.http.body import BodiesInFlight, Body, caller_of, read_body
from extender.server.http.deadline import Deadline
from extender.server.http.errors import METHOD_NOT_ALLOWED, error_body, error_response
from extender.server.observability.tracing import Tracing
from extender.server.scheduler import openapi, verbs
from extender.server.scheduler.bind import bind
from extender.server.scheduler.result import Answer, CallVerb

PATHS: dict[str, CallVerb] = {"/filter": "filter", "/prioritize": "prioritize", "/preempt": "preempt", "/bind": "bind"}

NOT_FOUND = (
    "no such path: this listener serves POST /filter, /prioritize, /preempt and /bind; health, metrics and debug pages "
    "are on the admin listener (admin.port)"
)

BIND_DISABLED = "binding is disabled: set bind.enabled: true, or remove bindVerb from the scheduler's configuration"

BODIES_IN_FLIGHT = 1.5
"""Limit for the bodies of all calls in flight together, as a multiple of `server.maxBodyBytes`."""

RETRY_AFTER_SECONDS = "1"
"""Retry-After of an overload."""

_MAX_HEADER_CHARACTERS = 500


@dataclass(slots=True)
class SchedulerApp:
    """The application of the scheduler's listener."""

    server_context: ServerContext
    lifespan: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Context manager that runs the background tasks of the application."""
    stop: Callable[[], None] = lambda: None
    """Stops the process that serves the application; `server.run` sets it."""
    bodies: BodiesInFlight = field(init=False)

    def __post_init__(self) -> None:
        self.bodies = BodiesInFlight(int(BODIES_IN_FLIGHT * self.server_context.max_body_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            if scope["path"] not in PATHS:
                response = error_response(404, NOT_FOUND)
            elif scope["method"] != "POST":
                response = error_response(405, METHOD_NOT_ALLOWED, {"Allow": "POST"})
            else:
                response = await _call(PATHS[scope["path"]], request, self.server_context, self.bodies)
        except Exception:
            await error_response(500, INTERNAL)(scope, receive, send)
            raise  # uvicorn logs it
        await response(scope, receive, send)


async def _call(name: CallVerb, request: Request, server_context: ServerContext, bodies: BodiesInFlight) -> Response:
    """Answer one call; its duration is counted from its arrival, and every error becomes a response."""
    metrics, caller, is_overload = server_context.metrics, caller_of(request), False
    with metrics.track_in_flight() as in_flight, bodies.track() as body:
        limit, rejection = server_context.max_in_flight, None
        if in_flight > limit:
            reason = f"more than {limit} calls in flight (server.maxInFlight)"
            rejection = None if bodies.drop_slow(reason) else Overloaded(reason)
        ends_at = caller.arrived_at + server_context.timeout
        deadline = Deadline(ends_at, server_context.clock, rejection, caller.is_gone)
        try:
            answer = await _answer(name, request, server_context, deadline, body)
            closes = answer.status == 503
        except RequestError as error:
            answer, closes = Answer(error_body(str(error)), "error", error.status), error.status != 400
        except Exception as error:
            answer, closes = verbs.on_failure(name, server_context, error), True
            is_overload = isinstance(error, Overloaded) and answer.status == 503
    seconds = server_context.clock() - caller.arrived_at
    metrics.observe_request(name, answer.status, seconds)
    if server_context.tracing is not None:
        _trace(server_context.tracing, name, request, answer, seconds)
    headers = _headers(answer, closes=closes)
    if is_overload:
        headers["Retry-After"] = RETRY_AFTER_SECONDS
    return Response(answer.body, answer.status, headers, media_type="application/json")


async def _answer(
    name: CallVerb, request: Request, server_context: ServerContext, deadline: Deadline, body: Body
) -> Answer:
    """Read the body and answer the call; an overload is rejected before that, and a late call before it is decoded."""
    settings = server_context.settings
    if name != "bind":
        # A pass-through answer costs next to nothing, so overload does not reject it.
        if deadline.rejection is not None and settings.needs_cluster:
            raise deadline.rejection
        content = await _read_body(request, server_context.max_body_bytes, deadline, body)
        if settings.needs_cluster:
            deadline.check()
        return await verbs.answer_live(verbs.VERBS[name], server_context, content, deadline)
    if server_context.binder is None:
        raise VerbDisabled(BIND_DISABLED)
    if deadline.rejection is not None:
        raise deadline.rejection
    content = await _read_body(request, server_context.max_node_names_body_bytes, deadline, body)
    return await bind(server_context, server_context.binder, content, deadline)


async def _read_body(request: Request, cap: int, deadline: Deadline, body: Body) -> bytes:
    """Return the body; raises RequestError, Overloaded, DeadlineMissed or CallerGone."""
    try:
        return await read_body(request, cap, body)
    except ClientDisconnect:
        deadline.check()
        raise CallerGone("the caller closed the connection before its request was complete") from None


def _headers(answer: Answer, *, closes: bool) -> dict[str, str]:
    """Return the response headers. `closes`: the connection ends with this response.

    The rest of a rejected body may still arrive and must not be parsed as a request. After a failure, a new connection
    may reach another replica behind the Service.
    """
    headers = {}
    if answer.id is not None:
        headers[openapi.DECISION_HEADER] = answer.id
    if answer.cache_status is not None:
        headers[openapi.CACHE_HEADER] = answer.cache_status
    if answer.not_evaluated:
        headers[openapi.NOT_EVALUATED_HEADER] = ", ".join(answer.not_evaluated)
    if answer.veto_reason:
        printable = "".join(char if " " <= char <= "~" else "?" for char in answer.veto_reason)
        if len(printable) > _MAX_HEADER_CHARACTERS:
            printable = printable[: _MAX_HEADER_CHARACTERS - 3] + "..."
        headers[openapi.VETOED_HEADER] = printable
    if closes:
        headers["Connection"] = "close"
    return headers


def _trace(tracing: Tracing, name: str, request: Request, answer: Answer, seconds: float) -> None:
    attributes: dict[str, str | int] = {
        "http.request.method": "POST",
        "http.route": f"/{name}",
        "http.response.status_code": answer.status,
        "extender.verb": name,
    }
    if answer.id is not None:
        attributes["extender.decision"] = answer.id
    if answer.summary is not None:
        summary = answer.summary
        attributes |= {
            "extender.mode": summary.mode,
            "extender.nodes.sent": summary.sent,
            "extender.nodes.kept": summary.kept,
            "k8s.namespace.name": summary.namespace,
            "k8s.pod.name": summary.pod,
        }
    failed = answer.status >= 500 or (answer.summary is not None and answer.summary.mode == "failed")
    parent = request.headers.get("traceparent")
    tracing.record_span(f"POST /{name}", seconds, attributes, parent=parent, is_error=failed)
